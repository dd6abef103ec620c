"""The first metadata of a new view. Follows Java's `ViewMetadata.Builder` and its server's `createView`."""

from __future__ import annotations

from typing import Any

from catalog.iceberg.json_fields import as_object, as_string, check_depth
from catalog.iceberg.table_changes import check_uuid, clean_location
from catalog.iceberg.types import LAST_ADDED
from catalog.iceberg.views.changes import add_schema, add_version
from catalog.iceberg.views.draft import ViewDraft
from catalog.iceberg.views.properties import read_view_properties
from catalog.iceberg.views.types import INITIAL_VERSION_ID, ViewMetadata
from catalog.iceberg.views.versions import read_new_version


def create_view_metadata(
    *, schema: Any, view_version: Any, location: Any, properties: Any, view_uuid: str
) -> ViewMetadata:
    """The metadata of a view that has just been created, from the fields of a create request.

    The schema becomes 0 and keeps its field ids; the version becomes 1, of that schema, whatever ids the client sent,
    and keeps the rest: its time, its summary, the order of its representations, a default namespace that need not
    exist. `properties` may be None. Unknown fields inside schema and version are kept.

    Raises `BadRequest` naming the field, `EmptyView` for a version without a representation, `IllegalArgument` for two
    of one dialect.
    """
    check_uuid(view_uuid, "view-uuid")
    schema, view_version = as_object(schema, "schema"), as_object(view_version, "view-version")
    for name, document in (("schema", schema), ("view-version", view_version)):
        check_depth(document, name)
    version = read_new_version(view_version, "view-version")

    draft = ViewDraft(None)
    draft.metadata["view-uuid"] = view_uuid
    draft.metadata["location"] = clean_location(as_string(location, "location"), "location")
    draft.metadata["properties"] = dict(read_view_properties(properties, "properties"))
    add_schema(draft, schema, "schema")
    add_version(draft, {**version, "version-id": INITIAL_VERSION_ID, "schema-id": LAST_ADDED}, "view-version")
    draft.metadata["current-version-id"] = INITIAL_VERSION_ID
    draft.log_current_version(since_ms=version["timestamp-ms"])
    draft.settle()
    return draft.metadata
