"""Fields of forms for configurations that are JSON: stored values as text, and values that were entered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Any, Final

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from icekeeper.kernel.errors.types import BadRequest
from management.admin.form_pages import MAX_TEXT_LENGTH
from management.admin.navigation import Text

MAX_SECRET_LENGTH: Final = 65_536
LINE_END, ESCAPED_END = "\n", "\\n"
"""How settings with several lines, which are certificates and keys (`.pem`), are written in one."""


class Kind(StrEnum):
    """How a member of the configuration is entered."""

    LINE = "line"
    NUMBER = "number"
    LINES = "lines"
    TEXT = "text"
    CHOICE = "choice"
    CHOICES = "choices"
    """Several of the choices."""
    FLAG = "flag"
    PAIRS = "pairs"
    """Names and values, one pair a line."""
    ALTERNATIVES = "alternatives"
    """Names and values, one pair a line; several lines of a name are alternatives, a name alone allows any value."""


_CHECKBOXES: Final = frozenset({Kind.FLAG, Kind.CHOICES})
"""Forms do not have those that are not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationField:
    """`member` is the name in the configuration; two fields can have entries of the same one."""

    name: str
    label: Text
    kind: Kind = Kind.LINE
    help: Text = ""
    is_secret: bool = False
    choices: Sequence[tuple[str, Text]] = ()
    separator: str = "="
    default: str = ""
    """As it is entered."""
    member: str = ""

    @property
    def key(self) -> str:
        return self.member or self.name


HEADERS: Final = ConfigurationField(
    name="headers",
    label=gettext_lazy("Headers"),
    kind=Kind.PAIRS,
    separator=":",
    is_secret=True,
    help=gettext_lazy("One a line, such as Authorization: Bearer …"),
)
SIGNING_SECRETS: Final = ConfigurationField(
    name="signing-secrets",
    label=gettext_lazy("Signing secrets"),
    kind=Kind.LINES,
    is_secret=True,
    help=gettext_lazy("whsec_ and 24 to 64 random bytes in base64; two, one a line, during a rotation"),
)


def shown_fields(
    fields: Iterable[ConfigurationField], stored: Mapping[str, Any], entered: QueryDict | None
) -> list[dict[str, Any]]:
    """Return the fields as `configuration_field.html` shows them, with what was `entered`, else with `stored` values.

    An empty `stored` configuration is a new one, which gets the defaults. A secret has no value.
    """
    return [_shown(each, stored, entered) for each in fields]


def _shown(field: ConfigurationField, stored: Mapping[str, Any], entered: QueryDict | None) -> dict[str, Any]:
    values: list[str] = []
    if not field.is_secret:
        if entered is not None and (field.name in entered or field.kind in _CHECKBOXES):
            values = entered.getlist(field.name)
        else:
            values = _as_texts(field, stored.get(field.key)) if stored else [field.default]
    return {
        "id": f"ik-{field.name}",
        "name": field.name,
        "label": field.label,
        "kind": field.kind.value,
        "help": field.help,
        "is_secret": field.is_secret,
        "value": values[-1] if values else "",
        "max_length": MAX_SECRET_LENGTH,
        "options": [(option, text, option in values) for option, text in field.choices],
    }


def read_field(field: ConfigurationField, given: QueryDict) -> Any:
    """Return the value of a field in a form that was sent; None for an empty one.

    Raises `BadRequest` with the field of a malformed value, which is not in the message.
    """
    if field.kind is Kind.CHOICES:
        return given.getlist(field.name) or None
    text = given.get(field.name, "")[:MAX_TEXT_LENGTH].replace("\r\n", "\n")
    if not text.strip() and field.kind not in {Kind.FLAG, Kind.PAIRS}:
        return None
    value: Any = text.strip()
    match field.kind:
        case Kind.TEXT:
            value = text
        case Kind.NUMBER:
            value = _number(field, value)
        case Kind.FLAG:
            value = bool(text)
        case Kind.LINES:
            value = read_lines(text)
        case Kind.PAIRS:
            value = dict(_pair(field, line) for line in read_lines(text))
        case Kind.ALTERNATIVES:
            value = _alternatives(field, read_lines(text))
    return value


def read_lines(text: str) -> list[str]:
    return [line for each in text.split("\n") if (line := each.strip())]


def _as_texts(field: ConfigurationField, value: Any) -> list[str]:
    if value is None:
        return [field.default] if field.kind is Kind.CHOICE else []
    if field.kind is Kind.CHOICES:
        return list(value)
    text = f"{value:g}" if isinstance(value, float) else str(value)
    match field.kind:
        case Kind.FLAG:
            text = "true" if value else ""
        case Kind.LINES:
            text = "\n".join(value)
        case Kind.PAIRS:
            text = "\n".join(
                f"{name}{field.separator}{each.replace(LINE_END, ESCAPED_END)}" for name, each in value.items()
            )
        case Kind.ALTERNATIVES:
            pairs = [(name, each) for name, found in value.items() for each in found or [""]]
            text = "\n".join(f"{name}{field.separator}{each}" if each else name for name, each in pairs)
    return [text]


def _pair(field: ConfigurationField, line: str) -> tuple[str, str]:
    name, found, value = line.partition(field.separator)
    if not found or not name.strip():
        raise BadRequest(
            _("Each line has a name, “%(separator)s” and a value") % {"separator": field.separator}, field=field.name
        )
    name, value = name.strip(), value.strip()
    return name, value.replace(ESCAPED_END, LINE_END) if name.endswith(".pem") else value


def _alternatives(field: ConfigurationField, lines: Sequence[str]) -> dict[str, list[str] | None]:
    found: dict[str, list[str] | None] = {}
    for line in lines:
        name, has_value, value = (each.strip() for each in line.partition(field.separator))
        if not name or (has_value and not value):
            raise BadRequest(
                _("Each line has a name, and “=” and a pattern unless any value is allowed"), field=field.name
            )
        known = found.get(name, [])
        if known is None or (name in found and not has_value):
            raise BadRequest(_("A name without a pattern allows any value: it has one line"), field=field.name)
        found[name] = [*known, value] if has_value else None
    return found


def _number(field: ConfigurationField, text: str) -> int | float:
    try:
        number = float(text) if len(text) <= 10 else None  # noqa: PLR2004 - digits
    except ValueError:
        number = None
    if number is None or not isfinite(number):
        raise BadRequest(_("Must be a number"), field=field.name)
    return int(number) if number == int(number) else number
