"""What a caller may do with the files of a table, view or generic table, and the credentials for it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import Error

from catalog.errors import no_such_tabular
from catalog.identifiers import Identifier
from catalog.models import Tabular
from icekeeper.kernel.db.sql import as_uuid, fetch_one
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.json.strict import read_stored_json
from storage.errors import no_such_warehouse
from storage.models.warehouse import WarehouseStorage
from storage.vending.delegation import Delegation, RequestedAccess, choose_delegation
from storage.vending.rights import FileAccess
from storage.vending.vend import vend
from storage.vending.vended import Vended
from tenancy.actor import Actor
from tenancy.authn.own_tokens.scopes import may_change_catalog
from tenancy.authz.actions import Can
from tenancy.authz.errors import AuthorizationBackendError
from tenancy.authz.permissions import check_permissions, require_permission_and_check
from tenancy.models import Securable
from tenancy.refs import ObjectRef

STORAGE = "w.version, CAST(w.storage_profile AS text), w.secret_id, w.enforced_signatures"
"""What `read_storage` reads of a warehouse `w`."""

LOCATIONS = """t.location, t.metadata_location,
       (SELECT CAST(json_agg(c.location) AS text) FROM catalog_locationclaim c WHERE c.tabular_id = t.id)"""
"""What `read_locations` reads of a tabular `t`."""

_OF_TABULAR = f"""
SELECT {STORAGE}, {LOCATIONS}
  FROM storage_warehouse w
  JOIN catalog_tabular t ON t.warehouse_id = w.id
 WHERE w.id = %s AND t.id = %s AND t.deleted_at IS NULL
"""  # noqa: S608 - constants

_NAMED = f"""
SELECT w.status, {STORAGE}, t.id, t.kind, {LOCATIONS}
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
  LEFT JOIN catalog_tabular t ON t.namespace_id = n.id AND t.name_key = %s AND t.deleted_at IS NULL
 WHERE w.id = %s
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class TabularFiles:
    """The folders of a tabular: its location first, then those that it holds beside that.

    Without a slash at the end, and with the scheme that the tabular's clients use.
    """

    storage: WarehouseStorage
    locations: tuple[str, ...]


def read_storage(
    warehouse_id: UUID, version: int, profile: Any, secret_id: Any, enforced_signatures: str | None
) -> WarehouseStorage:
    """Of the columns `STORAGE`."""
    secret = None if secret_id is None else as_uuid(secret_id)
    return WarehouseStorage(warehouse_id, version, read_stored_json(profile), secret, enforced_signatures)


def read_locations(location: str, metadata_location: str, claims: Any) -> tuple[str, ...]:
    """Of the columns `LOCATIONS`."""
    held = [] if claims is None else read_stored_json(claims.encode())
    return with_client_scheme((location, *held), metadata_location)


def with_client_scheme(places: tuple[str, ...], metadata_location: str) -> tuple[str, ...]:
    """`places`, which are in compared form, with the scheme of `metadata_location`, which is as clients spell it."""
    scheme = metadata_location.partition(":")[0]
    if not scheme or places[0].startswith(f"{scheme}:"):
        return places
    return tuple(f"{scheme}:{place.partition(':')[2]}" for place in places)


def files_of(*, warehouse_id: UUID, tabular_id: UUID) -> TabularFiles | None:
    """Of a tabular that was written before, read where writes go; None when it was dropped, restorable or not."""
    row = fetch_one("default", _OF_TABULAR, [warehouse_id, tabular_id])
    return None if row is None else TabularFiles(read_storage(warehouse_id, *row[:4]), read_locations(*row[4:]))


def find_files_for(
    *, actor: Actor, warehouse_id: UUID, identifier: Identifier, kind: Tabular.Kind
) -> tuple[UUID, TabularFiles, FileAccess]:
    """The id and the files of a tabular that `actor` may read, and what else they may do with them.

    Raises `NoSuchWarehouse`, `NoSuchTable`, `Forbidden`.
    """
    row = fetch_one(settings.READ_DATABASE, _NAMED, [identifier.path_key, identifier.name_key, warehouse_id])
    if row is None or row[0] != "active":
        raise no_such_warehouse(warehouse_id)
    _, *stored, tabular_id, found_kind, location, metadata_location, claims = row
    missing = no_such_tabular(kind, identifier)
    if tabular_id is None or found_kind != kind:
        raise missing
    tabular_id = as_uuid(tabular_id)
    rights = require_data_rights(actor, kind, tabular_id, missing=missing)
    files = TabularFiles(read_storage(warehouse_id, *stored), read_locations(location, metadata_location, claims))
    return tabular_id, files, rights


_ON_FILES: Final = {
    Tabular.Kind.TABLE: (Can.READ_DATA, Can.WRITE_DATA),
    Tabular.Kind.VIEW: (Can.SELECT,),
    Tabular.Kind.GENERIC_TABLE: (Can.READ_DATA, Can.WRITE_DATA),
}
"""To read them, and to write; nobody writes to the folder of a view. Who may write may read, too."""


