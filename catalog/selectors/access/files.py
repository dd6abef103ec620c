"""What a caller may do with the files of a table, view or generic table, and the credentials for it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from django.conf import settings
from django.db import Error

from catalog.errors import no_such_tabular
from catalog.identifiers import Identifier
from catalog.models import Tabular
from icekeeper.kernel.db.sql import as_uuid, fetch_one_as
from icekeeper.kernel.json.strict import read_stored_json
from icekeeper.kernel.names import lookup_key, path_key
from storage.errors import no_such_warehouse
from storage.models import WarehouseStorage
from storage.vending.delegation import (
    Delegation,
    FileAccess,
    RequestedAccess,
    Vended,
    choose_delegation,
    parse_requested_access,
)
from storage.vending.vend import vend
from tenancy.actor import Actor, may_change_catalog
from tenancy.authz.actions import Can
from tenancy.authz.permissions import (
    Missing,
    check_permissions,
    require_permission_and_check,
)
from tenancy.authz.port import AuthorizationBackendError
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

STORAGE_COLUMNS = "w.version, CAST(w.storage_profile AS text), w.secret_id, w.enforced_signatures"
"""`StorageRow` of a warehouse `w`."""

LOCATION_COLUMNS = """t.location, t.metadata_location,
       (SELECT CAST(json_agg(c.location) AS text) FROM catalog_locationclaim c WHERE c.tabular_id = t.id)"""

FILES_COLUMNS = f"{STORAGE_COLUMNS}, {LOCATION_COLUMNS}"
"""`FilesRow` of a warehouse `w` and a tabular `t`."""

NAMED_TABULAR = """FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
  LEFT JOIN catalog_tabular t ON t.namespace_id = n.id AND t.name_key = %s AND t.deleted_at IS NULL"""
"""A warehouse `w`, its namespace `n` and the tabular `t` in it by their look-up keys; `n` and `t` may be missing."""

_BY_ID = f"""
SELECT {FILES_COLUMNS}
  FROM storage_warehouse w
  JOIN catalog_tabular t ON t.warehouse_id = w.id
 WHERE w.id = %s AND t.id = %s AND t.deleted_at IS NULL
"""  # noqa: S608 - constants

_BY_NAME = f"""
SELECT {FILES_COLUMNS}, w.status, t.id, t.kind
{NAMED_TABULAR}
 WHERE w.id = %s
"""


@dataclass(slots=True)
class StorageRow:
    """A row that begins with the `STORAGE_COLUMNS` of a warehouse."""

    storage_version: int
    storage_profile: Any
    secret_id: Any
    enforced_signatures: str | None


@dataclass(slots=True)
class FilesRow(StorageRow):
    """A row that begins with the `FILES_COLUMNS` of a tabular and its warehouse."""

    location: str
    metadata_location: str
    claims: str | None


@dataclass(slots=True)
class _NamedFilesRow(FilesRow):
    warehouse_status: str
    tabular_id: Any
    kind: str


@dataclass(frozen=True, slots=True)
class TabularFiles:
    """The folders of a tabular: its location, then its other claims.

    Without a final slash, and with the scheme that the tabular's clients use.
    """

    storage: WarehouseStorage
    locations: tuple[str, ...]


class ReadableTabular(Protocol):
    """A tabular with its files, and the reader's access to them."""

    @property
    def id(self) -> UUID: ...
    @property
    def files(self) -> TabularFiles | None: ...
    @property
    def rights(self) -> FileAccess | None: ...


class FoundFiles(NamedTuple):
    id: UUID
    files: TabularFiles
    rights: FileAccess | None


def read_storage(warehouse_id: UUID, row: StorageRow) -> WarehouseStorage:
    secret_id = None if row.secret_id is None else as_uuid(row.secret_id)
    profile = read_stored_json(row.storage_profile)
    return WarehouseStorage(warehouse_id, row.storage_version, profile, secret_id, row.enforced_signatures)


