"""Tags of the objects of proposed changes, read when a rule looks at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from icekeeper.kernel.db.sql import batches
from tenancy.models import Securable, TagAttachment

BATCH_SIZE = 500
"""Securables that one statement reads."""

TagValues = Mapping[str, str | None]
"""Values of tags by the look-up keys of their names; None for a marker."""


class TagReader:
    """The tags of a group of securables, which are read together: two statements for each `BATCH_SIZE` of them."""

    def __init__(self, own_ids: Sequence[str] = ()) -> None:
        self._own_ids = list(own_ids)

    def on_object(self, own_id: str) -> TagValues:
        """Return the tags of an object, own and inherited; the nearest attachment of a tag wins."""
        found = self._objects.get(own_id)
        return found if found is not None else _read_objects([own_id]).get(own_id, {})

    def on_columns(self, own_id: str) -> Mapping[int, TagValues]:
        """Return the tags of the columns of a table by field id. One statement."""
        rows = TagAttachment.objects.on(own_id).on_columns().values_list("field_id", "definition__name_key", "value")
        found: dict[int, dict[str, str | None]] = {}
        for field_id, key, value in rows:
            if field_id is not None:
                found.setdefault(field_id, {})[key] = value
        return found

    @cached_property
    def _objects(self) -> dict[str, TagValues]:
        found: dict[str, TagValues] = {}
        for batch in batches(self._own_ids, BATCH_SIZE):
            found |= _read_objects(batch)
        return found


def _read_objects(own_ids: Sequence[str]) -> dict[str, TagValues]:
    paths = dict(Securable.objects.filter(pk__in=own_ids).values_list("pk", "path"))
    lines = {own_id: path.rstrip("/").split("/") for own_id, path in paths.items()}
    on_line = {each for line in lines.values() for each in line}
    attached: dict[str, dict[str, str | None]] = {}
    for batch in batches(sorted(on_line), BATCH_SIZE):
        rows = TagAttachment.objects.on_objects().filter(securable_id__in=batch)
        for on, key, value in rows.values_list("securable_id", "definition__name_key", "value"):
            attached.setdefault(on, {})[key] = value
    found: dict[str, TagValues] = {}
    for own_id, line in lines.items():
        tags: dict[str, str | None] = {}
        for each in line:  # from the server down: nearer ones replace those above
            tags |= attached.get(each, {})
        found[own_id] = tags
    return found
