"""The fields of the forms of rules about changes, by kind, and the configuration and secret in a form that was sent."""

from __future__ import annotations

from typing import Any, Final

from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from icekeeper.kernel.errors.types import BadRequest
from management.admin.configuration_fields import (
    HEADERS,
    SIGNING_SECRETS,
    ConfigurationField,
    Kind,
    read_field,
)

_PATTERNS: Final = _("One pattern a line, such as [a-z][a-z0-9_]*; a name matches one of them as a whole")
_VALUES: Final = _("One a line; without any, all values")

FIELDS: Final[dict[str, tuple[ConfigurationField, ...]]] = {
    "schema-compatibility": (
        ConfigurationField(
            name="compatibility",
            member="mode",
            label=_("Compatibility"),
            kind=Kind.CHOICE,
            choices=(
                ("backward", _("Backward: the new schema reads the data that was written with the current one")),
                ("forward", _("Forward: queries for the current schema read what is written with the new one")),
                ("full", _("Full: both")),
            ),
            default="backward",
        ),
    ),
    "protected": (
        ConfigurationField(
            name="object-tag",
            label=_("Tag of objects"),
            help=_("Objects with this tag, own or inherited, are not dropped, renamed or replaced"),
        ),
        ConfigurationField(name="object-tag-values", label=_("Values of this tag"), kind=Kind.LINES, help=_VALUES),
        ConfigurationField(
            name="column-tag",
            label=_("Tag of columns"),
            help=_("Columns with this tag are not dropped or renamed, and their types do not change"),
        ),
        ConfigurationField(
            name="column-tag-values", label=_("Values of the tag of columns"), kind=Kind.LINES, help=_VALUES
        ),
    ),
    "required-properties": (
        ConfigurationField(
            name="properties",
            label=_("Properties"),
            kind=Kind.ALTERNATIVES,
            help=_(
                "One a line: owner=team-[a-z]+ requires a value of this form, cost-center any value. Further lines of "
                "a property are alternatives."
            ),
        ),
        ConfigurationField(
            name="objects",
            label=_("Objects that need them"),
            kind=Kind.CHOICES,
            choices=(
                ("table", _("Tables")),
                ("view", _("Views")),
                ("generic-table", _("Generic tables")),
                ("namespace", _("Namespaces")),
            ),
            help=_("None: tables"),
        ),
    ),
    "naming": (
        ConfigurationField(name="table", label=_("Tables"), kind=Kind.LINES, help=_PATTERNS),
        ConfigurationField(name="view", label=_("Views"), kind=Kind.LINES),
        ConfigurationField(name="generic-table", label=_("Generic tables"), kind=Kind.LINES),
        ConfigurationField(
            name="namespace", label=_("Namespaces"), kind=Kind.LINES, help=_("The last level of their names")
        ),
        ConfigurationField(
            name="column", label=_("Columns"), kind=Kind.LINES, help=_("Of tables and views, also nested ones")
        ),
    ),
    "retention-floor": (
        ConfigurationField(
            name="min-age-days",
            label=_("Minimum age in days"),
            kind=Kind.NUMBER,
            help=_("Younger snapshots are not removed"),
        ),
        ConfigurationField(
            name="min-snapshots",
            label=_("Minimum number of snapshots"),
            kind=Kind.NUMBER,
            help=_("The last snapshots of a table, this many, are not removed"),
        ),
        ConfigurationField(
            name="keep-refs",
            label=_("Keep branches and tags, and the snapshots that they refer to"),
            kind=Kind.FLAG,
        ),
    ),
    "http-hook": (
        ConfigurationField(name="url", label=_("URL"), help=_("http or https, without user, query and fragment")),
        ConfigurationField(
            name="timeout-seconds",
            label=_("Timeout in seconds"),
            kind=Kind.NUMBER,
            default="2",
            help=_("0.1 to 10, by default 2; a change waits for the response"),
        ),
        ConfigurationField(
            name="include-metadata",
            label=_("Also send the current and the proposed metadata"),
            kind=Kind.FLAG,
        ),
        SIGNING_SECRETS,
        HEADERS,
    ),
}
NAMES: Final = tuple(dict.fromkeys(field.name for fields in FIELDS.values() for field in fields))


def read_configuration(kind: str, given: QueryDict) -> dict[str, Any]:
    """Return the configuration in a form, without its secrets. Raises `BadRequest` with the field of a bad value."""
    values = {each.key: read_field(each, given) for each in FIELDS[kind] if not each.is_secret}
    return {key: value for key, value in values.items() if value is not None and value is not False}


def read_secret(kind: str, given: QueryDict) -> dict[str, Any] | None:
    """Return the secret in a form, None without any. Raises `BadRequest`."""
    values = {each.key: read_field(each, given) for each in FIELDS[kind] if each.is_secret}
    return {key: value for key, value in values.items() if value} or None


def at_field(kind: str, error: BadRequest) -> BadRequest:
    """Return the error of a service with the field of the form: `configuration.table.0: ...` is that of `table`."""
    where, _colon, text = error.message.partition(": ")
    what, _dot, member = where.partition(".")
    if what not in {"configuration", "secret"}:
        return error
    name = next((each.name for each in FIELDS[kind] if each.key == member.partition(".")[0]), None)
    return BadRequest(text, field=name)
