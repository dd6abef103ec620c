"""Requirements of a commit: conditions on the current table or view, with the texts of Java's `UpdateRequirement`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, NotRequired

from catalog.iceberg.json_fields import as_list, as_object, clip, describe, optional_long, read_int, read_string
from catalog.iceberg.types import TableMetadata, ViewMetadata
from icekeeper.kernel.errors.types import BadRequest, CommitFailed
from icekeeper.kernel.json.shapes import Long, Uuid

ASSERT_CREATE: Final = "assert-create"


def requires_create(requirements: list[Any]) -> bool:
    """Whether the request creates a table: `assert-create` is among its requirements.

    Raises `BadRequest` for requirements that are no list of objects or of an unknown type, and for `assert-create`
    together with another one.
    """
    kinds = [
        requirement_kind(document, index, TABLE_REQUIREMENTS)
        for index, document in enumerate(as_list(requirements, "requirements"))
    ]
    others = sorted({kind for kind in kinds if kind != ASSERT_CREATE})
    if ASSERT_CREATE not in kinds:
        return False
    if others:
        raise BadRequest(f"Invalid create requirements: {', '.join(others)} together with {ASSERT_CREATE}")
    return True


def check_requirements(base: TableMetadata | None, requirements: list[Any]) -> None:
    """Check every requirement against the current table, or None when it does not exist.

    Raises `CommitFailed` (409) with Java's text for the first that fails, `BadRequest` for a malformed or unknown one.
    All are parsed before any is checked, so a malformed request is never reported as a conflict.
    """
    requires_create(requirements)
    conditions = []
    for index, document in enumerate(requirements):
        kind = requirement_kind(document, index, TABLE_REQUIREMENTS)
        try:
            conditions.append(TABLE_REQUIREMENTS[kind].read(document))
        except BadRequest as error:
            raise BadRequest(f"requirements[{index}] ({kind}): {error.message}") from error
    for condition in conditions:
        problem = condition(base)
        if problem is not None:
            raise CommitFailed(f"Requirement failed: {problem}")


_CHECKED_MEMBERS: Final = (
    "table-uuid", "refs", "last-column-id", "current-schema-id", "last-partition-id", "default-spec-id",
    "default-sort-order-id",
)  # fmt: skip


def checked_members(base: TableMetadata) -> TableMetadata:
    """Return a copy of the members that requirements check: for `check_requirements` it is as good as the whole."""
    return {name: copy.deepcopy(base[name]) for name in _CHECKED_MEMBERS if name in base}


def guarded_snapshots(requirements: list[Any], updates: list[Any]) -> frozenset[int]:
    """Return the snapshots that a request adds on top of the snapshots that its requirements assert.

    For each reference that is set to one of them, an assert-ref-snapshot-id names the snapshot on which it, or the
    first of a chain of added ones, is based; or asserts that the reference is new. So nothing that others committed to
    those references is undone. Malformed requirements guard nothing.
    """
    asserted = {
        document.get("ref"): document.get("snapshot-id")
        for document in requirements
        if isinstance(document, dict) and document.get("type") == "assert-ref-snapshot-id"
    }
    if not asserted:
        return frozenset()
    parents: dict[int, int | None] = {}
    heads: dict[int, list[Any]] = {}
    for update in updates:
        match update:
            case {"action": "add-snapshot", "snapshot": {"snapshot-id": int(added), **rest}}:
                parent = rest.get("parent-snapshot-id")
                parents[added] = parent if isinstance(parent, int) else None
            case {"action": "set-snapshot-ref", "ref-name": str(name), "snapshot-id": int(head)}:
                heads.setdefault(head, []).append(name)
    bases = _bases(parents)
    guarded: set[int] = set()
    for head, names in heads.items():
        if head in bases and all(name in asserted and asserted[name] in {None, bases[head]} for name in names):
            at: int | None = head
            while at in parents and at not in guarded:
                guarded.add(at)
                at = parents[at]
    return frozenset(guarded)


def _bases(parents: dict[int, int | None]) -> dict[int, int | None]:
    """Return for each added snapshot its nearest existing ancestor, None when it has none.

    Each link is followed once. Snapshots that are their own ancestors are skipped.
    """
    bases: dict[int, int | None] = {}
    circular: set[int] = set()
    for added in parents:
        path: dict[int, None] = {}
        at: int | None = added
        while at in parents and at not in bases and at not in circular and at not in path:
            path[at] = None
            at = parents[at]
        if at in path or at in circular:
            circular.update(path)
        else:
            base = bases[at] if at in bases else at  # noqa: SIM401 - None is no key
            bases.update(dict.fromkeys(path, base))
    return bases


Condition = Callable[[TableMetadata | None], str | None]
"""Returns why the requirement is not met, None when it is."""


@dataclass(frozen=True, slots=True)
class RequirementKind:
    """A kind of requirement: the function that reads its document, and the type of each member besides `type`."""

    read: Callable[[dict[str, Any]], Condition]
    members: Mapping[str, Any]


NO_TABLE: Final = "table does not exist"


def requirement_kind(document: Any, index: int, known: Container[str]) -> str:
    """Return the `type` of a requirement. Raises `BadRequest` when it has none or one that is not known."""
    where = f"requirements[{index}]"
    kind = as_object(document, where).get("type")
    if not isinstance(kind, str):
        problem = "required field is missing" if kind is None else f"expected a string, got {describe(kind)}"
        raise BadRequest(f"{where}.type: {problem}")
    if kind not in known:
        raise BadRequest(f"{where}: unknown requirement type: {clip(kind)}")
    return kind


def _assert_create(_: dict[str, Any]) -> Condition:
    return lambda base: None if base is None else "table already exists"


def _assert_table_uuid(document: dict[str, Any]) -> Condition:
    uuid = read_string(document, "uuid", "")

    def condition(base: TableMetadata | None) -> str | None:
        if base is None:
            return NO_TABLE
        actual = base.get("table-uuid")
        if actual is not None and actual.lower() == uuid.lower():
            return None
        return f"UUID does not match: expected {actual} != {uuid}"

    return condition


def _assert_ref_snapshot_id(document: dict[str, Any]) -> Condition:
    name = read_string(document, "ref", "")
    expected = optional_long(document, "snapshot-id", "")

    def condition(base: TableMetadata | None) -> str | None:
        ref = None if base is None else (base.get("refs") or {}).get(name)
        if ref is None:
            return None if expected is None else f"branch or tag {name} is missing, expected {expected}"
        if expected is None:
            return f"{ref['type']} {name} was created concurrently"
        if expected == ref["snapshot-id"]:
            return None
        return f"{ref['type']} {name} has changed: expected id {expected} != {ref['snapshot-id']}"

    return condition


def _assert_equal(field: str, actual: str, subject: str, *, passes_without_table: bool) -> RequirementKind:
    """Return the kind of requirement that a number of the table is still the one that the client read."""

    def read(document: dict[str, Any]) -> Condition:
        expected = read_int(document, field, "")

        def condition(base: TableMetadata | None) -> str | None:
            if base is None:
                return None if passes_without_table else NO_TABLE
            if base[actual] == expected:
                return None
            return f"{subject} changed: expected id {expected} != {base[actual]}"

        return condition

    return RequirementKind(read, {field: int})


TABLE_REQUIREMENTS: Final[dict[str, RequirementKind]] = {
    ASSERT_CREATE: RequirementKind(_assert_create, {}),
    "assert-table-uuid": RequirementKind(_assert_table_uuid, {"uuid": Uuid}),
    "assert-ref-snapshot-id": RequirementKind(
        _assert_ref_snapshot_id,
        {"ref": str, "snapshot-id": NotRequired[Annotated[Long | None, "Null: the reference does not exist"]]},
    ),
    "assert-last-assigned-field-id": _assert_equal(
        "last-assigned-field-id", "last-column-id", "last assigned field id", passes_without_table=True
    ),
    "assert-current-schema-id": _assert_equal(
        "current-schema-id", "current-schema-id", "current schema", passes_without_table=False
    ),
    "assert-last-assigned-partition-id": _assert_equal(
        "last-assigned-partition-id", "last-partition-id", "last assigned partition id", passes_without_table=True
    ),
    "assert-default-spec-id": _assert_equal(
        "default-spec-id", "default-spec-id", "default partition spec", passes_without_table=False
    ),
    "assert-default-sort-order-id": _assert_equal(
        "default-sort-order-id", "default-sort-order-id", "default sort order", passes_without_table=False
    ),
}


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