def read_files(warehouse_id: UUID, row: FilesRow) -> TabularFiles:
    locations = with_client_scheme(claimed_locations(row.location, row.claims), row.metadata_location)
    return TabularFiles(read_storage(warehouse_id, row), locations)


def claimed_locations(location: str, claims: str | None) -> tuple[str, ...]:
    """Return the location of a tabular, then its other claims, in compared form."""
    return (location,) if claims is None else (location, *read_stored_json(claims.encode()))


def with_client_scheme(locations: tuple[str, ...], metadata_location: str) -> tuple[str, ...]:
    """Return `locations`, which are in compared form, with the scheme of `metadata_location`, the clients' spelling."""
    scheme = metadata_location.partition(":")[0]
    if not scheme or locations[0].startswith(f"{scheme}:"):
        return locations
    return tuple(f"{scheme}:{location.partition(':')[2]}" for location in locations)


def files_of(*, warehouse_id: UUID, tabular_id: UUID) -> TabularFiles | None:
    """Find the files of an existing tabular, on the primary database; None when it is dropped, restorable or not."""
    row = fetch_one_as(FilesRow, "default", _BY_ID, [warehouse_id, tabular_id])
    return None if row is None else read_files(warehouse_id, row)


def find_files_for(*, actor: Actor, warehouse_id: UUID, identifier: Identifier, kind: Tabular.Kind) -> FoundFiles:
    """Return id and files of a tabular that `actor` may read, and their access to the files.

    Raises `NoSuchWarehouse`, `NoSuchTable`, `Forbidden`.
    """
    params = [path_key(identifier.levels), lookup_key(identifier.name), warehouse_id]
    row = fetch_one_as(_NamedFilesRow, settings.READ_DATABASE, _BY_NAME, params)
    if row is None or row.warehouse_status != "active":
        raise no_such_warehouse(warehouse_id)
    missing = partial(no_such_tabular, kind, identifier)
    if row.tabular_id is None or row.kind != kind:
        raise missing()
    tabular_id = as_uuid(row.tabular_id)
    rights = require_data_rights(actor, kind, tabular_id, missing=missing)
    return FoundFiles(tabular_id, read_files(warehouse_id, row), rights)


_ON_FILES: Final = {
    Tabular.Kind.TABLE: (Can.READ_DATA, Can.WRITE_DATA),
    Tabular.Kind.VIEW: (Can.SELECT,),
    Tabular.Kind.GENERIC_TABLE: (Can.READ_DATA, Can.WRITE_DATA),
}
"""The actions that read and that write files. The folder of a view is never written to. Write access includes read."""


def require_to_load(actor: Actor, kind: Tabular.Kind, tabular_id: UUID, *, missing: Missing) -> FileAccess | None:
    """Check that `actor` may see a tabular, and return their access to its files, None without any.

    One call to the authorizer. Raises `missing` when the tabular is hidden from `actor`.
    """
    ref = ObjectRef(Securable.Type(kind.value), tabular_id)
    return _rights(require_permission_and_check(actor, Can.GET_METADATA, ref, _ON_FILES[kind], missing=missing))


def require_data_rights(actor: Actor, kind: Tabular.Kind, tabular_id: UUID, *, missing: Missing) -> FileAccess:
    """Return the access of `actor` to the files.

    Raises `Forbidden` without read access, `missing` when the tabular is hidden from `actor`, too.
    """
    reading, *writing = _ON_FILES[kind]
    ref = ObjectRef(Securable.Type(kind.value), tabular_id)
    may_write = require_permission_and_check(actor, reading, ref, writing, missing=missing)
    return FileAccess.READ_WRITE if any(may_write) else FileAccess.READ


def data_rights(actor: Actor, kind: Tabular.Kind, tabular_id: UUID) -> FileAccess | None:
    """As `require_to_load`, for a tabular that is known to be visible to the caller."""
    ref = ObjectRef(Securable.Type(kind.value), tabular_id)
    return _rights(check_permissions(actor, [(action, ref) for action in _ON_FILES[kind]]))


