"""The kind `protected`: objects and columns with a tag keep their names and types, and are not dropped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import Field, model_validator

from catalog.iceberg.changed_fields import find_changed_fields
from catalog.iceberg.display.schema_fields import SchemaField, write_type
from catalog.iceberg.display.stored_parts import find_current_schema
from catalog.iceberg.metadata_diff import has_same_schema
from catalog.services.approval.configuration import RuleConfiguration, RuleSettings, read_configuration
from catalog.services.approval.port import ChangeAction, ContractVerifier, ProposedChange
from icekeeper.kernel.names import name_key
from tenancy.models import Securable

_DONE: Final = {ChangeAction.DROP: "dropped", ChangeAction.RENAME: "renamed", ChangeAction.REGISTER: "replaced"}
"""Actions that a tag on the object forbids."""

TagName = Annotated[str, Field(min_length=1, max_length=256)]
Values = Annotated[list[Annotated[str, Field(max_length=256)]], Field(min_length=1, max_length=100)]


class ProtectedConfiguration(RuleConfiguration):
    object_tag: TagName | None = Field(
        None, description="Objects with this tag, own or inherited, are not dropped, renamed or replaced"
    )
    object_tag_values: Values | None = Field(None, description="Only with one of these values")
    column_tag: TagName | None = Field(
        None, description="Columns with this tag are not dropped or renamed, and their types do not change"
    )
    column_tag_values: Values | None = Field(None, description="Only with one of these values")

    @model_validator(mode="after")
    def _has_tag(self) -> ProtectedConfiguration:
        if self.object_tag is None and self.column_tag is None:
            raise ValueError("object-tag or column-tag is required")
        return self


class _Tag:
    def __init__(self, name: str, values: list[str] | None) -> None:
        self.name, self._key = name, name_key(name)
        self._values = None if values is None else frozenset(values)

    def is_in(self, tags: Mapping[str, str | None]) -> bool:
        return self._key in tags and (self._values is None or tags[self._key] in self._values)


class Protected(ContractVerifier):
    configuration = ProtectedConfiguration

    def __init__(self, settings: RuleSettings) -> None:
        given = read_configuration(self.configuration, settings.configuration)
        self._object_tag = None if given.object_tag is None else _Tag(given.object_tag, given.object_tag_values)
        self._column_tag = None if given.column_tag is None else _Tag(given.column_tag, given.column_tag_values)

    def find_violations(self, change: ProposedChange) -> Iterable[str]:
        if change.object_id is None:
            return
        done = _DONE.get(change.action)
        if done is not None and self._object_tag is not None and self._object_tag.is_in(change.object_tags):
            yield f"it has the tag {self._object_tag.name!r} and must not be {done}"
        if self._column_tag is not None and change.object_type is Securable.Type.TABLE and change.proposed is not None:
            yield from self._find_changed_columns(change, self._column_tag)

    def _find_changed_columns(self, change: ProposedChange, tag: _Tag) -> Iterator[str]:
        old: Any = change.current
        new: Any = change.proposed
        if old is None or has_same_schema(old, new):
            return
        before, after = find_current_schema(old), find_current_schema(new)
        if before is None or after is None or before == after:
            return
        changed = find_changed_fields(before, after)
        for field_id, field in changed.old.items():
            fate = _fate(field, changed.new.get(field_id))
            if fate is not None and tag.is_in(change.column_tags.get(field_id, {})):
                yield f"column {field.path} has the tag {tag.name!r} and must not {fate}"


def _fate(old: SchemaField, new: SchemaField | None) -> str | None:
    """Return what happens to a field, for `must not ...`; None for nothing that matters."""
    if new is None:
        return "be dropped"
    if old.name != new.name:
        return f"be renamed to {new.name}"
    if old.type != new.type and write_type(old.type) != write_type(new.type):
        return f"change its type from {write_type(old.type)} to {write_type(new.type)}"
    return None
