"""The page that changes a warehouse: one form for each rule, each saved by one service, and its deletion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.services.delete_warehouse import delete_warehouse
from icekeeper.kernel.errors.types import BadRequest, CatalogError
from management.admin.navigation import Crumb, Text, object_url
from management.admin.pages import Page
from management.admin.warehouses.actions import allowed_changes
from management.admin.warehouses.form_conflicts import FormConflict, describe_conflict, read_version
from management.admin.warehouses.form_fields import DENIED, ShownField, text_widget
from management.admin.warehouses.forms import (
    DEFAULT_FORMAT,
    DELETES,
    FORMATS,
    MANAGED_BY,
    NAME,
    UNIT,
    WINDOW,
    RequestForm,
    RulesForm,
    rule_values,
)
from storage.models import Warehouse
from storage.selectors import get_warehouse_for
from storage.services.warehouse_changes import (
    WarehouseChanged,
    activate_warehouse,
    deactivate_warehouse,
    rename_warehouse,
    set_delete_profile,
    set_format_version_policy,
    set_managed_by,
    set_warehouse_protection,
)
from tenancy.actor import is_instance_admin
from tenancy.authz.actions import Can
from tenancy.authz.permissions import action_forbidden
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Edit:
    """A part of a warehouse that is changed by one service; `arguments` reads those of `service` from its form."""

    title: Text
    note: Text
    button: Text
    action: Can | None
    service: Callable[..., Warehouse]
    add_fields: Callable[[RulesForm], None]
    names: tuple[str, ...]
    arguments: Callable[[RulesForm], dict[str, Any]]


def _no_fields(_form: RulesForm) -> None:
    """A button alone."""


EDITS: Final[dict[str, Edit]] = {
    "rename": Edit(
        gettext_lazy("Name"),
        gettext_lazy("Clients that use the former name no longer find the warehouse."),
        gettext_lazy("Rename"),
        Can.RENAME,
        rename_warehouse,
        RulesForm.add_name,
        (NAME,),
        lambda form: {"new_name": form.cleaned_data[NAME]},
    ),
    "delete-profile": Edit(
        gettext_lazy("Drops"),
        gettext_lazy("It applies to later drops."),
        gettext_lazy("Save"),
        Can.MODIFY_SOFT_DELETION,
        set_delete_profile,
        RulesForm.add_delete_profile,
        (DELETES, WINDOW, UNIT),
        lambda form: {"delete_profile": form.delete_profile()},
    ),
    "format-policy": Edit(
        gettext_lazy("Format versions"),
        gettext_lazy("Of tables that are created or upgraded later."),
        gettext_lazy("Save"),
        Can.SET_FORMAT_VERSION_POLICY,
        set_format_version_policy,
        RulesForm.add_format_policy,
        (FORMATS, DEFAULT_FORMAT),
        lambda form: {"allowed": form.cleaned_data[FORMATS], "default": form.cleaned_data[DEFAULT_FORMAT]},
    ),
    "managed-by": Edit(
        gettext_lazy("Changes"),
        gettext_lazy("Users who can change or delete the warehouse; objects in it are not affected."),
        gettext_lazy("Save"),
        None,
        set_managed_by,
        RulesForm.add_managed_by,
        (MANAGED_BY,),
        lambda form: {"managed_by": form.cleaned_data[MANAGED_BY]},
    ),
    "protect": Edit(
        gettext_lazy("Protection"),
        gettext_lazy("A protected warehouse is deleted with force only."),
        gettext_lazy("Protect"),
        Can.SET_PROTECTION,
        set_warehouse_protection,
        _no_fields,
        (),
        lambda _form: {"is_protected": True},
    ),
    "remove-protection": Edit(
        gettext_lazy("Protection"),
        gettext_lazy("A protected warehouse is deleted with force only."),
        gettext_lazy("Remove protection"),
        Can.SET_PROTECTION,
        set_warehouse_protection,
        _no_fields,
        (),
        lambda _form: {"is_protected": False},
    ),
    "activate": Edit(
        gettext_lazy("Status"),
        gettext_lazy("Engines do not see an inactive warehouse."),
        gettext_lazy("Activate"),
        Can.ACTIVATE,
        activate_warehouse,
        _no_fields,
        (),
        lambda _form: {},
    ),
    "deactivate": Edit(
        gettext_lazy("Status"),
        gettext_lazy("Engines do not see an inactive warehouse. Queued tasks still run."),
        gettext_lazy("Deactivate"),
        Can.DEACTIVATE,
        deactivate_warehouse,
        _no_fields,
        (),
        lambda _form: {},
    ),
}


@dataclass(frozen=True, slots=True)
class EditCard:
    """An `Edit` as the template shows it."""

    slug: str
    title: Text
    note: Text
    button: Text
    fields: list[ShownField]
    errors: list[str]
    conflict: FormConflict | None = None


def edit_form(slug: str, warehouse: Warehouse, data: Any = None) -> RulesForm:
    """Return the form of an edit, with the stored values."""
    form = RulesForm(data=data, initial=stored_rules(warehouse))
    EDITS[slug].add_fields(form)
    return form


def stored_rules(warehouse: Warehouse) -> dict[str, Any]:
    """Return the stored values of all fields, by path."""
    document = {
        "delete-profile": warehouse.delete_profile,
        FORMATS: warehouse.allowed_format_versions,
        DEFAULT_FORMAT: warehouse.default_format_version,
        MANAGED_BY: warehouse.managed_by,
    }
    return {NAME: warehouse.name, **rule_values(document)}


class WarehousePart(Page):
    """A page about changes of one warehouse. It needs the permission for one of them."""

    section = "warehouses"
    warehouse: Warehouse
    changes: frozenset[Can]

    def read_warehouse(self) -> None:
        """Read the warehouse, and what the user may change. Raises `NoSuchWarehouse`, `Forbidden`."""
        warehouse_id = self.kwargs["warehouse_id"]
        self.warehouse = get_warehouse_for(actor=self.actor, action=Can.GET_METADATA, warehouse_id=warehouse_id)
        self.changes = allowed_changes(self.actor, self.warehouse)

    def require(self, action: Can) -> None:
        if action not in self.changes:
            raise action_forbidden(self.actor, action, ObjectRef(Securable.Type.WAREHOUSE, self.warehouse.pk))

    def frame(self, title: str) -> dict[str, Any]:
        own = self.warehouse
        return {
            "title": title,
            "breadcrumb": [
                Crumb(_("Warehouses"), reverse("admin:warehouses")),
                Crumb(own.name, object_url("warehouse", own.pk, None)),
                Crumb(title),
            ],
            "warehouse_id": own.pk,
            "warehouse_name": own.name,
            "version": own.version,
            "back_url": object_url("warehouse", own.pk, None),
        }


class WarehouseEditPage(WarehousePart):
    """The rules of a warehouse, each with its own button; every form carries the version that it was filled from."""

    template_name = "console/warehouse_edit.html"

    def context(self) -> dict[str, Any]:
        self.read_warehouse()
        return self._shown()

    def post(self, request: HttpRequest, **_path: Any) -> HttpResponse:
        """Change one part by its service. After a concurrent change 409, with the input and the stored values."""
        slug = request.POST.get("action", "")
        if slug not in EDITS:
            raise BadRequest("action: must be one of the buttons of the page")
        edit, version = EDITS[slug], read_version(request.POST)
        self.read_warehouse()
        form = edit_form(slug, self.warehouse, request.POST)
        if not form.is_valid():
            return self.render(self._shown(slug, form), status=HTTPStatus.BAD_REQUEST)
        try:
            changed = edit.service(
                actor=self.actor, warehouse_id=self.warehouse.pk, expected_version=version, **edit.arguments(form)
            )
        except DENIED:
            raise
        except WarehouseChanged:
            self.read_warehouse()
            conflict = describe_conflict(self.actor, self.warehouse, form, edit_form(slug, self.warehouse))
            return self.render(self._shown(slug, form, conflict), status=HTTPStatus.CONFLICT)
        except CatalogError as error:
            form.show_error(error)
            return self.render(self._shown(slug, form), status=error.status)
        values = {"name": changed.name, "part": edit.title}
        messages.success(request, _("%(part)s of the warehouse %(name)s was changed.") % values)
        return HttpResponseRedirect(reverse("admin:warehouse-edit", args=[changed.pk]))

    def _shown(
        self, slug: str = "", form: RulesForm | None = None, conflict: FormConflict | None = None
    ) -> dict[str, Any]:
        own = self.warehouse
        cards = []
        for name, edit in EDITS.items():
            is_posted = name == slug
            if not is_posted and not self._is_offered(name, edit):
                continue
            shown = form if is_posted and form is not None else edit_form(name, own)
            fields = [shown.shown(each, is_wide=each == DELETES) for each in edit.names]
            found = conflict if is_posted else None
            cards.append(EditCard(name, edit.title, edit.note, edit.button, fields, shown.other_errors, found))
        if not cards and not self.changes:
            self.require(Can.RENAME)
        return {
            **self.frame(_("Change %(name)s") % {"name": own.name}),
            "cards": cards,
            "can_update_storage": Can.UPDATE_STORAGE in self.changes,
            "has_credentials": bool(own.credential_type),
            "can_delete": Can.DELETE in self.changes,
        }

    def _is_offered(self, slug: str, edit: Edit) -> bool:
        own = self.warehouse
        hidden = {
            "protect" if own.protected else "remove-protection",
            "activate" if own.status == Warehouse.Status.ACTIVE else "deactivate",
            *(["rename"] if own.status != Warehouse.Status.ACTIVE else []),
        }
        may_change = is_instance_admin(self.actor) if edit.action is None else edit.action in self.changes
        return slug not in hidden and may_change


class DeleteForm(RequestForm):
    """The confirmation of a deletion: the name of the warehouse, and for a protected one that it is deleted anyway."""

    def __init__(self, *, warehouse: Warehouse, **options: Any) -> None:
        super().__init__(**options)
        self.name = warehouse.name
        self.fields["name"] = forms.CharField(
            label=_("Type the name of the warehouse to confirm"),
            strip=False,
            required=False,
            widget=text_widget(required=True),
        )
        if warehouse.protected:
            self.fields["force"] = forms.BooleanField(
                label=_("The warehouse is protected: delete it nevertheless"), required=False
            )

    def clean_name(self) -> str:
        entered: str = self.cleaned_data["name"]
        if entered != self.name:
            raise forms.ValidationError(_("This is not the name of the warehouse."))
        return entered


class WarehouseDeletePage(WarehousePart):
    """The confirmation of a deletion."""

    template_name = "console/warehouse_delete.html"

    def context(self) -> dict[str, Any]:
        self.read_warehouse()
        self.require(Can.DELETE)
        return self._shown(DeleteForm(warehouse=self.warehouse))

    def post(self, request: HttpRequest, **_path: Any) -> HttpResponse:
        version = read_version(request.POST)
        self.read_warehouse()
        form = DeleteForm(warehouse=self.warehouse, data=request.POST)
        if not form.is_valid():
            return self.render(self._shown(form), status=HTTPStatus.BAD_REQUEST)
        try:
            delete_warehouse(
                actor=self.actor,
                warehouse_id=self.warehouse.pk,
                force=bool(form.cleaned_data.get("force")),
                expected_version=version,
            )
        except DENIED:
            raise
        except CatalogError as error:
            self.read_warehouse()
            form.show_error(error)
            return self.render(self._shown(form), status=error.status)
        messages.success(request, _("Warehouse %(name)s was deleted. Its files stay.") % {"name": self.warehouse.name})
        return HttpResponseRedirect(reverse("admin:warehouses"))

    def _shown(self, form: DeleteForm) -> dict[str, Any]:
        return {
            **self.frame(_("Delete %(name)s?") % {"name": self.warehouse.name}),
            "fields": [form.shown(name) for name in form.fields],
            "errors": form.other_errors,
            "location": self.warehouse.location,
            "has_credential": bool(self.warehouse.credential_type),
        }
