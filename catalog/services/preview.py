"""Preview of the first rows of a table, read by a child process with the caller's own vended credentials.

The permission to read the data is required, and the access is audited as the vending of credentials to an engine is.
The credentials allow only reading, and only the folder of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from catalog.iceberg.display.stored_parts import find_snapshot
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.programs.preview_rows import MAX_FRAME, PROGRAM
from catalog.selectors.access.files import find_files_for
from catalog.selectors.tables.load import LoadedTabular
from catalog.services.row_access import (
    PYICEBERG,
    ReadFailed,
    missing_of,
    process_limits,
    reading_process,
    reading_slot,
    table_frame,
)
from icekeeper.kernel.bounded_process import ProcessFailed
from icekeeper.kernel.errors.types import NotFound
from icekeeper.kernel.json.strict import write_json
from icekeeper.kernel.threads import release_thread_slot
from tenancy.actor import Actor

MAX_TEXT: Final = 200
PACKAGES: Final = ("pyiceberg", "pyarrow")
INSTALL: Final = f'pip install "pyiceberg[pyarrow]=={PYICEBERG}"'


@dataclass(frozen=True, slots=True)
class PreviewColumn:
    """A column with its profile over the rows that were read; `least` and `greatest` are None where unknown."""

    name: str
    type: str
    nulls: int
    distinct: int
    least: str | None
    greatest: str | None


@dataclass(frozen=True, slots=True)
class Preview:
    """The first rows of a snapshot as texts, None for null."""

    columns: Sequence[PreviewColumn]
    rows: Sequence[Sequence[str | None]]
    hidden_columns: int


def missing_packages() -> list[str]:
    """Return the packages that a preview needs and that are not installed."""
    return missing_of(PACKAGES)


def preview_rows(
    *,
    actor: Actor,
    warehouse_id: UUID,
    identifier: Identifier,
    loaded: LoadedTabular,
    metadata: Mapping[str, Any],
    snapshot_id: int,
) -> Preview:
    """Read the first rows of a snapshot of a table.

    Raises `NoSuchTable`, `Forbidden`, `NotFound` for an unknown snapshot or if previews are off, `Busy` (503) when too
    many processes read rows, `ReadFailed`, and the errors of vending.
    """
    conf = settings.ICEKEEPER.console.preview
    if not conf.enabled:
        raise NotFound("Previews are off")
    found = find_files_for(actor=actor, warehouse_id=warehouse_id, identifier=identifier, kind=Tabular.Kind.TABLE)
    if find_snapshot(dict(metadata), snapshot_id) is None or found.id != loaded.id:
        raise NotFound(f"Snapshot {snapshot_id} does not exist")
    if missing := missing_packages():
        raise ReadFailed(f"Not installed on the server: {', '.join(missing)}. Install: {INSTALL}")
    with reading_slot("previews", conf.processes):
        frame = {
            **table_frame(actor, found, loaded),
            "snapshot-id": snapshot_id,
            "rows": conf.rows,
            "max-text": MAX_TEXT,
        }
        return _run(write_json(frame))


def _run(frame: bytes) -> Preview:
    conf = settings.ICEKEEPER.console.preview
    if len(frame) > MAX_FRAME:
        raise ReadFailed("The metadata of the table is too large for a preview")
    limits = process_limits(conf.memory_bytes, conf.timeout)
    try:
        with release_thread_slot(), reading_process(PROGRAM, limits) as process:
            response = process.ask(frame)
    except ProcessFailed as failed:
        raise ReadFailed(f"The rows could not be read: {failed}") from None
    if "error" in response:
        raise ReadFailed(f"The rows could not be read: {response['error']}")
    columns = [
        PreviewColumn(each["name"], each["type"], each["nulls"], each["distinct"], each["min"], each["max"])
        for each in response["columns"]
    ]
    return Preview(columns, response["rows"], response["hidden-columns"])
