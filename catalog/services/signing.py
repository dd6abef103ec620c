"""Requests to an object store, signed for engines that hold no credentials of their own."""

from __future__ import annotations

from typing import NoReturn
from uuid import UUID

from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.selectors.tabulars import require_tabular_exists
from icekeeper.kernel.errors import BadRequest
from tenancy.actor import Actor
from tenancy.authz.actions import Can

METHODS = ("PUT", "GET", "HEAD", "POST", "DELETE", "PATCH", "OPTIONS")
READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class UnsupportedStorageType(BadRequest):
    wire_type = "UnsupportedStorageType"


def sign_request(*, actor: Actor, warehouse_id: UUID, table: Identifier, method: str) -> NoReturn:
    """Refuse to sign: files of this machine, which all warehouses are on, are not reached by requests.

    Raises what a signature would need first (`NoSuchTable`, `Forbidden`), then `UnsupportedStorageType` (400).
    """
    require_tabular_exists(
        actor=actor,
        warehouse_id=warehouse_id,
        identifier=table,
        kind=Tabular.Kind.TABLE,
        action=Can.READ_DATA if method in READING_METHODS else Can.WRITE_DATA,
    )
    raise UnsupportedStorageType("Requests to the storage of this warehouse cannot be signed")
