"""The fields of the forms of event sinks, by type: stored values as text, and the configuration in a form that was
sent. Secrets are only read from forms, never shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from events.sinks.definition import SECRET_NAMES
from icekeeper.kernel.errors.types import BadRequest
from management.admin.configuration_fields import (
    HEADERS,
    SIGNING_SECRETS,
    ConfigurationField,
    Kind,
    read_field,
)

REMOVE: Final = "remove"
"""Name of the checkboxes of stored secrets that are to be removed."""

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
        HEADERS,
        SIGNING_SECRETS,
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
        value = read_field(field, given)
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