def require_to_load(actor: Actor, kind: Tabular.Kind, tabular_id: UUID, *, missing: CatalogError) -> FileAccess | None:
    """The rights to its files of somebody who may see it, None without any; the authorizer is asked once.

    Raises `missing` for who may not see it.
    """
    ref = ObjectRef(Securable.Type(kind.value), tabular_id)
    return _rights(require_permission_and_check(actor, Can.GET_METADATA, ref, _ON_FILES[kind], missing=missing))


def require_data_rights(actor: Actor, kind: Tabular.Kind, tabular_id: UUID, *, missing: CatalogError) -> FileAccess:
    """Raises `Forbidden` for who may not read the files, `missing` for who may not see the tabular either."""
    reading, *writing = _ON_FILES[kind]
    ref = ObjectRef(Securable.Type(kind.value), tabular_id)
    may_write = require_permission_and_check(actor, reading, ref, writing, missing=missing)
    return FileAccess.READ_WRITE if any(may_write) else FileAccess.READ


def data_rights(actor: Actor, kind: Tabular.Kind, tabular_id: UUID) -> FileAccess | None:
    """As `require_to_load`, of a tabular that the caller was told of before."""
    ref = ObjectRef(Securable.Type(kind.value), tabular_id)
    return _rights(check_permissions(actor, [(action, ref) for action in _ON_FILES[kind]]))


def _rights(answers: list[bool]) -> FileAccess | None:
    """Of the answers to `_ON_FILES`."""
    may_read, may_write = answers[0], any(answers[1:])
    return FileAccess.READ_WRITE if may_write else FileAccess.READ if may_read else None


logger = logging.getLogger("icekeeper.storage")


@dataclass(frozen=True, slots=True)
class Access:
    """How a caller gets at files: by what way, and to do what."""

    delegation: Delegation
    rights: FileAccess


@dataclass(frozen=True, slots=True)
class Reader:
    """Whose rights decide about what is read, and the views through which it came to them: none for a caller who reads
    with their own."""

    actor: Actor
    views: tuple[Identifier, ...] = ()

    @property
    def is_delegate(self) -> bool:
        return self.actor.delegated_by is not None


def access_for(
    *, reader: Reader, rights: FileAccess | None, kind: Tabular.Kind, files: TabularFiles | None, asked: RequestedAccess
) -> Access | None:
    """None for who may see the metadata alone, for files that are gone (None), and where no help is needed with them.

    Requests to the folder of a view are not signed. Nor are those of an engine that reads with an owner's rights: the
    signer knows only the engine's own, so that it gets credentials of the owner's where these can be had, else nothing.
    Who came with a token that opens only what changes nothing gets at files to read them.
    """
    if rights is None or files is None or _needs_no_help(files):
        return None
    caller = reader.actor.delegated_by or reader.actor
    if not may_change_catalog(caller.identity):
        rights = FileAccess.READ
    if reader.is_delegate and asked is RequestedAccess.SIGNING:
        asked = RequestedAccess.VENDED
    return _access(files, rights, asked, signs=kind != Tabular.Kind.VIEW and not reader.is_delegate)


def access_to_written(
    *,
    actor: Actor,
    kind: Tabular.Kind,
    tabular_id: UUID,
    files: TabularFiles | None,
    asked: RequestedAccess,
    warehouse_id: UUID,
) -> tuple[TabularFiles | None, Access | None]:
    """The files of a tabular in the answer to who wrote it, and how he gets at them.

    `files` are those of one that was made just now. Without them the answer is about one that was there before, or is
    told again: what may be done then goes by the rights that the caller has now, and nothing may be with files of a
    dropped table. The write is done: where nobody can tell, nothing is lent, and a load tells later.
    """
    if files is not None and kind != Tabular.Kind.VIEW:
        return files, access_of_maker(files, asked)
    try:
        files = files or files_of(warehouse_id=warehouse_id, tabular_id=tabular_id)
        if files is None or _needs_no_help(files):
            return files, None
        rights = data_rights(actor, kind, tabular_id)
        return files, access_for(reader=Reader(actor), rights=rights, kind=kind, files=files, asked=asked)
    except (Error, AuthorizationBackendError) as error:
        logger.warning("nothing is lent for what was written", exc_info=error, extra={"tabular": str(tabular_id)})
        return None, None


def access_of_maker(files: TabularFiles, asked: RequestedAccess) -> Access | None:
    """Of whoever made a table just now, or is about to."""
    return None if _needs_no_help(files) else _access(files, FileAccess.READ_WRITE, asked, signs=True)


def vended_credentials(files: TabularFiles, access: Access) -> list[tuple[str, Vended]]:
    """By location: a credential for each folder of the tabular, none where none is to be given.

    Raises as `vend`.
    """
    if not access.delegation.vended:
        return []
    found = ((place, vend(files.storage, location=place, rights=access.rights)) for place in files.locations)
    return [(place, vended) for place, vended in found if vended is not None]


def _needs_no_help(files: TabularFiles) -> bool:
    return bool(files.storage.profile["type"] == "local")


def _access(files: TabularFiles, rights: FileAccess, asked: RequestedAccess, *, signs: bool) -> Access:
    chosen = choose_delegation(asked, files.storage.profile)
    return Access(Delegation(vended=chosen.vended, signing=chosen.signing and signs), rights)
