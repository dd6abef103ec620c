"""Where the files of a table, view or generic table are: what its clients need to get at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings

from catalog.errors import no_such_tabular
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.selectors.data_rights import require_data_rights
from icekeeper.kernel.db.sql import as_uuid, fetch_one
from icekeeper.kernel.json.strict import read_stored_json
from storage.errors import no_such_warehouse
from storage.storage import Storage
from storage.vending.rights import Rights
from tenancy.actor import Actor

STORAGE = "w.version, CAST(w.storage_profile AS text), w.secret_id, w.enforced_signatures"
"""What `read_storage` reads of a warehouse `w`."""

PLACES = """t.location, t.metadata_location,
       (SELECT CAST(json_agg(c.location) AS text) FROM catalog_locationclaim c WHERE c.tabular_id = t.id)"""
"""What `read_places` reads of a tabular `t`."""

_OF_TABULAR = f"""
SELECT {STORAGE}, {PLACES}
  FROM storage_warehouse w
  JOIN catalog_tabular t ON t.warehouse_id = w.id
 WHERE w.id = %s AND t.id = %s AND t.deleted_at IS NULL
"""  # noqa: S608 - constants

_NAMED = f"""
SELECT w.status, {STORAGE}, t.id, t.kind, {PLACES}
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

    storage: Storage
    locations: tuple[str, ...]


def read_storage(
    warehouse_id: UUID, version: int, profile: Any, secret_id: Any, enforced_signatures: str | None
) -> Storage:
    """Of the columns `STORAGE`."""
    secret = None if secret_id is None else as_uuid(secret_id)
    return Storage(warehouse_id, version, read_stored_json(profile), secret, enforced_signatures)


def read_places(location: str, metadata_location: str, claims: Any) -> tuple[str, ...]:
    """Of the columns `PLACES`."""
    held = [] if claims is None else read_stored_json(claims.encode())
    return spelled_as((location, *held), metadata_location)


def spelled_as(places: tuple[str, ...], metadata_location: str) -> tuple[str, ...]:
    """`places`, which are in compared form, with the scheme of `metadata_location`, which is as clients spell it."""
    scheme = metadata_location.partition(":")[0]
    if not scheme or places[0].startswith(f"{scheme}:"):
        return places
    return tuple(f"{scheme}:{place.partition(':')[2]}" for place in places)


def files_of(*, warehouse_id: UUID, tabular_id: UUID) -> TabularFiles | None:
    """Of a tabular that was written before, read where writes go; None when it was dropped, restorable or not."""
    row = fetch_one("default", _OF_TABULAR, [warehouse_id, tabular_id])
    return None if row is None else TabularFiles(read_storage(warehouse_id, *row[:4]), read_places(*row[4:]))


def find_files_for(
    *, actor: Actor, warehouse_id: UUID, identifier: Identifier, kind: Tabular.Kind
) -> tuple[UUID, TabularFiles, Rights]:
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
    files = TabularFiles(read_storage(warehouse_id, *stored), read_places(location, metadata_location, claims))
    return tabular_id, files, rights
