"""What a commit asserts about the view before its updates. Text and rule are those of Java's `AssertViewUUID`."""

from __future__ import annotations

from typing import Any, Final

from catalog.iceberg.json_fields import as_list, clip, read_string
from catalog.iceberg.requirements import requirement_kind
from catalog.iceberg.views.types import ViewMetadata
from icekeeper.kernel.errors.types import CommitFailed
from icekeeper.kernel.json.shapes import Uuid

VIEW_REQUIREMENTS: Final[dict[str, dict[str, Any]]] = {"assert-view-uuid": {"uuid": Uuid}}
"""By `type`: the type of each other member, as a `TypedDict` would have it."""


def check_view_requirements(base: ViewMetadata, requirements: list[Any]) -> None:
    """Check every requirement against the current view.

    Raises `CommitFailed` (409) with Java's text for the first that fails, `BadRequest` for a malformed or unknown one.
    All are parsed before any is checked, so a malformed request is never reported as a conflict.
    """
    uuids = []
    for index, document in enumerate(as_list(requirements, "requirements")):
        requirement_kind(document, index, VIEW_REQUIREMENTS)
        uuids.append(read_string(document, "uuid", f"requirements[{index}]"))
    actual = base["view-uuid"]
    for uuid in uuids:
        if uuid.lower() != actual.lower():
            raise CommitFailed(f"Requirement failed: view UUID does not match: expected {actual} != {clip(uuid)}")