def _rights(allowed: list[bool]) -> FileAccess | None:
    """Return the access that follows from the checked actions `_ON_FILES`."""
    may_read, may_write = allowed[0], any(allowed[1:])
    return FileAccess.READ_WRITE if may_write else FileAccess.READ if may_read else None


logger = logging.getLogger("icekeeper.storage")


@dataclass(frozen=True, slots=True)
class Access:
    """A caller's access to files, and how it is delegated by this version of the warehouse's storage."""

    delegation: Delegation
    rights: FileAccess
    storage_version: int


@dataclass(frozen=True, slots=True)
class Reader:
    """The actor whose permissions decide on a read, and the views through which the caller reads, if any."""

    actor: Actor
    views: tuple[Identifier, ...] = ()

    @property
    def is_delegate(self) -> bool:
        return self.actor.delegated_by is not None


def access_for(*, reader: Reader, kind: Tabular.Kind, tabular: ReadableTabular, requested: str | None) -> Access | None:
    """Return the access to delegate; None without rights, without files, and for local files, which need no delegation.

    `requested` is the value of the header X-Iceberg-Access-Delegation. Requests to the folder of a view are not signed.
    Nor are those of an engine that reads with an owner's rights, as the signer knows only the engine's own: it gets
    vended credentials where possible, otherwise nothing. Read-only tokens get read access.
    """
    files, rights = tabular.files, tabular.rights
    if rights is None or files is None or _is_local(files):
        return None
    caller = reader.actor.delegated_by or reader.actor
    if not may_change_catalog(caller.identity):
        rights = FileAccess.READ
    access = parse_requested_access(requested)
    if reader.is_delegate and access is RequestedAccess.SIGNING:
        access = RequestedAccess.VENDED
    return _access(files, rights, access, signs=kind != Tabular.Kind.VIEW and not reader.is_delegate)


def access_to_written(
    *,
    actor: Actor,
    kind: Tabular.Kind,
    tabular_id: UUID,
    files: TabularFiles | None,
    requested: str | None,
    warehouse_id: UUID,
) -> tuple[TabularFiles | None, Access | None]:
    """Return the files of a tabular, and the caller's access to them, for the response to a write.

    `files` are given for a tabular that was created just now. Without them the tabular existed before or the response
    is replayed: then the caller's current permissions decide, and a dropped table gives no access. As the write is
    committed, a failed look-up or permission check means no access instead of an error; a later load vends again.
    """
    if files is not None and kind != Tabular.Kind.VIEW:
        return files, access_of_creator(files, requested)
    try:
        files = files or files_of(warehouse_id=warehouse_id, tabular_id=tabular_id)
        if files is None or _is_local(files):
            return files, None
        found = FoundFiles(tabular_id, files, data_rights(actor, kind, tabular_id))
        return files, access_for(reader=Reader(actor), kind=kind, tabular=found, requested=requested)
    except (Error, AuthorizationBackendError) as error:
        logger.warning("no credentials vended after a write", exc_info=error, extra={"tabular": str(tabular_id)})
        return None, None


def access_of_creator(files: TabularFiles, requested: str | None) -> Access | None:
    """Return the access of the client that created or staged a table just now."""
    if _is_local(files):
        return None
    return _access(files, FileAccess.READ_WRITE, parse_requested_access(requested), signs=True)


def vended_credentials(files: TabularFiles, access: Access) -> list[tuple[str, Vended]]:
    """Vend a credential for each folder of the tabular, with its location; an empty list when none is to be vended.

    Raises as `vend`.
    """
    if not access.delegation.vended:
        return []
    found = ((location, vend(files.storage, location=location, rights=access.rights)) for location in files.locations)
    return [(location, vended) for location, vended in found if vended is not None]


def _is_local(files: TabularFiles) -> bool:
    return bool(files.storage.profile["type"] == "local")


def _access(files: TabularFiles, rights: FileAccess, requested: RequestedAccess, *, signs: bool) -> Access:
    chosen = choose_delegation(requested, files.storage.profile)
    delegation = Delegation(vended=chosen.vended, signing=chosen.signing and signs)
    return Access(delegation, rights, files.storage.version)
