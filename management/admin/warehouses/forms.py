"""The forms of a warehouse: its store, credential and rules, and the request that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.utils.translation import gettext_lazy as _

from icekeeper.kernel.errors.types import CatalogError
from management.admin.navigation import Text
from management.admin.warehouses.checks import CheckList
from management.admin.warehouses.form_fields import (
    ShownField,
    entered_value,
    error_text,
    field_for,
    field_name,
    find_member,
    member_value,
    select_widget,
    shown_field,
    text_widget,
)
from management.admin.warehouses.storage_fields import (
    CREDENTIAL,
    NO_CREDENTIAL,
    PROFILE,
    StorageField,
    Store,
    credential_fields,
    find_store,
    profile_fields,
    store_of,
)
from storage.documents import literal_value
from storage.models import Warehouse
from storage.services.warehouses import DEFAULT_ALLOWED_FORMAT_VERSIONS, SUPPORTED_FORMAT_VERSIONS

NAME: Final = "warehouse-name"
MANAGED_BY: Final = "managed-by"
FORMATS, DEFAULT_FORMAT = "allowed-format-versions", "default-format-version"
DELETES, WINDOW, UNIT = "delete-profile.type", "delete-profile.expiration-seconds", "delete-profile.unit"

_UNITS: Final = ((86_400, _("days")), (3_600, _("hours")), (60, _("minutes")), (1, _("seconds")))


@dataclass(frozen=True, slots=True)
class Section:
    """A card of the form: `fields` are always shown, `more` are in a closed section."""

    title: Text
    note: Text
    fields: Sequence[ShownField]
    more: Sequence[ShownField] = ()

    @property
    def is_open(self) -> bool:
        return any(each.is_set for each in self.more)


class RequestForm(forms.Form):
    """A form whose fields are members of a request: their names are the paths that errors have in `field`."""

    specs: dict[str, StorageField]
    error_css_class = "ik-error"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, auto_id="ik-%s", label_suffix="")
        self.specs = {}
        self.other_errors: list[str] = []

    def add_members(
        self, specs: Iterable[StorageField], *, is_update: bool = False, keeps_stored: bool = False
    ) -> None:
        """Add a field for each member. With `keeps_stored` none is required: empty ones keep what is stored."""
        for spec in specs:
            self.specs[spec.path] = spec
            self.fields[spec.path] = field = field_for(spec, is_update=is_update)
            self.initial.setdefault(spec.path, spec.default)
            if keeps_stored:
                field.widget.attrs.pop("required", None)

    def members(self, prefix: str) -> dict[str, Any]:
        """Return the JSON object of the fields below `prefix`, without empty ones, and without those of variants that
        are not chosen. Call it after `is_valid`, and check `errors` again afterwards."""
        document: dict[str, Any] = {}
        for path, spec in self.specs.items():
            if not path.startswith(f"{prefix}.") or path not in self.cleaned_data:
                continue
            if spec.variants and self.cleaned_data.get(f"{path.rpartition('.')[0]}.type") not in spec.variants:
                continue
            try:
                value = member_value(spec, self.cleaned_data[path])
            except forms.ValidationError as error:
                self.add_error(path, error)
                continue
            if value is not None:
                _put(document, path.split(".")[1:], value)
        return document

    def shown(self, path: str, *, is_wide: bool = False) -> ShownField:
        return shown_field(self[path], self.specs.get(path), is_wide=is_wide)

    def shown_members(self, prefix: str, *, is_common: bool) -> list[ShownField]:
        return [
            self.shown(path)
            for path, spec in self.specs.items()
            if path.startswith(f"{prefix}.") and spec.is_common == is_common
        ]

    def show_error(self, error: CatalogError) -> None:
        """Show the error of a service at its field, or above the form if it has none. Call it after `is_valid`."""
        self.show_error_at(error.field, " ".join(filter(None, (error_text(error), error.hint))))

    def show_error_at(self, path: str | None, text: str) -> None:
        name = field_name(self.fields, path)
        if name is None:
            self.other_errors.append(text)
        elif text not in self.errors.get(name, []):
            self.add_error(name, text)

    def show_failures(self, checks: CheckList) -> None:
        """Show the failures of a validation at their fields as well."""
        for each in checks.checks:
            if each.field and each.field_text:
                self.show_error_at(each.field, str(each.field_text))


def _put(document: dict[str, Any], steps: Sequence[str], value: Any) -> None:
    for step in steps[:-1]:
        document = document.setdefault(step, {})
    document[steps[-1]] = value


class RulesForm(RequestForm):
    """Drops and format versions of a warehouse."""

    def add_delete_profile(self) -> None:
        self.fields[DELETES] = forms.ChoiceField(
            label=_("Dropped tables and views"),
            choices=[("hard", _("are deleted at once")), ("soft", _("can be restored for a time"))],
            widget=select_widget(),
        )
        self.fields[WINDOW] = forms.IntegerField(
            label=_("Can be restored for"),
            required=False,
            min_value=0,
            widget=forms.NumberInput({"class": "ik-input"}),
        )
        self.fields[UNIT] = forms.TypedChoiceField(
            label=_("Unit"), choices=_UNITS, coerce=int, required=False, empty_value=None, widget=select_widget()
        )
        for name, value in {DELETES: "soft", WINDOW: 7, UNIT: 86_400}.items():
            self.initial.setdefault(name, value)

    def delete_profile(self) -> dict[str, Any]:
        own = self.cleaned_data
        if own.get(DELETES) != "soft":
            return {"type": "hard"}
        number = own.get(WINDOW)
        seconds = None if number is None else number * (own.get(UNIT) or 1)
        return {"type": "soft", "expiration-seconds": seconds}

    def add_format_policy(self) -> None:
        self.fields[FORMATS] = forms.TypedMultipleChoiceField(
            label=_("Allowed format versions"),
            choices=[(each, f"v{each}") for each in SUPPORTED_FORMAT_VERSIONS],
            coerce=int,
            required=False,
            widget=forms.CheckboxSelectMultiple(),
        )
        self.fields[DEFAULT_FORMAT] = forms.TypedChoiceField(
            label=_("Default format version"),
            choices=[("", _("2 if allowed, else the highest")), *((each, f"v{each}") for each in (1, 2, 3, 4))],
            coerce=int,
            empty_value=None,
            required=False,
            help_text=_("Of tables whose creator chooses none"),
            widget=select_widget(),
        )
        self.initial.setdefault(FORMATS, list(DEFAULT_ALLOWED_FORMAT_VERSIONS))

    def add_managed_by(self) -> None:
        self.fields[MANAGED_BY] = forms.ChoiceField(
            label=_("Changed by"),
            choices=[
                (Warehouse.ManagedBy.SELF_MANAGED.value, _("users with the permission")),
                (Warehouse.ManagedBy.INSTANCE_ADMIN.value, _("instance admins only")),
            ],
            widget=select_widget(),
        )

    def add_name(self) -> None:
        self.fields[NAME] = forms.CharField(
            label=_("Name"),
            required=False,
            strip=False,
            help_text=_("Engines address it by its name, or as `<project id>/<name>`"),
            widget=text_widget(required=True, maxlength=128),
        )


class WarehouseForm(RulesForm):
    """A new warehouse in a store: the body of the management API's request to create one.

    `initial` has values by path; `chooses_manager`: the user may reserve changes for instance admins.
    """

    def __init__(self, *, store: Store, credential_type: str, chooses_manager: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.store = store
        self.credential_type = credential_type
        self.credential = store.credential(credential_type)
        self.add_name()
        self.add_members(profile_fields(store.profile))
        if self.credential is not None:
            self.add_members(credential_fields(self.credential))
        self.add_delete_profile()
        self.add_format_policy()
        self.fields["protected"] = forms.BooleanField(
            label=_("Protect from deletion"),
            required=False,
            help_text=_("A protected warehouse is deleted with force only"),
        )
        if chooses_manager:
            self.add_managed_by()

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `create_warehouse`, except actor and project. Call it after `is_valid`."""
        own = self.cleaned_data
        return {
            "name": own[NAME],
            "storage_profile": {
                "type": literal_value(self.store.profile, "type"),
                **self.members(PROFILE),
            },
            "storage_credential": credential_document(self),
            "delete_profile": self.delete_profile(),
            "allowed_format_versions": own[FORMATS],
            "default_format_version": own[DEFAULT_FORMAT],
            "managed_by": own.get(MANAGED_BY) or Warehouse.ManagedBy.SELF_MANAGED.value,
        }

    def sections(self) -> list[Section]:
        rules = [self.shown(DELETES, is_wide=True)]
        rules += [self.shown(name) for name in (WINDOW, UNIT, FORMATS, DEFAULT_FORMAT, "protected")]
        if MANAGED_BY in self.fields:
            rules.append(self.shown(MANAGED_BY))
        return [Section(_("Rules"), _("They can be changed later."), rules)]

    def storage_section(self) -> Section:
        return Section(
            _("Storage"),
            "",
            [self.shown(NAME), *self.shown_members(PROFILE, is_common=True)],
            self.shown_members(PROFILE, is_common=False),
        )

    def credential_section(self) -> Section:
        return Section(
            _("Credentials"),
            _("stored encrypted, never shown again"),
            self.shown_members(CREDENTIAL, is_common=True),
        )


