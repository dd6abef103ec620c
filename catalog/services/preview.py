"""Preview of the first rows of a table, read by a child process with the caller's own vended credentials.

The permission to read the data is required, and the access is audited as the vending of credentials to an engine is.
The credentials allow only reading, and only the folder of the table.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from threading import BoundedSemaphore
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from catalog.iceberg.display.stored_parts import find_snapshot
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.programs.preview_rows import MAX_FRAME, PROGRAM
from catalog.selectors.access.files import FoundFiles, Reader, access_for, find_files_for, vended_credentials
from catalog.selectors.tables.load import LoadedTabular
from icekeeper.kernel import request_context
from icekeeper.kernel.bounded_process import BoundedProcess, Limits, ProcessFailed
from icekeeper.kernel.errors.types import Busy, NotFound
from icekeeper.kernel.json.strict import write_json
from icekeeper.kernel.threads import release_thread_slot
from storage.vending.client_config import client_config
from storage.vending.delegation import FileAccess
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_read
from tenancy.audit.recording import Event
from tenancy.authz.actions import Can

MAX_TEXT: Final = 200
MAX_OUTPUT: Final = 32 << 20
PACKAGES: Final = ("pyiceberg", "pyarrow")
_VERSION: Final = "0.12.0"
"""The one version of PyIceberg with the private functions that the program calls."""
INSTALL: Final = f'pip install "pyiceberg[pyarrow]=={_VERSION}"'
_PYICEBERG: Final = f"PyIceberg/{_VERSION}"
"""The client for which the properties of the FileIO are built."""
_TIMEOUTS: Final = {"s3.connect-timeout": "5", "s3.request-timeout": "10"}
_FILE_IO: Final = {"s3": "s3.", "stackit": "s3.", "adls": "adls.", "onelake": "adls.", "gcs": "gcs."}


class PreviewFailed(Exception):
    """The rows cannot be read; the text is shown to the user."""


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
    return [name for name in PACKAGES if importlib.util.find_spec(name) is None]


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
    many previews run, `PreviewFailed`, and the errors of vending.
    """
    conf = settings.ICEKEEPER.console.preview
    if not conf.enabled:
        raise NotFound("Previews are off")
    found = find_files_for(actor=actor, warehouse_id=warehouse_id, identifier=identifier, kind=Tabular.Kind.TABLE)
    if find_snapshot(dict(metadata), snapshot_id) is None or found.id != loaded.id:
        raise NotFound(f"Snapshot {snapshot_id} does not exist")
    if missing := missing_packages():
        raise PreviewFailed(f"Not installed on the server: {', '.join(missing)}. Install: {INSTALL}")
    slots = _slots(conf.processes)
    if not slots.acquire(blocking=False):
        raise Busy("Too many previews run on this server: try again in a few seconds")
    try:
        properties, root = _access(actor, found)
        frame = write_json(
            {
                "metadata": loaded.document.decode(),
                "metadata-location": loaded.metadata_location,
                "properties": properties,
                "locations": found.files.locations,
                "root": root,
                "snapshot-id": snapshot_id,
                "rows": conf.rows,
                "max-text": MAX_TEXT,
            }
        )
        return _run(frame)
    finally:
        slots.release()


def _access(actor: Actor, found: FoundFiles) -> tuple[dict[str, str], str | None]:
    """Return the properties of the FileIO, and the root of local files. The access is audited."""
    local_root = settings.ICEKEEPER.local_storage_root
    properties: dict[str, str]
    root: str | None
    if found.files.storage.profile["type"] != "local":
        properties, root = _vend(actor, found), None
    elif local_root is not None:
        properties, root = {}, str(local_root.resolve())
    else:
        raise PreviewFailed("Local warehouses are off: ICEKEEPER__LOCAL_STORAGE_ROOT is not set")
    record_read(
        actor=actor,
        event=Event.DATA_CREDENTIALS_VENDED,
        action=Can.READ_DATA,
        object_type=Tabular.Kind.TABLE.value,
        object_id=found.id,
    )
    return properties, root


def _vend(actor: Actor, found: FoundFiles) -> dict[str, str]:
    readable = found._replace(rights=FileAccess.READ)
    access = access_for(reader=Reader(actor), kind=Tabular.Kind.TABLE, tabular=readable, requested="vended-credentials")
    vended = [] if access is None else vended_credentials(found.files, access)
    if not vended:
        raise PreviewFailed(
            "The warehouse vends no credentials, which a preview needs: enable STS or SAS tokens in its storage profile"
        )
    config = client_config(found.files.storage.profile, vended=vended[0][1], user_agent=_PYICEBERG)
    prefix = _FILE_IO[found.files.storage.profile["type"]]
    return {name: value for name, value in config.items() if name.startswith(prefix)} | _TIMEOUTS


def _run(frame: bytes) -> Preview:
    conf = settings.ICEKEEPER.console.preview
    if len(frame) > MAX_FRAME:
        raise PreviewFailed("The metadata of the table is too large for a preview")
    remaining = request_context.remaining_seconds()
    seconds = conf.timeout if remaining is None else min(conf.timeout, max(remaining - 1, 0.1))
    limits = Limits(conf.memory_bytes, max(1, int(seconds)), seconds, MAX_OUTPUT)
    try:
        with release_thread_slot(), BoundedProcess(PROGRAM, limits) as process:
            response = process.ask(frame)
    except ProcessFailed as failed:
        raise PreviewFailed(f"The rows could not be read: {failed}") from None
    if "error" in response:
        raise PreviewFailed(f"The rows could not be read: {response['error']}")
    columns = [
        PreviewColumn(each["name"], each["type"], each["nulls"], each["distinct"], each["min"], each["max"])
        for each in response["columns"]
    ]
    return Preview(columns, response["rows"], response["hidden-columns"])


@cache
def _slots(number: int) -> BoundedSemaphore:
    return BoundedSemaphore(number)
