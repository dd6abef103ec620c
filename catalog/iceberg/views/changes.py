"""The updates of a view, one function each. Java: `ViewMetadata.Builder`.

Adding a schema or a version that exists re-uses its id. Unlike for tables, -1 then refers to that one, even if an
earlier request added it: a commit that is sent twice, or after an equal one, has the intended result. (Java's server
rejects such a request.)
"""

from __future__ import annotations

from typing import Any

from catalog.iceberg.json_fields import clip, field_path, read_int, read_object, read_string
from catalog.iceberg.schema_changes import checked_id
from catalog.iceberg.schemas import canonical_schema, parse_new_schema
from catalog.iceberg.table_changes import check_uuid
from catalog.iceberg.types import LAST_ADDED
from catalog.iceberg.views.draft import ViewDraft
from catalog.iceberg.views.properties import read_view_properties
from catalog.iceberg.views.types import VIEW_FORMAT_VERSION
from catalog.iceberg.views.versions import read_new_version, version_identity
from icekeeper.kernel.errors.types import BadRequest


def check_view_format_version(version: int, where: str) -> None:
    if version != VIEW_FORMAT_VERSION:
        raise BadRequest(f"{where}: Unsupported format version: v{version} (supported: v{VIEW_FORMAT_VERSION})")


def add_schema(draft: ViewDraft, document: dict[str, Any], where: str) -> None:
    """add-schema. Field ids are kept as they are, and every type is allowed: a view stores no data."""
    identity = parse_new_schema(document, where).identity
    document = canonical_schema(document)
    same_id = draft.schemas.find(document, identity)
    if same_id is not None:
        draft.schemas.last = same_id
        return
    schema_id = checked_id(draft.schemas.next_id, where)
    draft.schemas.add(schema_id, {**document, "schema-id": schema_id}, identity)


def add_version(draft: ViewDraft, version: dict[str, Any], where: str) -> None:
    """add-view-version, of a version that `read_new_version` gave.

    It keeps its id if that is higher than all others (as in Java), else it gets the highest plus one.
    """
    schema_path = field_path(where, "schema-id")
    schema_id = version["schema-id"]
    if schema_id == LAST_ADDED:
        if draft.schemas.last is None:
            raise BadRequest(f"{schema_path}: Cannot set last added schema: no schema has been added")
        schema_id = draft.schemas.last
    if schema_id not in draft.schemas.documents:
        raise BadRequest(f"{schema_path}: Cannot add version with unknown schema: {schema_id}")
    version = {**version, "schema-id": schema_id}
    identity = version_identity(version)
    same_id = draft.versions.find(version, identity)
    if same_id is not None:
        draft.versions.last = same_id
        return
    version_id = checked_id(max(version["version-id"], draft.versions.next_id), where)
    draft.versions.add(version_id, {**version, "version-id": version_id}, identity)


def on_assign_uuid(draft: ViewDraft, update: dict[str, Any]) -> None:
    """assign-uuid. A view keeps the UUID it has; equal is no change."""
    uuid = check_uuid(read_string(update, "uuid", ""), "uuid")
    existing = draft.metadata["view-uuid"]
    if existing.lower() != uuid.lower():
        raise BadRequest(f"uuid: Cannot reassign uuid of a view: {clip(existing)} to {uuid}")


def on_upgrade_format_version(_: ViewDraft, update: dict[str, Any]) -> None:
    check_view_format_version(read_int(update, "format-version", ""), "format-version")


def on_add_schema(draft: ViewDraft, update: dict[str, Any]) -> None:
    add_schema(draft, read_object(update, "schema", ""), "schema")


def on_set_properties(draft: ViewDraft, update: dict[str, Any]) -> None:
    """set-properties; `updated` is the name that clients before 1.0 used."""
    name = "updated" if "updates" not in update and "updated" in update else "updates"
    properties = read_view_properties(read_object(update, name, ""), name)
    if properties:
        draft.own("properties").update(properties)


def on_add_view_version(draft: ViewDraft, update: dict[str, Any]) -> None:
    version = read_new_version(read_object(update, "view-version", ""), "view-version")
    add_version(draft, version, "view-version")


def on_set_current_view_version(draft: ViewDraft, update: dict[str, Any]) -> None:
    version_id = draft.versions.resolve(update, "view-version-id")
    if version_id not in draft.versions.documents:
        raise BadRequest(f"view-version-id: Cannot set current version to unknown version: {version_id}")
    draft.metadata["current-version-id"] = version_id
