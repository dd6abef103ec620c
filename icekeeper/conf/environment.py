"""Reads the settings from environment variables and reports the variables that are wrong or unknown.

The reading is our own, not pydantic-settings': there the prefix of a variable depends on its field, values are written
as Lakekeeper reads them (`[a,b]`, `{key=value}`, quotes), an empty variable has a meaning of its own, and unknown
members are reported rather than refused or ignored. What that library would replace is `_set_value`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from icekeeper.conf.parsing import Value, parse_value, unquote
from icekeeper.conf.settings import ICEKEEPER_PREFIX, LAKEKEEPER_PREFIX, WRITE_DATABASE, Settings, is_own, variable_name
from icekeeper.conf.values import shown_address

LEGACY_PREFIX = "ICEBERG_REST__"

OTHER_NAMES = {"metrics_port": "metrics__port"}
"""Alternative names that Lakekeeper accepts, without prefix; the main names take precedence."""

GUARDS = re.compile(
    r"OPENID_|KUBERNETES_AUTHENTICATION_|OPENFGA|TRUSTED_ENGINES|ADMISSION_ENFORCE|CEDAR|SECRET_BACKEND|KV2"
)
"""Lakekeeper's variables that guard something and that this version cannot honour: to ignore them would be unsafe.

Those that it knows are honoured and never come here: what is left of `OPENID_*` is misspelt, or newer.
"""

EVENTS = re.compile(r"(NATS|KAFKA)(_|$)|LOG_CLOUDEVENTS$")
"""Lakekeeper's variables of events: an operator who sets them relies on events that this version does not publish."""

OFF = frozenset({"false", "off", "0", "no", "n", "f", "[]", "{}"})
"""Values of such guards, and of `LOG_CLOUDEVENTS`, that ask for nothing. The other variables of events hold text."""


