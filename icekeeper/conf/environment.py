"""Reads the settings from environment variables and reports the variables that are wrong or unknown.

pydantic-settings does not fit: the prefix of a variable depends on its field, values have Lakekeeper's syntax (`[a,b]`,
`{key=value}`, quotes), an empty variable has its own meaning, and unknown members are reported instead of rejected or
ignored. The library would only replace `_set_value`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from icekeeper.conf.groups import WRITE_DATABASE
from icekeeper.conf.parsing import Value, parse_value, unquote
from icekeeper.conf.settings import Settings
from icekeeper.conf.values import shown_address
from icekeeper.conf.variables import ICEKEEPER_PREFIX, LAKEKEEPER_PREFIX, is_own, variable_name

LEGACY_PREFIX = "ICEBERG_REST__"

OTHER_NAMES = {
    "metrics_port": "metrics__port",
    "task_tabular_expiration_workers": "task_soft_deletion_workers",
}
"""Alternative names that Lakekeeper accepts, without prefix; the main names take precedence."""

GUARDS = re.compile(
    r"OPENID_|KUBERNETES_AUTHENTICATION_|OPENFGA|TRUSTED_ENGINES|ADMISSION_ENFORCE|CEDAR|SECRET_BACKEND|KV2"
)
"""Security settings of Lakekeeper. It would be unsafe to ignore an unknown one, which is misspelt or newer."""

EVENTS = re.compile(r"(NATS|KAFKA)(_|$)")
"""Lakekeeper's variables of events: an operator who sets an unknown one relies on events that would be lost."""

OFF = frozenset({"false", "off", "0", "no", "n", "f", "[]", "{}"})
"""Values that disable such a security setting. Variables of events contain text."""


class SettingsError(Exception):
    """Invalid settings. `problems` has one sentence for each variable: its name, its value, the expected value."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class _Assignment:
    """A value of the environment, its variable, and the setting to which it belongs.

    Messages do not contain the keys of compound values: the text after a comma in a secret looks like a key.
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
        """The reason why a value that belongs to no setting prevents the start; None if it is only reported."""
        name = "__".join(self.path).upper()
        is_text = EVENTS.match(name) is not None
        if isinstance(self.value, str) and self.value.strip().lower() in OFF and not is_text:
            return None
        if is_group(self.path, Settings):
            return f"{self.variable} {'has a member that ' if self.is_member else ''}takes {{key=value,...}}"
        if self.prefix == ICEKEEPER_PREFIX:
            return None
        if GUARDS.match(name):
            what = "has an unknown member (quote text with commas)" if self.is_member else "is set"
            return (
                f"{self.variable} {what}, but this version does not support it: it would protect nothing. Correct its "
                "name, or unset it"
            )
        if EVENTS.match(name):
            return f"{self.variable} is set, but no setting of events has this name. Correct its name, or unset it"
        return None


def read_settings(environ: Mapping[str, str]) -> tuple[Settings, list[str]]:
    """Return the settings in `environ`, and the names of unknown variables with our prefixes.

    Raises `SettingsError` with every invalid variable; the message contains no secrets. Rules:
    - An empty variable of Lakekeeper counts as unset, because its deployment files contain variables without a value.
      An empty variable of the write database is an error if no other one selects it.
    - An empty variable of our own is an error: for some of them, unset allows what a value would restrict.
    - An id, such as that of an identity provider, is an entry even if all its variables are empty, so that missing
      ones are reported.
    - Quotes around a value are removed, and blanks around one that is not a secret.
    - A group can be set by one compound value; a variable of a single setting takes precedence.
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
                solution = "unset it, or set a value, such as [] for an empty list"
                problems.append(f"{variable_name(path)} is empty: {solution}")
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
    """Return whether the setting at `path` is a secret."""
    return "SecretStr" in str(_field(path).annotation)


def _empty_databases(empty: Sequence[_Assignment], values: Mapping[str, Any]) -> list[str]:
    """Return a problem for each empty variable of the write database, if no other variable selects the database.

    Such a deployment was meant to use PostgreSQL, and would lose its data with the embedded SQLite.
    """
    if WRITE_DATABASE & values.keys():
        return []
    return [
        f"{each.variable} is empty: set it to use PostgreSQL, or unset it to use the embedded SQLite"
        for each in empty
        if each.has_right_prefix and len(each.path) == 1 and each.path[0] in WRITE_DATABASE
    ]


def _assignments(environ: Mapping[str, str], problems: list[str]) -> Iterator[_Assignment]:
    """Yield the values of our prefixes, of which the last one for a setting counts. Appends to `problems`.

    Compound values come first, those of outer groups before those of inner ones, then variables with the old prefix.
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
    """Yield the members of a compound value of a group; any other assignment unchanged."""
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
        return f"{name} is missing: other variables of this group are set"
    return f"{name} got {_got(path, item['input'])}; expected: {takes}"


def _got(path: tuple[str, ...], value: object) -> str:
    """Return the value of the field at `path` for a message, without secrets."""
    annotation = str(_field(path).annotation)
    if _is_secret(path):
        return "a secret value"
    if isinstance(value, dict | list):
        return "a compound value" if isinstance(value, dict) else "a list"
    if isinstance(value, str) and ("AnyHttpUrl" in annotation or "://" in value):
        return shown_address(value)
    return repr(value)


def _field(path: tuple[str, ...]) -> FieldInfo:
    """Return the innermost field on `path`; ids are skipped."""
    field = Settings.model_fields[path[0]]
    for name in path[1:]:
        group, _ = group_of(field)
        field = group.model_fields.get(name, field) if group is not None else field
    return field


def group_of(field: FieldInfo) -> tuple[type[BaseModel] | None, bool]:
    """Return the group of settings in a field, and whether the field has one group for each id; (None, ...) if none."""
    annotation: Any = field.annotation
    is_keyed = get_origin(annotation) is dict
    if is_keyed:
        annotation = get_args(annotation)[1]
    is_group = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return (annotation if is_group else None), is_keyed


def is_group(path: Sequence[str], model: type[BaseModel]) -> bool:
    """Return whether `path` leads to a group of settings, or to the ids of such groups."""
    field = model.model_fields.get(path[0]) if path else None
    if field is None:
        return False
    group, is_keyed = group_of(field)
    if group is None:
        return False
    below = path[1 + is_keyed :]
    return not below or is_group(below, group)


def entry_of(path: Sequence[str], model: type[BaseModel]) -> tuple[str, ...]:
    """Return `path` up to its last id; an empty path without ids."""
    field = model.model_fields.get(path[0]) if path else None
    group, is_keyed = (None, False) if field is None else group_of(field)
    above = 1 + is_keyed
    if group is None or len(path) < above:
        return ()
    below = entry_of(path[above:], group)
    return (*path[:above], *below) if is_keyed or below else ()


def _set_value(values: dict[str, Any], path: Sequence[str], value: object, model: type[BaseModel]) -> bool:
    """Store `value` under `path`; return False, and change nothing, if the setting does not exist."""
    if depth_of(path, model) != len(path):
        return False
    *above, last = path
    for name in above:
        values = values.setdefault(name, {})
    values[last] = value
    return True


def depth_of(path: Sequence[str], model: type[BaseModel]) -> int:
    """Return how many parts of `path` lead to a setting; 0 if it does not exist. Further parts are inside its value."""
    field = model.model_fields.get(path[0]) if path else None
    if field is None:
        return 0
    group, is_keyed = group_of(field)
    if group is None:
        return 1
    above = 1 + is_keyed
    below = depth_of(path[above:], group)
    return above + below if below else 0
