"""The fields of the forms of event sinks, by type: stored values as text, and the configuration in a form that was
sent. Secrets are only read from forms, never shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Any, Final

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from events.sinks.definition import SECRET_NAMES
from icekeeper.kernel.errors.types import BadRequest
from management.admin.form_pages import MAX_TEXT_LENGTH
from management.admin.navigation import Text

MAX_SECRET_LENGTH: Final = 65_536
LINE_END, ESCAPED_END = "\n", "\\n"
"""How settings with several lines, which are certificates and keys (`.pem`), are written in one."""
REMOVE: Final = "remove"
"""Name of the checkboxes of stored secrets that are to be removed."""


class Kind(StrEnum):
    """How a member of the configuration is entered."""

    LINE = "line"
    NUMBER = "number"
    LINES = "lines"
    TEXT = "text"
    CHOICE = "choice"
    FLAG = "flag"
    PAIRS = "pairs"
    """Names and values, one pair a line."""


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
    member: str = ""

    @property
    def key(self) -> str:
        return self.member or self.name


_TIMEOUT: Final = ConfigurationField(
    name="timeout-seconds", label=gettext_lazy("Timeout in seconds"), kind=Kind.NUMBER, default="10"
)

FIELDS: Final[dict[str, tuple[ConfigurationField, ...]]] = {
    "webhook": (
        ConfigurationField(
            name="url", label=gettext_lazy("URL"), help=gettext_lazy("Without a query, which is a secret")
        ),
        ConfigurationField(
            name="mode",
            label=gettext_lazy("Mode"),
            kind=Kind.CHOICE,
            choices=(
                ("structured", gettext_lazy("Structured: the event is the body")),
                ("binary", gettext_lazy("Binary: attributes are headers, the body has the data")),
            ),
            default="structured",
        ),
        ConfigurationField(
            name="concurrency", label=gettext_lazy("Requests at the same time"), kind=Kind.NUMBER, default="8"
        ),
        _TIMEOUT,
        ConfigurationField(name="query", label=gettext_lazy("Query of the URL"), is_secret=True),
        ConfigurationField(
            name="headers",
            label=gettext_lazy("Headers"),
            kind=Kind.PAIRS,
            separator=":",
            is_secret=True,
            help=gettext_lazy("One a line, such as Authorization: Bearer …"),
        ),
        ConfigurationField(
            name="signing-secrets",
            label=gettext_lazy("Signing secrets"),
            kind=Kind.LINES,
            is_secret=True,
            help=gettext_lazy("whsec_ and 24 to 64 random bytes in base64; two, one a line, during a rotation"),
        ),
    ),
    "nats": (
        ConfigurationField(
            name="addresses",
            label=gettext_lazy("Addresses"),
            kind=Kind.LINES,
            help=gettext_lazy("One a line, such as tls://nats.example.com:4222"),
        ),
        ConfigurationField(name="subject", label=gettext_lazy("Subject")),
        ConfigurationField(
            name="jetstream", label=gettext_lazy("A stream of JetStream acknowledges events"), kind=Kind.FLAG
        ),
        ConfigurationField(name="user", label=gettext_lazy("User")),
        ConfigurationField(
            name="ca-certificates",
            label=gettext_lazy("Certificate authorities"),
            kind=Kind.TEXT,
            help=gettext_lazy("In PEM format; empty: those of the system"),
        ),
        _TIMEOUT,
        ConfigurationField(name="password", label=gettext_lazy("Password"), is_secret=True),
        ConfigurationField(name="token", label=gettext_lazy("Token"), is_secret=True),
        ConfigurationField(
            name="credentials",
            label=gettext_lazy("Credentials file"),
            kind=Kind.TEXT,
            is_secret=True,
            help=gettext_lazy("The content of a .creds file"),
        ),
    ),
    "kafka": (
        ConfigurationField(name="topic", label=gettext_lazy("Topic")),
        ConfigurationField(
            name="settings",
            label=gettext_lazy("Settings"),
            kind=Kind.PAIRS,
            help=gettext_lazy("Of librdkafka, one a line, such as bootstrap.servers=kafka.example.com:9092"),
        ),
        _TIMEOUT,
        ConfigurationField(
            name="secret-settings",
            member="settings",
            label=gettext_lazy("Secret settings"),
            kind=Kind.PAIRS,
            is_secret=True,
            help=gettext_lazy("One a line, such as sasl.password=…"),
        ),
    ),
    "log": (),
}


def shown_fields(kind: str, stored: Mapping[str, Any], entered: QueryDict | None) -> list[dict[str, Any]]:
    """Return the fields as the template shows them, with what was `entered`, else with the `stored` configuration."""
    return [_shown(each, stored, entered) for each in FIELDS[kind]]


def removable_secrets(stored: Mapping[str, Any], entered: QueryDict | None) -> list[tuple[str, str, bool]]:
    """Return the stored secrets as checkboxes."""
    chosen = [] if entered is None else entered.getlist(REMOVE)
    return [(name, name, name in chosen) for name in stored.get(SECRET_NAMES, ())]


def read_configuration(kind: str, given: QueryDict) -> dict[str, Any]:
    """Return the configuration in a form. Secrets that are empty are left out: stored ones stay.

    Raises `BadRequest` with the field of a malformed value, which is not in the message.
    """
    configuration: dict[str, Any] = {"type": kind}
    for field in FIELDS[kind]:
        value = _read(field, given.get(field.name, "")[:MAX_TEXT_LENGTH].replace("\r\n", "\n"))
        if isinstance(value, dict):
            configuration.setdefault(field.key, {}).update(value)
        elif value is not None:
            configuration[field.key] = value
    for name in given.getlist(REMOVE):
        _remove(configuration, kind, name)
    if configuration.get("headers") == {}:
        del configuration["headers"]
    return configuration


def _remove(configuration: dict[str, Any], kind: str, name: str) -> None:
    """Remove a stored secret, one of `configured-secrets`, unless the form has a new one."""
    member, _dot, entry = name.partition(".")
    if member not in {each.key for each in FIELDS[kind] if each.is_secret}:
        raise BadRequest(_("A secret to be removed is none of the stored ones"))
    if entry:
        configuration.setdefault(member, {}).setdefault(entry, None)
    else:
        configuration.setdefault(member, None)


def _shown(field: ConfigurationField, stored: Mapping[str, Any], entered: QueryDict | None) -> dict[str, Any]:
    value: str = ""
    if not field.is_secret:
        known = _as_text(field, stored.get(field.key)) if stored else field.default
        value = known if entered is None or field.name not in entered else entered.get(field.name, "")
        if field.kind is Kind.FLAG and entered is not None:
            value = entered.get(field.name, "")
    return {
        "id": f"sink-{field.name}",
        "name": field.name,
        "label": field.label,
        "kind": field.kind.value,
        "help": field.help,
        "is_secret": field.is_secret,
        "value": value,
        "max_length": MAX_SECRET_LENGTH,
        "options": [(option, text, option == value) for option, text in field.choices],
    }


def _as_text(field: ConfigurationField, value: Any) -> str:
    if value is None:
        return field.default if field.kind is Kind.CHOICE else ""
    if field.kind is Kind.LINES:
        return "\n".join(value)
    if field.kind is Kind.PAIRS:
        return "\n".join(
            f"{name}{field.separator}{each.replace(LINE_END, ESCAPED_END)}" for name, each in value.items()
        )
    if field.kind is Kind.FLAG:
        return "true" if value else ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _read(field: ConfigurationField, text: str) -> Any:
    """Return a value of the configuration; None for an empty one."""
    if field.kind is Kind.FLAG:
        return bool(text)
    if field.kind is Kind.PAIRS:
        return dict(_pair(field, line) for line in _lines(text))
    if field.kind is Kind.LINES:
        return _lines(text) or None
    if not text.strip():
        return None
    if field.kind is Kind.NUMBER:
        return _number(field, text.strip())
    return text if field.kind is Kind.TEXT else text.strip()


def _lines(text: str) -> list[str]:
    return [line for each in text.split("\n") if (line := each.strip())]


def _pair(field: ConfigurationField, line: str) -> tuple[str, str]:
    name, found, value = line.partition(field.separator)
    if not found or not name.strip():
        raise BadRequest(
            _("Each line has a name, “%(separator)s” and a value") % {"separator": field.separator}, field=field.name
        )
    name, value = name.strip(), value.strip()
    return name, value.replace(ESCAPED_END, LINE_END) if name.endswith(".pem") else value


def _number(field: ConfigurationField, text: str) -> int | float:
    try:
        number = float(text) if len(text) <= 10 else None  # noqa: PLR2004 - digits
    except ValueError:
        number = None
    if number is None or not isfinite(number):
        raise BadRequest(_("Must be a number"), field=field.name)
    return int(number) if number == int(number) and field.name == "concurrency" else number
