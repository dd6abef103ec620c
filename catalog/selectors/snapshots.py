"""Tables shown with fewer snapshots than they have."""

from __future__ import annotations

from dataclasses import replace

from catalog.selectors.metadata_cache import Version, metadata_cache
from catalog.selectors.tabulars import Loaded
from icekeeper.kernel.json.strict import read_stored_json, write_json


def with_referenced_snapshots(loaded: Loaded) -> Loaded:
    """The table with those snapshots only that a branch or tag names (`snapshots=refs`); all else is as it was."""
    version = Version(loaded.id, loaded.metadata_location, snapshots="refs")
    document = metadata_cache.get(version)
    if document is None:
        document = _keep_referenced(loaded.document)
        metadata_cache.put_document(version, document)
    return replace(loaded, document=document)


def _keep_referenced(document: bytes) -> bytes:
    metadata = read_stored_json(document)
    named = {reference["snapshot-id"] for reference in (metadata.get("refs") or {}).values()}
    snapshots = metadata.get("snapshots") or []
    kept = [snapshot for snapshot in snapshots if snapshot["snapshot-id"] in named]
    return document if len(kept) == len(snapshots) else write_json(metadata | {"snapshots": kept})
