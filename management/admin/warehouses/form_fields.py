"""Fields of forms as templates show them, and the Django fields for what `storage_fields` derives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from icekeeper.kernel.errors.types import BadRequest, CatalogError, Forbidden, NotFound, Unauthorized
from icekeeper.kernel.json.strict import read_json
from management.admin.navigation import Text
from management.admin.warehouses.storage_fields import Kind, StorageField

YES, NO = "true", "false"
DENIED: Final = (Forbidden, NotFound, Unauthorized)
"""Errors of services that have their own page; all others are shown in the form."""


class SecretInput(forms.PasswordInput):
    """A password input; no page contains its value, and browsers do not offer to save it."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__({"class": "ik-input", "autocomplete": "new-password", "spellcheck": "false", **attrs})


class SecretFile(forms.Textarea):
    """A text area for a document with secrets; no page contains its value."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(
            {"class": "ik-input ik-mono", "rows": 6, "autocomplete": "off", "spellcheck": "false", **attrs}
        )

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context(name, "", attrs)
        return context


@dataclass(frozen=True, slots=True)
class ShownField:
    """A field with its rendered widget. `kind`: a `checkbox` has its label behind it, a `group` has several inputs."""

    id: str
    label: Text
    html: SafeString
    kind: str
    help: Text
    errors: tuple[str, ...]
    is_required: bool
    is_wide: bool
    is_set: bool
    """Whether it differs from its default, so that a closed section with it is opened."""


def text_widget(*, placeholder: Text = "", **attrs: Any) -> forms.TextInput:
    shown = {"placeholder": placeholder} if placeholder else {}
    return forms.TextInput({"class": "ik-input", "autocomplete": "off", "spellcheck": "false", **shown, **attrs})


def select_widget() -> forms.Select:
    return forms.Select({"class": "ik-select"})


def field_for(spec: StorageField, *, is_update: bool = False) -> forms.Field:
    """Return the Django field of a member. It checks only what the browser may send: the services check the value.

    In an update, members that determine where the files are cannot be changed.
    """
    field = _editable_field(spec)
    if spec.is_fixed and is_update:
        field.disabled = True
        field.help_text = gettext_lazy("Cannot be changed: the files would have to move")
        field.widget.attrs.pop("required", None)
    return field


def _editable_field(spec: StorageField) -> forms.Field:  # noqa: PLR0911 - one a kind
    attrs: dict[str, Any] = {"required": True} if spec.is_required else {}
    shared: dict[str, Any] = {"required": False, "label": spec.label, "help_text": _help(spec)}
    if spec.is_secret:
        attrs["data-secret"] = " ".join((spec.member, *spec.aliases))  # for the script that imports a request
    if spec.variants:
        attrs |= {"data-variants": " ".join(spec.variants), "data-choice": f"{spec.path.rpartition('.')[0]}.type"}
    match spec.kind:
        case Kind.SECRET:
            return forms.CharField(widget=SecretInput(**attrs), strip=False, **shared)
        case Kind.FILE:
            return forms.CharField(widget=SecretFile(**attrs), **shared)
        case Kind.FLAG:
            return forms.BooleanField(**shared)
        case Kind.MAYBE:
            options = [("", gettext_lazy("Default")), (YES, gettext_lazy("Yes")), (NO, gettext_lazy("No"))]
            return forms.ChoiceField(choices=options, widget=select_widget(), **shared)
        case Kind.CHOICE:
            blank = [] if spec.default else [("", gettext_lazy("Default"))]
            return forms.ChoiceField(
                choices=[*blank, *((each, each) for each in spec.choices)], widget=select_widget(), **shared
            )
        case Kind.NUMBER:
            number = forms.NumberInput({"class": "ik-input", **attrs})
            return forms.IntegerField(min_value=spec.minimum, max_value=spec.maximum, widget=number, **shared)
        case Kind.PAIRS:
            area = forms.Textarea({"class": "ik-input ik-mono", "rows": 2, "placeholder": "name=value", **attrs})
            return forms.CharField(widget=area, **shared)
    return forms.CharField(widget=text_widget(**attrs), **shared)


def _help(spec: StorageField) -> str:
    text = spec.description
    if spec.kind is Kind.PAIRS:
        text = f"{text} · " + _("one name=value a line")
    elif spec.variants:
        text = f"{text} · " + _("only with %(variants)s") % {"variants": ", ".join(spec.variants)}
    return text.removeprefix(" · ")


def shown_field(bound: forms.BoundField, spec: StorageField | None = None, *, is_wide: bool = False) -> ShownField:
    widget = bound.field.widget
    is_secret = spec is not None and spec.is_secret
    value = None if is_secret else bound.value()
    default = "" if spec is None or spec.default is None else spec.default
    return ShownField(
        id=str(bound.auto_id),
        label=bound.label or "",
        html=bound.as_widget(),
        kind=_shown_kind(widget),
        help=bound.help_text,
        errors=tuple(str(each) for each in bound.errors),
        is_required=bool(widget.attrs.get("required")),
        is_wide=is_wide or isinstance(widget, forms.Textarea),
        is_set=bool(bound.errors) or (value not in (None, "", []) and str(value) != str(default)),
    )


def _shown_kind(widget: forms.Widget) -> str:
    if isinstance(widget, forms.CheckboxSelectMultiple):
        return "group"
    return "checkbox" if isinstance(widget, forms.CheckboxInput) else "input"


def member_value(spec: StorageField, value: Any) -> Any:
    """Return the JSON value of a cleaned field; None for an empty one.

    Raises `ValidationError` for a document that is no JSON object, and for pairs without `=`.
    """
    if spec.kind is Kind.FLAG:
        return bool(value)
    if value in (None, ""):
        return None
    match spec.kind:
        case Kind.MAYBE:
            return value == YES
        case Kind.FILE:
            return _read_object(value)
        case Kind.PAIRS:
            return _read_pairs(value)
    return value


def _read_object(text: str) -> dict[str, Any]:
    try:
        found = read_json(text.encode(errors="replace"))
    except BadRequest:
        found = None
    if not isinstance(found, dict):
        raise forms.ValidationError(_("This is no JSON object: paste the whole key file."))
    return found


def _read_pairs(text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for line in filter(None, (each.strip() for each in text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals:
            raise forms.ValidationError(_("Each line must be name=value."))
        pairs[name.strip()] = value.strip()
    return pairs


def entered_value(spec: StorageField, value: Any) -> Any:
    """Return what a field shows for the value of a member in JSON. Secrets are shown as empty fields."""
    if spec.is_secret or value is None:
        return None
    match spec.kind:
        case Kind.FLAG:
            return bool(value)
        case Kind.MAYBE:
            return YES if value else NO
        case Kind.PAIRS if isinstance(value, dict):
            return "\n".join(f"{name}={text}" for name, text in value.items())
    return value if isinstance(value, str | int) else None


def find_member(document: Mapping[str, Any], spec: StorageField) -> Any:
    """Return the value of a member in a request by its path; None without one."""
    *above, member = spec.path.split(".")
    found: Any = document
    for step in above:
        found = found.get(step) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        return None
    return next((found[name] for name in (member, *spec.aliases) if found.get(name) is not None), None)


_MAX_SHOWN_CHARACTERS: Final = 2_000


def error_text(error: CatalogError) -> str:
    """Return the message of an error for its field, without the path that it begins with."""
    text = error.message
    field = error.field or ""
    for path in (field, field.rpartition(".")[2], field.partition(".")[2], field.partition(".")[0]):
        if path:
            text = text.removeprefix(f"{path}: ")
    text = text[:_MAX_SHOWN_CHARACTERS]
    return f"{text[:1].upper()}{text[1:]}"


def field_name(names: Iterable[str], path: str | None) -> str | None:
    """Return the name of the field for the path of an error; None if the form has none.

    The path may lead through a variant (`storage-layout.tabular-only.tabular`), or to a group of fields.
    """
    if not path:
        return None
    known: Sequence[str] = [*names]
    if path in known:
        return path
    steps = path.split(".")
    for dropped in range(1, len(steps) - 1):
        shorter = ".".join(steps[:dropped] + steps[dropped + 1 :])
        if shorter in known:
            return shorter
    while steps:
        joined = ".".join(steps)
        found = [each for each in known if each == joined or each.startswith(f"{joined}.")]
        steps = steps[:-1] if len(steps) > 2 else []  # noqa: PLR2004 - not every error of a profile is about its first field
        if found:
            return found[0]
    return None
