"""Commits to tables: validate against the newest metadata, write new files, compare-and-set the pointers.

A commit writes one metadata file for each table (`revisions`), then, in one transaction, the pointer, the metadata in
the database, snapshot rows, claims of new locations and the idempotency record (`revisions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings

from catalog.errors import already_exists
from catalog.iceberg.requirements import check_requirements, checked_members, guarded_snapshots, requires_create
from catalog.iceberg.updates import TableChange, apply_updates, describe_updates, only_adds_data
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.selectors.tables.load import LoadedTabular
from catalog.selectors.tables.metadata_cache import Version, metadata_cache, metadata_of
from catalog.selectors.tables.targets import Target, find_target_of_commit
from catalog.selectors.warehouses import require_active
from catalog.services.approval.approve import require_approval
from catalog.services.approval.port import ProposedChange
from catalog.services.approval.proposals import propose_commit
from catalog.services.commit.expected_properties import require_properties
from catalog.services.commit.queue import attempts, reserve_commit_slots
from catalog.services.commit.revisions import CommitRequest, Revision, revise, write_revisions
from catalog.services.idempotency import IdempotencyKey, store_unchanged_response
from catalog.services.tables.create import finish_staged_create, require_format_version
from icekeeper.kernel import request_context
from icekeeper.kernel.clock import now_ms
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.names import lookup_key, path_key
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import is_allowed
from tenancy.models import Securable

MAX_TABLES = 1000
"""Tables in one transaction."""


class TableIdentifiersNotUnique(BadRequest):
    wire_type = "TableIdentifiersNotUnique"


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The changes that a client requests of one table: `updates`, if the newest metadata meets all `requirements`.

    The console also requires values of properties, None for one that is not set: `expected_properties`.
    """

    table: Identifier
    requirements: list[Any]
    updates: list[Any]
    expected_properties: Mapping[str, str | None] = field(default_factory=dict)


def commit_table(
    *, actor: Actor, warehouse_id: UUID, changes: TableChanges, idempotency_key: IdempotencyKey | None = None
) -> LoadedTabular:
    """Apply the changes; the new metadata is durable on return. Updates without an effect write nothing.

    When the pointer was moved concurrently and the requirements are still met, the updates are applied to the newer
    version. Raises `NoSuchTable`, `CommitFailed` (409, certainly not committed), `ContractViolation` (409),
    `BadRequest`, or `CommitStateUnknown` (500) when the connection to the database was lost during the commit.
    """
    table = changes.table
    with reserve_commit_slots([(warehouse_id, path_key(table.levels), lookup_key(table.name))]):
        for _ in attempts(table):
            target, before = find_target_of_commit(warehouse_id=warehouse_id, identifier=table)
            if requires_create(changes.requirements) and not _is_visible_table(actor, target):
                namespace_id = target.namespace_to_create_in(actor, Tabular.Kind.TABLE)
                check_requirements(None, changes.requirements)
                if target.current is not None:
                    raise already_exists(target.current.kind, Tabular.Kind.TABLE, table)
                return finish_staged_create(
                    actor, target, namespace_id, updates=changes.updates, idempotency_key=idempotency_key
                )
            revised = _revise_table(actor, target, before, changes)
            if isinstance(revised, LoadedTabular):
                store_unchanged_response(idempotency_key, revised)
                return revised
            _require_approval(target, [revised])
            revision = revised.revision
            if write_revisions(target, [revision], idempotency_key=idempotency_key, result=revision.result):
                return revision.result
    raise AssertionError("attempts() ends with an error")


