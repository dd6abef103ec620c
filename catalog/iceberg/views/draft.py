"""The working copy of a view's metadata while the updates of one request are applied to it."""

from __future__ import annotations

from operator import itemgetter

from catalog.iceberg.draft import Additions, WorkingCopy, no_quick_key, schema_additions
from catalog.iceberg.views.types import INITIAL_VERSION_ID, VIEW_FORMAT_VERSION, ViewMetadata
from catalog.iceberg.views.versions import version_identity


def empty_view_metadata() -> ViewMetadata:
    """A view that has nothing yet, its keys in the order in which Java writes them."""
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
    """A view while it is changed.

    Schemas and versions are held by id, so that a request with thousands of updates takes linear time; `settle` writes
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
        """Write what is held by id back into the document, where an update touched it."""
        for name, added in (("schemas", self.schemas), ("versions", self.versions)):
            if added.has_changed:
                self.metadata[name] = list(added.documents.values())
