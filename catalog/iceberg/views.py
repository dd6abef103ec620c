"""A commit's updates applied to a view's metadata, with no I/O of its own; versions of a view as documents.

Follows Java's `ViewMetadata.Builder`, `ViewVersionParser`, `ViewRepresentationParser` and `CatalogHandlers` (the
reference server), and the REST spec's `ViewUpdate`.
Adding a schema or a version that exists re-uses its id. Unlike for tables, -1 then refers to that one, even if an
earlier request added it: a commit that is sent twice, or after an equal one, has the intended result. (Java's server
rejects such a request.)
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any, Final, NotRequired

from catalog.iceberg import shapes
from catalog.iceberg.draft import Additions, UpdateKind, WorkingCopy, apply_each, no_quick_key, schema_additions
from catalog.iceberg.json_fields import (
    as_list,
    as_object,
    as_string_map,
    clip,
    field_path,
    optional_string,
    read_int,
    read_list,
    read_long,
    read_object,
    read_string,
    read_string_list,
    require_not_ahead,
    required,
    without_nulls,
)
from catalog.iceberg.properties import history_size, may_drop_dialects, on_remove_properties, read_view_properties
from catalog.iceberg.schema_changes import checked_id
from catalog.iceberg.schemas import canonical_schema, parse_new_schema
from catalog.iceberg.table_changes import check_uuid, on_set_location
from catalog.iceberg.types import INITIAL_VERSION_ID, LAST_ADDED, SQL, VIEW_FORMAT_VERSION, ViewMetadata
from icekeeper.kernel.errors.types import BadRequest, EmptyView, IllegalArgument
from icekeeper.kernel.json.shapes import Uuid


def empty_view_metadata() -> ViewMetadata:
    """Return the metadata of a view without any content, with the keys in the order of Java's writer."""
    return {
        "view-uuid": None,
        "format-version": VIEW_FORMAT_VERSION,
        "location": None,
        "properties": {},
        "schemas": [],
        "current-version-id": None,
        "versions": [],
        "version-log": [],
    }


class ViewDraft(WorkingCopy):
    """The working copy of a view's metadata to which the updates of one request are applied.

    Schemas and versions are kept by id, so that a request with thousands of updates takes linear time; `settle` writes
    them back. Until then `metadata` has the lists of the base.
    """

    def __init__(self, base: ViewMetadata | None) -> None:
        super().__init__(empty_view_metadata() if base is None else dict(base))
        self.base = base
        self.schemas = schema_additions(self.metadata["schemas"])
        self.versions = Additions(
            "version",
            INITIAL_VERSION_ID,
            self.metadata["versions"],
            itemgetter("version-id"),
            no_quick_key,
            version_identity,
        )

    def log_current_version(self, *, since_ms: int) -> None:
        version_id = self.metadata["current-version-id"]
        self.own("version-log").append({"timestamp-ms": since_ms, "version-id": version_id})

    def settle(self) -> None:
        """Write changed schemas and versions back into the document."""
        for name, added in (("schemas", self.schemas), ("versions", self.versions)):
            if added.has_changed:
                self.metadata[name] = list(added.documents.values())


def check_view_format_version(version: int, where: str) -> None:
    if version != VIEW_FORMAT_VERSION:
        raise BadRequest(f"{where}: Unsupported format version: v{version} (supported: v{VIEW_FORMAT_VERSION})")


def add_view_schema(draft: ViewDraft, document: dict[str, Any], where: str) -> None:
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
    add_view_schema(draft, read_object(update, "schema", ""), "schema")


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


VIEW_UPDATES: Final[dict[str, UpdateKind[ViewDraft]]] = {
    "assign-uuid": UpdateKind(on_assign_uuid, {"uuid": Uuid}),
    "upgrade-format-version": UpdateKind(on_upgrade_format_version, {"format-version": int}),
    "add-schema": UpdateKind(
        on_add_schema,
        {"schema": shapes.SchemaDocument, "last-column-id": NotRequired[Annotated[int, "Ignored"]]},
    ),
    "set-location": UpdateKind(on_set_location, {"location": str}),
    "set-properties": UpdateKind(on_set_properties, {"updates": shapes.Strings}),
    "remove-properties": UpdateKind(on_remove_properties, {"removals": list[str]}),
    "add-view-version": UpdateKind(on_add_view_version, {"view-version": shapes.ViewVersionDocument}),
    "set-current-view-version": UpdateKind(
        on_set_current_view_version,
        {"view-version-id": Annotated[int, "-1: the one that this request added last"]},
    ),
}


@dataclass(frozen=True, slots=True)
class ViewChange:
    """The result of updates. If `changed` is False, `metadata` is the base itself and nothing may be written."""

    metadata: ViewMetadata
    changed: bool


def apply_view_updates(
    base: ViewMetadata,
    updates: list[Any],
    *,
    now_ms: int,
    between_updates: Callable[[], object] | None = None,
) -> ViewChange:
    """Apply `updates` in their order and return the new metadata; `base` is not changed.

    The version log gets one entry when the view ends with another version than it had, at the version's own time if
    this request added it, else now. Versions beyond `version.history.num-entries` of the new properties expire, the
    lowest ids first, but neither the current one nor those that this request added; the log is cut so that it has no
    gaps. `between_updates` is called before each update, so that an exception, such as of a deadline, can
    stop a request of hundreds of thousands; nothing has changed then.

    Raises `BadRequest` naming the update and the field for what is malformed or against the rules, and for a version
    that lacks a dialect of the one it replaces unless `replace.drop-dialect.allowed` of the new properties is "true".
    """
    draft = ViewDraft(base)
    apply_each(draft, as_list(updates, "updates"), VIEW_UPDATES, between_updates)
    for version_id in draft.versions.added_ids & draft.versions.documents.keys():
        time_ms = draft.versions.documents[version_id]["timestamp-ms"]
        require_not_ahead(time_ms, now_ms, f"version {version_id}: timestamp-ms")
    draft.settle()
    if draft.metadata == base:
        return ViewChange(base, changed=False)
    _write_history(draft, base, now_ms)
    return ViewChange(draft.metadata, changed=True)