class SettingsError(Exception):
    """A setting cannot be used. `problems` has one sentence a variable: its name, what it got, what it takes."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class _Assignment:
    """One value of the environment: the variable that it comes from, and the setting that it belongs to.

    The key of a member of a compound value is not shown: what follows a comma in a secret looks like one.
    """

    variable: str
    prefix: str
    path: tuple[str, ...]
    value: Value
    is_member: bool = False

    @property
    def has_right_prefix(self) -> bool:
        return is_own(self.path) == (self.prefix == ICEKEEPER_PREFIX)

    @property
    def problem(self) -> str | None:
        """Why a value that sets nothing here stops the start, if it does."""
        name = "__".join(self.path).upper()
        is_text = EVENTS.match(name) is not None and name != "LOG_CLOUDEVENTS"
        if isinstance(self.value, str) and self.value.strip().lower() in OFF and not is_text:
            return None
        if is_group(self.path, Settings):
            return f"{self.variable} {'has a member that ' if self.is_member else ''}takes {{key=value,...}}"
        if self.prefix == ICEKEEPER_PREFIX:
            return None
        if GUARDS.match(name):
            what = "has an unknown member (quote text with commas)" if self.is_member else "is set"
            return (
                f"{self.variable} {what}, but this version cannot honour it: it would guard nothing. Correct its name, "
                "or unset it"
            )
        if EVENTS.match(name):
            return f"{self.variable} is set, but this version publishes no events: they would be lost. Unset it"
        return None


def read_settings(environ: Mapping[str, str]) -> tuple[Settings, list[str]]:
    """The settings in `environ` and the names of variables with our prefixes that nothing reads.

    An empty variable of Lakekeeper's counts as unset, because its deployment files pass on variables without a value.
    One that names the database to write to is refused when no other variable names that.
    An empty one of ours is refused: unset, some of them open what a value would close. An id, such as that of an
    identity provider, is an entry even where all that is set for it is empty, so that what it lacks is found missing.
    Quotes around a value are removed, and blanks around one that is not secret. A group of settings may be given as one
    compound value; a variable of a setting of its own counts before that.
    Raises `SettingsError` naming every wrong variable. Secrets never stand in the message.
    """
    values: dict[str, Any] = {}
    unread: list[str] = []
    problems: list[str] = []
    empty: list[_Assignment] = []
    for assignment in _assignments(environ, problems):
        path = assignment.path
        if assignment.has_right_prefix:
            _add_entry(values, entry_of(path, Settings))
        if assignment.value == "":
            empty.append(assignment)
            if (
                assignment.has_right_prefix
                and assignment.prefix == ICEKEEPER_PREFIX
                and depth_of(path, Settings) == len(path)
            ):
                cure = "unset it, or give it a value, such as [] for an empty list"
                problems.append(f"{variable_name(path)} is empty: {cure}")
            continue
        value = assignment.value
        is_setting = assignment.has_right_prefix and depth_of(path, Settings) == len(path)
        if is_setting and isinstance(value, str) and not _is_secret(path):
            value = value.strip()
            if not value:
                problems.append(f"{variable_name(path)} got {assignment.value!r}; expected: text that is not blank")
                continue
        if assignment.has_right_prefix and _set_value(values, path, value, Settings):
            continue
        if assignment.problem is not None:
            problems.append(assignment.problem)
        else:
            unread.append(assignment.variable)
    problems += _empty_databases(empty, values)
    if problems:
        raise SettingsError(problems)
    try:
        return Settings.model_validate(values), list(dict.fromkeys(unread))
    except ValidationError as error:
        raise SettingsError([_problem(item) for item in error.errors()]) from None


def _is_secret(path: tuple[str, ...]) -> bool:
    """Whether the setting at `path` holds secrets."""
    return "SecretStr" in str(_field(path).annotation)


def _empty_databases(empty: Sequence[_Assignment], values: Mapping[str, Any]) -> list[str]:
    """The problem of each variable that names the database to write to and is empty, where no other one names it.

    A deployment that sets it to nothing meant a PostgreSQL, and would lose its data with the embedded SQLite.
    """
    if WRITE_DATABASE & values.keys():
        return []
    return [
        f"{each.variable} is empty: set it to use PostgreSQL, or unset it to use the embedded SQLite"
        for each in empty
        if each.has_right_prefix and len(each.path) == 1 and each.path[0] in WRITE_DATABASE
    ]


def _assignments(environ: Mapping[str, str], problems: list[str]) -> Iterator[_Assignment]:
    """Those of our prefixes; the later one of two for the same setting counts. Appends to `problems`.

    Compound values come first, those of larger groups before those of groups in them, then the old prefix.
    """
    found = list(_variables(environ, problems))
    found.sort(key=lambda each: each.variable.upper())
    found.sort(key=lambda each: len(each.path) if isinstance(each.value, dict) else math.inf)
    for assignment in found:
        yield from _members(assignment)


def _variables(environ: Mapping[str, str], problems: list[str]) -> Iterator[_Assignment]:
    for variable, text in sorted(environ.items()):
        prefix = next(
            (p for p in (LAKEKEEPER_PREFIX, ICEKEEPER_PREFIX, LEGACY_PREFIX) if variable.upper().startswith(p)), None
        )
        if prefix is None:
            continue
        name = variable.upper().removeprefix(prefix).lower()
        path = tuple(OTHER_NAMES.get(name, name).split("__"))
        try:
            plain = unquote(text)
        except ValueError as error:
            problems.append(f"{variable} got a quoted text; expected: {error}")
            continue
        value: Value = plain
        if is_group(path, Settings) and plain.strip().startswith("{"):
            try:
                value = parse_value(plain)
            except ValueError as error:
                problems.append(f"{variable} got a compound value; expected: {{key=value,...}}, {error}")
                continue
        yield _Assignment(variable, prefix, path, value)


def _members(assignment: _Assignment) -> Iterator[_Assignment]:
    """What a compound value of a group of settings assigns; any other assignment as it is."""
    if not isinstance(assignment.value, dict) or not is_group(assignment.path, Settings):
        yield assignment
    elif not assignment.value:
        yield replace(assignment, value="")
    else:
        for key, value in assignment.value.items():
            yield from _members(replace(assignment, path=(*assignment.path, key), value=value, is_member=True))


def _add_entry(values: dict[str, Any], path: Sequence[str]) -> None:
    for name in path:
        values = values.setdefault(name, {})


def _problem(item: Any) -> str:
    path = tuple(str(part) for part in item["loc"] if isinstance(part, str))
    takes = str(item["msg"]).removeprefix("Value error, ")
    if not path:
        return takes
    name = variable_name(path[: depth_of(path, Settings)] or path)
    if item["type"] == "missing":
        return f"{name} is missing beside the others of its name"
    return f"{name} got {_got(path, item['input'])}; expected: {takes}"


def _got(path: tuple[str, ...], value: object) -> str:
    """The value of the field at `path` as a message may show it."""
    annotation = str(_field(path).annotation)
    if _is_secret(path):
        return "a secret value"
    if isinstance(value, dict | list):
        return "a compound value" if isinstance(value, dict) else "a list"
    if isinstance(value, str) and ("AnyHttpUrl" in annotation or "://" in value):
        return shown_address(value)
    return repr(value)


def _field(path: tuple[str, ...]) -> FieldInfo:
    """The innermost one that `path` leads to; ids that the operator chose lead nowhere."""
    field = Settings.model_fields[path[0]]
    for name in path[1:]:
        group, _ = group_of(field)
        field = group.model_fields.get(name, field) if group is not None else field
    return field


def group_of(field: FieldInfo) -> tuple[type[BaseModel] | None, bool]:
    """The settings that a field holds, and whether it holds them under ids of the operator's choice."""
    annotation: Any = field.annotation
    is_keyed = get_origin(annotation) is dict
    if is_keyed:
        annotation = get_args(annotation)[1]
    is_group = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return (annotation if is_group else None), is_keyed


def is_group(path: Sequence[str], model: type[BaseModel]) -> bool:
    """Whether `path` names a group of settings, or the group of the ids that such groups stand under."""
    field = model.model_fields.get(path[0]) if path else None
    if field is None:
        return False
    group, is_keyed = group_of(field)
    if group is None:
        return False
    below = path[1 + is_keyed :]
    return not below or is_group(below, group)


def entry_of(path: Sequence[str], model: type[BaseModel]) -> tuple[str, ...]:
    """The part of `path` up to its last id of the operator's choice; empty when it has none."""
    field = model.model_fields.get(path[0]) if path else None
    group, is_keyed = (None, False) if field is None else group_of(field)
    above = 1 + is_keyed
    if group is None or len(path) < above:
        return ()
    below = entry_of(path[above:], group)
    return (*path[:above], *below) if is_keyed or below else ()


def _set_value(values: dict[str, Any], path: Sequence[str], value: object, model: type[BaseModel]) -> bool:
    """Put `value` where `path` points; False, with `values` as they were, when there is no such setting."""
    if depth_of(path, model) != len(path):
        return False
    *above, last = path
    for name in above:
        values = values.setdefault(name, {})
    values[last] = value
    return True


def depth_of(path: Sequence[str], model: type[BaseModel]) -> int:
    """How much of `path` names a setting, with the groups and ids that it stands below; 0 when there is none.

    What is left of a longer path is inside the setting.
    """
    field = model.model_fields.get(path[0]) if path else None
    if field is None:
        return 0
    group, is_keyed = group_of(field)
    if group is None:
        return 1
    above = 1 + is_keyed
    below = depth_of(path[above:], group)
    return above + below if below else 0
