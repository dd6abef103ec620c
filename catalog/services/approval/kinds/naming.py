"""The kind `naming`: names of new and renamed objects and columns match a pattern."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pydantic import Field, model_validator

from catalog.iceberg.changed_fields import find_changed_fields
from catalog.iceberg.display.stored_parts import find_current_schema
from catalog.iceberg.metadata_diff import has_same_schema
from catalog.services.approval.configuration import Patterns, RuleConfiguration, RuleSettings, read_configuration
from catalog.services.approval.patterns import compile_patterns, describe_patterns
from catalog.services.approval.port import ChangeAction, ContractVerifier, ProposedChange
from icekeeper.kernel.request_context import remaining_seconds
from tenancy.models import Securable

_NAMING: Final = frozenset(
    {ChangeAction.CREATE, ChangeAction.STAGE, ChangeAction.REGISTER, ChangeAction.RENAME, ChangeAction.UNDROP}
)
"""Actions that give an object its name."""


class NamingConfiguration(RuleConfiguration):
    table: Patterns | None = Field(None, description="Names of tables match one of these patterns as a whole")
    view: Patterns | None = Field(None, description="As for tables")
    generic_table: Patterns | None = Field(None, description="As for tables")
    namespace: Patterns | None = Field(None, description="The last level of the names of namespaces")
    column: Patterns | None = Field(None, description="Names of columns of tables and views, without their parents")

    @model_validator(mode="after")
    def _has_pattern(self) -> NamingConfiguration:
        if all(value is None for _, value in self):
            raise ValueError("at least one of table, view, generic-table, namespace and column is required")
        return self


class Naming(ContractVerifier):
    configuration = NamingConfiguration

    def __init__(self, settings: RuleSettings) -> None:
        given = read_configuration(self.configuration, settings.configuration)
        patterns = {
            Securable.Type.TABLE: given.table,
            Securable.Type.VIEW: given.view,
            Securable.Type.GENERIC_TABLE: given.generic_table,
            Securable.Type.NAMESPACE: given.namespace,
        }
        self._objects = {kind: compile_patterns(texts) for kind, texts in patterns.items() if texts is not None}
        self._described = {kind: describe_patterns(texts) for kind, texts in patterns.items() if texts is not None}
        self._column = None if given.column is None else compile_patterns(given.column)
        self._column_described = "" if given.column is None else describe_patterns(given.column)

    def find_violations(self, change: ProposedChange) -> Iterable[str]:
        is_valid = self._objects.get(change.object_type)
        if is_valid is not None and change.action in _NAMING:
            levels, name = change.new_name
            named = levels[-1] if name is None else name
            if not is_valid(named):
                yield f"the name {named!r} must match {self._described[change.object_type]}"
        if self._column is not None and change.proposed is not None:
            for name in _new_column_names(change):
                remaining_seconds()  # a request may have any number of columns
                if not self._column(name):
                    yield f"the name of column {name!r} must match {self._column_described}"


def _new_column_names(change: ProposedChange) -> Iterator[str]:
    """Yield the names of columns that are new or renamed, all for a new object."""
    old: Any = change.current
    new: Any = change.proposed
    if old is not None and has_same_schema(old, new):
        return
    before = None if old is None else find_current_schema(old)
    after = find_current_schema(new)
    if after is None or before is after or "fields" not in after:
        return
    if before is None:
        yield from _list_names(after)
        return
    changed = find_changed_fields(before, after)
    for field_id, field in changed.new.items():
        former = changed.old.get(field_id)
        if not field.is_inner and (former is None or former.name != field.name):
            yield field.name


def _list_names(schema: dict[str, Any]) -> list[str]:
    """Return the names of all fields of a schema, at every depth."""
    names: list[str] = []
    types: list[Any] = [schema]
    while types:
        column_type = types.pop()
        for field in column_type.get("fields") or ():
            names.append(field["name"])
            if not isinstance(field["type"], str):
                types.append(field["type"])
        types += [each for name in ("element", "key", "value") if isinstance(each := column_type.get(name), dict)]
    return names