def _write_history(draft: ViewDraft, base: ViewMetadata, now_ms: int) -> None:
    """Update the version log and delete expired versions."""
    metadata = draft.metadata
    versions, added_ids = draft.versions.documents, draft.versions.added_ids
    was_id, current_id = base["current-version-id"], metadata["current-version-id"]
    if current_id != was_id:
        if not may_drop_dialects(metadata["properties"]):
            check_dialects_kept(versions[was_id], versions[current_id])
        is_new = current_id in added_ids
        draft.log_current_version(since_ms=versions[current_id]["timestamp-ms"] if is_new else now_ms)
    size = max(history_size(metadata["properties"]), len(added_ids | {current_id}))
    if len(versions) > size:
        newest = sorted(versions.keys() - {current_id}, reverse=True)[: size - 1]
        kept_ids = {current_id, *newest}
        metadata["versions"] = [version for version in metadata["versions"] if version["version-id"] in kept_ids]
        metadata["version-log"] = _cut_version_log(metadata["version-log"], kept_ids)


def _cut_version_log(log: list[Any], kept_ids: Container[int]) -> list[Any]:
    """Return the log without the entries up to the last one of an expired version."""
    for index in range(len(log) - 1, -1, -1):
        if log[index]["version-id"] not in kept_ids:
            return log[index + 1 :]
    return log


def check_view_version(version: dict[str, Any], where: str) -> int:
    """Check one version document as Java reads it and give its id.

    A representation of a type other than SQL may hold anything. Raises `BadRequest` naming the field.
    """
    read_int(version, "schema-id", where)
    read_long(version, "timestamp-ms", where)
    as_string_map(required(version, "summary", where), field_path(where, "summary"))
    optional_string(version, "default-catalog", where)
    for index, level in enumerate(read_string_list(version, "default-namespace", where)):
        if "\0" in level:
            path = f"{field_path(where, 'default-namespace')}[{index}]"
            raise BadRequest(f"{path}: Cannot create a namespace with the null-byte character")
    for index, entry in enumerate(read_list(version, "representations", where)):
        path = f"{field_path(where, 'representations')}[{index}]"
        representation = as_object(entry, path)
        if read_string(representation, "type", path).lower() == SQL:
            read_string(representation, "sql", path)
            read_string(representation, "dialect", path)
    return read_int(version, "version-id", where)


def read_new_version(document: dict[str, Any], where: str) -> dict[str, Any]:
    """A version that a client adds, in its canonical form: no null catalog, the type of a representation in lower case.

    It has at least one representation, all of them SQL, as Java writes no others, and one text for each dialect. Raises
    `BadRequest` naming the field, `EmptyView` and `IllegalArgument` for those two.
    """
    version = without_nulls(document, ("default-catalog",))
    check_view_version(version, where)
    if not version["representations"]:
        raise EmptyView(f"{field_path(where, 'representations')}: View must have at least one representation")
    version["representations"] = [
        entry if entry["type"] == SQL else {**entry, "type": entry["type"].lower()}
        for entry in version["representations"]
    ]
    unsupported = sorted({entry["type"] for entry in version["representations"]} - {SQL})
    if unsupported:
        listed = clip(", ".join(unsupported))
        raise BadRequest(f"{field_path(where, 'representations')}: Found unsupported view representations: [{listed}]")
    seen: set[str] = set()
    for dialect in _dialects(version):
        if dialect in seen:
            raise IllegalArgument(f"Invalid view version: Cannot add multiple queries for dialect {clip(dialect)}")
        seen.add(dialect)
    return version


def version_identity(version: dict[str, Any]) -> Hashable:
    """Return the value by which versions of a view are compared, without ids and times."""
    return (
        version["schema-id"],
        frozenset(version["summary"].items()),
        tuple(_representation_identity(entry) for entry in version["representations"]),
        version.get("default-catalog"),
        tuple(version["default-namespace"]),
    )


def sql_dialects(version: dict[str, Any]) -> set[str]:
    """Return the dialects of a version in lower case: engines compare them case-insensitively."""
    return set(_dialects(version))


def check_dialects_kept(previous: dict[str, Any], version: dict[str, Any]) -> None:
    """Raises `BadRequest` for a version without a dialect of the previous one: an engine would lose the view."""
    before, after = sql_dialects(previous), sql_dialects(version)
    if not before <= after:
        raise BadRequest(
            "Cannot replace view due to loss of view dialects (replace.drop-dialect.allowed=false):\n"
            f"Previous dialects: [{_joined(before)}]\nNew dialects: [{_joined(after)}]"
        )


def check_version_log_entry(entry: dict[str, Any], where: str) -> int:
    """Validate a `version-log` entry and return its version."""
    read_long(entry, "timestamp-ms", where)
    return read_int(entry, "version-id", where)


def _dialects(version: dict[str, Any]) -> Iterator[str]:
    return (entry["dialect"].lower() for entry in version["representations"] if entry["type"].lower() == SQL)


def _representation_identity(entry: dict[str, Any]) -> Hashable:
    kind = entry["type"].lower()
    return (kind, entry["sql"], entry["dialect"]) if kind == SQL else (kind,)


def _joined(dialects: set[str]) -> str:
    return clip(", ".join(sorted(dialects)))
