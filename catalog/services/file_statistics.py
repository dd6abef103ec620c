"""File statistics of a snapshot: a task reads its manifests, and a row keeps what they say, for the console.

Clients write manifests, so they are decoded in a bounded process. A broken or hostile file is a result, not a failure
of the task: its reason is stored in the row. Only errors of the store let the task try again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from catalog.errors import no_such_object
from catalog.iceberg.display.partition_text import list_partition_specs
from catalog.iceberg.display.stored_parts import find_snapshot
from catalog.iceberg.file_totals import read_target
from catalog.iceberg.types import TableMetadata
from catalog.models import FileStatistics, LocationClaim, Tabular
from catalog.programs.read_manifests import MAX_FRAME, PROGRAM, SPEC_ID_BYTES
from catalog.selectors.tables.metadata_cache import Version, metadata_of, read_metadata_document
from icekeeper.kernel.bounded_process import BoundedProcess, Limits, ProcessFailed
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import BATCH, delete_in_batches
from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.errors.types import InvalidLocation, NotFound
from storage.io.port import ObjectNotFound, ObjectStore, ObjectTooLarge
from storage.io.stores import store_for
from storage.models import Warehouse
from storage.profiles.location import location_inside
from tasks.models import Task
from tasks.queue.enqueue import NewTask, enqueue
from tasks.queue.leases import Lease
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable

MIB: Final = 1 << 20
MAX_SNAPSHOTS: Final = 3
"""Snapshots of a table whose statistics are kept: those that were read last."""
RETENTION: Final = timedelta(days=90)

MAX_MANIFESTS: Final = 20_000
MAX_FILES: Final = 20_000_000
MAX_FILE_BYTES: Final = 64 * MIB
MAX_BYTES: Final = 4096 * MIB
MAX_SECONDS: Final = 900.0
LIMITS: Final = Limits(memory_bytes=1536 * MIB, cpu_seconds=600, seconds=MAX_SECONDS + 60, output_bytes=16 * MIB)
"""The time is longer than `MAX_SECONDS`, as it also runs while the server waits for the store."""

SNAPSHOT, MANIFESTS = "snapshot-id", "manifests"


class FilesUnreadable(Exception):
    """The files of the snapshot cannot be read; the text is shown to users."""


def request_file_statistics(*, actor: Actor, tabular: Tabular, metadata: TableMetadata, snapshot_id: int) -> None:
    """Queue a task that reads the files of a snapshot, unless the table has one. For a table that the caller may load.

    Manifests contain values of partitions, so the permission to read data is required. Raises `NotFound` for an unknown
    snapshot, `NoSuchTable` or `Forbidden`.
    """
    missing = no_such_object(tabular.kind, tabular.uuid)
    require_permission(actor, Can.READ_DATA, Securable.Type.TABLE, tabular.pk, missing=missing)
    if find_snapshot(metadata, snapshot_id) is None:
        raise NotFound(f"Snapshot {snapshot_id} does not exist")
    namespace = tabular.namespace
    with write_transaction():
        enqueue(
            [
                NewTask(
                    queue=Task.Queue.FILE_STATISTICS.value,
                    project_id=namespace.warehouse.project_id,
                    warehouse_id=tabular.warehouse_id,
                    entity_type=tabular.kind,
                    entity_id=tabular.pk,
                    entity_uuid=tabular.uuid,
                    entity_name=[*namespace.levels, tabular.name],
                    payload={SNAPSHOT: snapshot_id},
                    created_by=actor.user_id or "",
                )
            ]
        )


def read_file_statistics(lease: Lease, checkpoint: Callable[[], object]) -> None:
    """Execute a task of the queue `file_statistics`. Raises errors of the store, and what `checkpoint` raises."""
    snapshot_id = lease.payload.get(SNAPSHOT)
    source = _find_source(lease.entity_id, snapshot_id)
    document, error = None, ""
    if source is not None:
        try:
            document = read_files(source, lease, checkpoint)
        except FilesUnreadable as unreadable:
            error = str(unreadable)
    with write_transaction():
        # Locked before the task, as drops do; one that was dropped meanwhile keeps no statistics.
        is_there = source is not None and lock_row(Tabular, "id = %s", [lease.entity_id]) is not None
        lease.finish()
        if source is not None and is_there:
            _keep(lease.entity_id, source.snapshot["snapshot-id"], document, error)


@dataclass(frozen=True, slots=True)
class Source:
    """A snapshot, and where its files may be: `locations` are those of the table, in the warehouse `base`."""

    metadata: TableMetadata
    snapshot: Mapping[str, Any]
    store: ObjectStore
    base: str
    locations: tuple[str, ...]

    def read(self, location: object, what: str) -> bytes:
        """Return a file of the table. Raises `FilesUnreadable`, and errors of the store."""
        try:
            inside = location_inside(location, base=self.base)
        except InvalidLocation:
            inside = ""
        if not any(inside.startswith(f"{each}/") for each in self.locations):
            raise FilesUnreadable(f"{what} is outside of the location of the table: {str(location)[:300]}")
        try:
            return self.store.get(inside, limit=MAX_FILE_BYTES)
        except ObjectNotFound:
            raise FilesUnreadable(f"{what} does not exist: {str(location)[:300]}") from None
        except ObjectTooLarge:
            raise FilesUnreadable(f"{what} has more than {MAX_FILE_BYTES // MIB} MiB: {str(location)[:300]}") from None


def _find_source(tabular_id: UUID, snapshot_id: Any) -> Source | None:
    """Return the snapshot of a task; None if the table was dropped or the snapshot has expired."""
    rows = Tabular.objects.live().select_related("warehouse", "current_metadata")
    tabular = rows.filter(pk=tabular_id, warehouse__status=Warehouse.Status.ACTIVE).first()
    if tabular is None:
        return None
    storage = tabular.warehouse.storage
    version = Version(tabular.pk, tabular.metadata_location)
    document = read_metadata_document(storage, version, tabular.current_metadata.document)
    metadata = metadata_of(version, document)
    snapshot = find_snapshot(metadata, snapshot_id)
    if snapshot is None:
        return None
    claims = LocationClaim.objects.of_tabulars([tabular.pk]).values_list("location", flat=True)
    return Source(metadata, snapshot, store_for(storage), tabular.warehouse.location, (tabular.location, *claims))


def read_files(source: Source, lease: Lease, checkpoint: Callable[[], object]) -> dict[str, Any]:
    """Return the document of a `FileSummary`. Raises `FilesUnreadable`, errors of the store and of `checkpoint`."""
    ends_at = time.monotonic() + MAX_SECONDS
    with BoundedProcess(PROGRAM, LIMITS) as program:
        start = {
            "target": read_target(source.metadata),
            "specs": _partition_specs(source.metadata),
            "max-manifests": MAX_MANIFESTS,
            "max-files": MAX_FILES,
        }
        _ask(program, b"S" + json.dumps(start).encode(), "The table")
        manifests = _list_manifests(source, program)
        size = 0
        for number, (path, spec_id) in enumerate(manifests):
            checkpoint()
            what = f"Manifest {number + 1} of {len(manifests)}"
            data = source.read(path, what)
            if time.monotonic() > ends_at:
                raise FilesUnreadable(f"Only {number} of {len(manifests)} manifests were read in {MAX_SECONDS:g} s")
            size += len(data)
            if size > MAX_BYTES:
                raise FilesUnreadable(f"The manifests have more than {MAX_BYTES // MIB} MiB")
            _ask(program, b"M" + spec_id.to_bytes(SPEC_ID_BYTES, signed=True) + data, what)
            lease.progress = (number + 1) / len(manifests)
            lease.execution_details[MANIFESTS] = number + 1
        summary: dict[str, Any] = _ask(program, b"E", "The summary")
    return {**summary, "manifests": len(manifests), "manifest-bytes": size}


def _list_manifests(source: Source, program: BoundedProcess) -> list[tuple[str, int]]:
    """Return paths and partition spec ids; the id is -1 where only the manifest has it (version 1)."""
    location = source.snapshot.get("manifest-list")
    if location is None:
        inline = [each for each in source.snapshot.get("manifests") or () if isinstance(each, str)]
        if len(inline) > MAX_MANIFESTS:
            raise FilesUnreadable(f"The snapshot has more than {MAX_MANIFESTS} manifests")
        return [(each, -1) for each in inline]
    what = "The manifest list"
    listed = _ask(program, b"L" + source.read(location, what), what)
    return [(each["path"], each["spec_id"] if each["spec_id"] < 1 << 31 else -1) for each in listed]


def _ask(program: BoundedProcess, frame: bytes, what: str) -> Any:
    if len(frame) > MAX_FRAME:
        raise FilesUnreadable(f"{what} is too large")
    try:
        response = program.ask(frame)
    except ProcessFailed as failed:
        raise FilesUnreadable(f"{what} could not be read: {failed}") from None
    if isinstance(response, dict) and "error" in response:
        raise FilesUnreadable(f"{what} could not be read: {response['error']}")
    return response


def _partition_specs(metadata: TableMetadata) -> dict[str, Sequence[Sequence[str]]]:
    return {
        str(spec.spec_id): [(each.name, each.transform) for each in spec.fields]
        for spec in list_partition_specs(metadata)
    }


def _keep(tabular_id: UUID, snapshot_id: int, document: dict[str, Any] | None, error: str) -> None:
    """Store the statistics of a snapshot, and delete all but the last few of the table."""
    values = {"document": document, "error": error.replace("\0", "\ufffd"), "read_at": now()}
    own = FileStatistics.objects.filter(tabular_id=tabular_id)
    FileStatistics.objects.update_or_create(tabular_id=tabular_id, snapshot_id=snapshot_id, defaults=values)
    old = list(own.order_by("-read_at").values_list("pk", flat=True)[MAX_SNAPSHOTS:])
    own.filter(pk__in=old).delete()


def delete_old_file_statistics(*, actor: Actor, batch: int = BATCH) -> int:
    """Delete the rows that were read longer ago than `RETENTION`; return their number."""
    return delete_in_batches(FileStatistics.objects.filter(read_at__lt=now() - RETENTION), batch=batch)