def commit_transaction(
    *, actor: Actor, warehouse_id: UUID, changes: Sequence[TableChanges], idempotency_key: IdempotencyKey | None = None
) -> None:
    """Commit to several existing tables in one database transaction: all or none.

    Tables without updates must still meet their requirements when the others are committed. Raises as `commit_table`,
    `TableIdentifiersNotUnique` (400), and `BadRequest` for more than `MAX_TABLES`.
    """
    if len(changes) > MAX_TABLES:
        raise BadRequest(f"A transaction may change {MAX_TABLES} tables at most, this one names {len(changes)}")
    addresses = [(warehouse_id, path_key(change.table.levels), lookup_key(change.table.name)) for change in changes]
    if len(set(addresses)) != len(addresses):
        raise TableIdentifiersNotUnique("Each table may occur only once in a transaction")
    if not changes:
        require_active(actor, Can.USE, warehouse_id)
    with reserve_commit_slots(addresses):
        for _ in attempts("a table of the transaction"):
            revised: list[_RevisedTable] = []
            unchanged: list[LoadedTabular] = []
            target = None
            for change in changes:
                target, before = find_target_of_commit(warehouse_id=warehouse_id, identifier=change.table)
                result = _revise_table(actor, target, before, change)
                if isinstance(result, _RevisedTable):
                    revised.append(result)
                else:
                    unchanged.append(result)
            if target is None or not revised:
                store_unchanged_response(idempotency_key, None)
                return
            _require_approval(target, revised)  # with the rules as of the last read
            revisions = [each.revision for each in revised]
            if write_revisions(target, revisions, unchanged=unchanged, idempotency_key=idempotency_key, result=None):
                return


def _is_visible_table(actor: Actor, target: Target) -> bool:
    """Whether a table has the name and is visible to `actor`."""
    if target.current is None or not target.has(Tabular.Kind.TABLE):
        return False
    return is_allowed(actor, Can.GET_METADATA, Securable.Type.TABLE, target.current.id)


class _RevisedTable(NamedTuple):
    """`propose` returns what the rules are asked about."""

    revision: Revision
    propose: Callable[[], ProposedChange]


def _require_approval(target: Target, revised: Sequence[_RevisedTable]) -> None:
    """Ask the rules about all tables of a request at once, so that an override is recorded only if all are approved."""
    require_approval(
        target.rules_version, lambda: [each.propose() for each in revised], warehouse_id=target.warehouse_id
    )


def _revise_table(actor: Actor, target: Target, before: bytes, changes: TableChanges) -> _RevisedTable | LoadedTabular:
    """Compute the revision of `changes` to the metadata `before`; return `LoadedTabular` when they have no effect."""
    current = target.tabular_for(actor, Can.COMMIT, Tabular.Kind.TABLE)
    base = _checked_base(Version(current.id, current.metadata_location), before, changes.requirements)
    require_properties(base, changes.expected_properties)
    change = apply_updates(
        base,
        changes.updates,
        now_ms=now_ms(),
        base_metadata_location=current.metadata_location,
        guarded_snapshots=guarded_snapshots(changes.requirements, changes.updates),
        between_updates=request_context.remaining_seconds,
    )
    if not change.changed:
        return LoadedTabular(current.id, current.metadata_location, before)
    metadata = change.metadata
    if metadata["format-version"] != base["format-version"]:
        require_format_version(target, metadata["format-version"])
    if metadata.get("table-uuid") != base.get("table-uuid"):
        raise BadRequest("Cannot assign another UUID to a table")
    revision = revise(
        actor,
        target,
        current,
        base,
        metadata,
        request=CommitRequest(changes.requirements, changes.updates, _audit_details(base, change, changes.updates)),
        added_snapshots=change.added_snapshots,
        removed_snapshot_ids=change.removed_snapshot_ids,
        expired_files=[entry["metadata-file"] for entry in change.expired_metadata_files],
    )
    propose = partial(
        propose_commit, actor, target, current, base, metadata, updates=changes.updates,
        removed_snapshot_ids=change.removed_snapshot_ids,
    )  # fmt: skip
    return _RevisedTable(revision, propose)


def _audit_details(base: dict[str, Any], change: TableChange, updates: list[Any]) -> dict[str, Any] | None:
    """Return what the audit record of a commit has; None if `ICEKEEPER__AUDIT__DATA_CHANGES` asks for no record."""
    wanted = settings.ICEKEEPER.audit.data_changes
    if wanted == "off" or (wanted == "ddl" and only_adds_data(base, change)):
        return None
    return describe_updates(updates, change)


def _checked_base(version: Version, document: bytes, requirements: list[Any]) -> dict[str, Any]:
    """Return the metadata in `document`, which meets all `requirements` and must not be modified.

    Most commits to a contended table fail, many for each version: a large document is parsed only for the first.
    """
    known = metadata_cache.checked_members(version)
    if known is not None:
        check_requirements(known, requirements)
        return metadata_of(version, document)
    base = metadata_of(version, document)
    metadata_cache.put_checked_members(version, checked_members(base))
    check_requirements(base, requirements)
    return base
