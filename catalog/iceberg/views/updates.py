"""A commit's updates applied to a view's metadata, with no I/O of its own.

Follows Java's `ViewMetadata.Builder` and `CatalogHandlers` (the reference server), and the REST spec's `ViewUpdate`.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Annotated, Any, Final, NotRequired

from catalog.iceberg import shapes
from catalog.iceberg.draft import UpdateKind, apply_each
from catalog.iceberg.json_fields import as_list, require_not_ahead
from catalog.iceberg.properties import on_remove_properties
from catalog.iceberg.table_changes import on_set_location
from catalog.iceberg.views import changes
from catalog.iceberg.views.draft import ViewDraft
from catalog.iceberg.views.properties import history_size, may_drop_dialects
from catalog.iceberg.views.types import ViewMetadata
from catalog.iceberg.views.versions import check_dialects_kept
from icekeeper.kernel.json.shapes import Uuid

VIEW_UPDATES: Final[dict[str, UpdateKind[ViewDraft]]] = {
    "assign-uuid": UpdateKind(changes.on_assign_uuid, {"uuid": Uuid}),
    "upgrade-format-version": UpdateKind(changes.on_upgrade_format_version, {"format-version": int}),
    "add-schema": UpdateKind(
        changes.on_add_schema,
        {"schema": shapes.SchemaDocument, "last-column-id": NotRequired[Annotated[int, "Ignored"]]},
    ),
    "set-location": UpdateKind(on_set_location, {"location": str}),
    "set-properties": UpdateKind(changes.on_set_properties, {"updates": shapes.Strings}),
    "remove-properties": UpdateKind(on_remove_properties, {"removals": list[str]}),
    "add-view-version": UpdateKind(changes.on_add_view_version, {"view-version": shapes.ViewVersionDocument}),
    "set-current-view-version": UpdateKind(
        changes.on_set_current_view_version,
        {"view-version-id": Annotated[int, "-1: the one that this request added last"]},
    ),
}


@dataclass(frozen=True, slots=True)
class ViewChange:
    """What a request did to a view. When `changed` is False nothing may be written: `metadata` is the base itself."""

    metadata: ViewMetadata
    changed: bool


def apply_view_updates(
    base: ViewMetadata,
    updates: list[Any],
    *,
    now_ms: int,
    between_updates: Callable[[], object] | None = None,
) -> ViewChange:
    """The metadata after `updates`, in their order, on top of `base`; the base is left as it was.

    The version log gets one entry when the view ends with another version than it had, at the version's own time if
    this request added it, else now. Versions beyond `version.history.num-entries` of the new properties expire, the
    lowest ids first, but neither the current one nor those that this request added; the log is cut so that it has no
    gaps. `between_updates` is called before each update, so that a request of hundreds of thousands can be given up by
    an exception (a deadline); nothing has changed then.

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
    """The version log, and which versions stay."""
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
    """The log after versions expired: everything up to the last entry of an expired one goes."""
    for index in range(len(log) - 1, -1, -1):
        if log[index]["version-id"] not in kept_ids:
            return log[index + 1 :]
    return log