class StorageForm(RequestForm):
    """The storage profile and the credential of a warehouse, or with `has_profile` false the credential alone.

    While the type of the credential is the stored one, its fields may stay empty: then it is kept.
    """

    def __init__(self, *, warehouse: Warehouse, credential_type: str, has_profile: bool, **options: Any) -> None:
        stored = warehouse.storage_profile
        store = store_of_warehouse(warehouse)
        specs = profile_fields(store.profile)
        super().__init__(initial=stored_profile_values(stored, specs), **options)
        self.stored, self.store = stored, store
        self.credential = store.credential(credential_type)
        self.is_stored_type = credential_type == (warehouse.credential_type or NO_CREDENTIAL)
        self.may_keep = has_profile and self.is_stored_type
        if has_profile:
            self.add_members(specs, is_update=True)
        if self.credential is not None:
            self.add_members(credential_fields(self.credential), keeps_stored=self.may_keep)

    def profile(self) -> dict[str, Any]:
        """Return the storage profile. Members that have their default stay null where they are stored as null."""
        document = {"type": self.stored["type"], **self.members(PROFILE)}
        unchanged = [
            spec.member
            for spec in profile_fields(self.store.profile)
            if spec.default is not None
            and document.get(spec.member) == spec.default
            and self.stored.get(spec.member, spec.default) is None
        ]
        return {name: value for name, value in document.items() if name not in unchanged}

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `update_storage` about the credential. Call it after `is_valid`."""
        if self.may_keep and not self.members(CREDENTIAL):
            return {"storage_credential": None, "keeps_credential": True}
        return {"storage_credential": credential_document(self), "keeps_credential": False}


def store_of_warehouse(warehouse: Warehouse) -> Store:
    """Return the store of a warehouse. Raises `NotFound` for a type that has no form."""
    store = store_of(warehouse.storage_profile["type"], warehouse.credential_type)
    return find_store(warehouse.storage_profile["type"]) if store is None else store


def credential_document(form: Any) -> dict[str, Any] | None:
    """Return the storage credential that a form with `credential` contains; None for the choice to have none."""
    shape = form.credential
    if shape is None:
        return None
    return {
        "type": literal_value(shape, "type"),
        "credential-type": literal_value(shape, "credential_type"),
        **form.members(CREDENTIAL),
    }


def stored_profile_values(profile: Mapping[str, Any], specs: Iterable[StorageField]) -> dict[str, Any]:
    """Return the values of the fields of a profile, by path."""
    found = {spec.path: entered_value(spec, find_member({PROFILE: profile}, spec)) for spec in specs}
    return {path: value for path, value in found.items() if value is not None}


def rule_values(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the fields of the rules, by path, of a request or a warehouse as JSON."""
    values: dict[str, Any] = {}
    deletes = document.get("delete-profile")
    if isinstance(deletes, Mapping):
        values[DELETES] = deletes.get("type")
        seconds = deletes.get("expiration-seconds")
        if type(seconds) is int and seconds >= 0:
            unit = next(each for each, _label in _UNITS if seconds % each == 0)
            values[WINDOW], values[UNIT] = seconds // unit, unit
    if isinstance(document.get(FORMATS), list):
        values[FORMATS] = document[FORMATS]
    for name in (DEFAULT_FORMAT, MANAGED_BY):
        if isinstance(document.get(name), str | int):
            values[name] = document[name]
    return values


def chosen_credential_type(store: Store, wanted: str | None) -> str:
    """Return the type of credential of an address, the first of the store without. Raises `NotFound`."""
    if not wanted:
        return store.first_credential_type
    if wanted != NO_CREDENTIAL:
        store.credential(wanted)
    elif not store.needs_no_credential:
        return store.first_credential_type
    return wanted
