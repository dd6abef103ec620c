"""Access to the rows of tables for the console: vended credentials of the user, and child processes that read.

The credentials allow only reading, and only the folder of one table. Vending them is audited as that to an engine is.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import BoundedSemaphore
from typing import Any, Final, Literal

from django.conf import settings

from catalog.models import Tabular
from catalog.selectors.access.files import FoundFiles, Reader, access_for, vended_credentials
from catalog.selectors.tables.load import LoadedTabular
from icekeeper.kernel import request_context
from icekeeper.kernel.bounded_process import BoundedProcess, Limits
from icekeeper.kernel.errors.types import Busy
from storage.profiles.addresses import require_permitted_addresses
from storage.profiles.kinds import read_stored_profile
from storage.secrets.stores import stored_credential
from storage.vending.client_config import client_config
from storage.vending.delegation import FileAccess
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_read
from tenancy.audit.recording import Event
from tenancy.authz.actions import Can

PYICEBERG: Final = "0.12.0"
"""The one version of PyIceberg with the private functions that the programs call."""
MAX_OUTPUT: Final = 32 << 20

_USER_AGENT: Final = f"PyIceberg/{PYICEBERG}"
"""The client for which the properties of the FileIO are built."""
_TIMEOUTS: Final = {"s3.connect-timeout": "5", "s3.request-timeout": "10"}
_FILE_IO: Final = {"s3": "s3.", "stackit": "s3.", "adls": "adls.", "onelake": "adls.", "gcs": "gcs."}


Purpose = Literal["previews", "queries"]
"""What a process reads rows for. Each has slots of its own: long queries do not prevent previews."""


class ReadFailed(Exception):
    """The rows cannot be read; the text is shown to the user."""


def missing_of(packages: Sequence[str]) -> list[str]:
    """Return those of the packages that are not installed."""
    return [name for name in packages if importlib.util.find_spec(name) is None]


@contextmanager
def reading_slot(purpose: Purpose, number: int) -> Iterator[None]:
    """Limit the processes of a purpose to a number. Raises `Busy` (503) without a free slot."""
    slots = _slots(purpose, number)
    if not slots.acquire(blocking=False):
        raise Busy(f"Too many {purpose} run on this server: try again in a few seconds")
    try:
        yield
    finally:
        slots.release()


@cache
def _slots(_: Purpose, number: int) -> BoundedSemaphore:
    return BoundedSemaphore(number)


def process_limits(memory_bytes: int, timeout: float) -> Limits:
    """Return the limits of a process, which ends before the deadline of the request."""
    remaining = request_context.remaining_seconds()
    seconds = timeout if remaining is None else min(timeout, max(remaining - 1, 0.1))
    return Limits(memory_bytes, max(1, int(seconds)), seconds, MAX_OUTPUT)


def reading_process(program: str, limits: Limits) -> BoundedProcess:
    """Return a process that reads from object stores: it trusts the same certificate authorities as the server."""
    bundle = settings.ICEKEEPER.storage.ca_bundle
    return BoundedProcess(program, limits, {} if bundle is None else {"SSL_CERT_FILE": str(bundle)})


def table_frame(actor: Actor, found: FoundFiles, loaded: LoadedTabular) -> dict[str, Any]:
    """Return what `catalog.programs.preview_rows.open_table` reads. The access is audited.

    Raises `ReadFailed`, and the errors of vending.
    """
    properties, root = _access(actor, found)
    return {
        "metadata": loaded.document.decode(),
        "metadata-location": loaded.metadata_location,
        "properties": properties,
        "locations": found.files.locations,
        "root": root,
    }


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
        raise ReadFailed("Local warehouses are off: ICEKEEPER__LOCAL_STORAGE_ROOT is not set")
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
        raise ReadFailed(
            "The warehouse vends no credentials, which are needed to read rows: enable STS or SAS tokens in its "
            "storage profile"
        )
    # The credentials may be cached, and the process resolves names by itself.
    storage = found.files.storage
    require_permitted_addresses(read_stored_profile(storage.profile), stored_credential(storage.secret_id))
    config = client_config(found.files.storage.profile, vended=vended[0][1], user_agent=_USER_AGENT)
    prefix = _FILE_IO[found.files.storage.profile["type"]]
    return {name: value for name, value in config.items() if name.startswith(prefix)} | _TIMEOUTS
