"""Idempotency-Key: a repeated request is not executed again, and gets the stored response.

The transaction that executes the request also inserts its idempotency record, which is unique by warehouse and key. A
crash leaves both or neither. Of two requests with the same key only one can commit; the other rolls back and returns
the stored response.

Errors that a repetition would also get are stored, too. Not stored are temporary errors (5xx, contention, a location in
use), denials, "not found" errors of callers who cannot list everything in the warehouse (so that hidden and missing
objects stay indistinguishable), and all errors of callers without access to the warehouse.

A stored response is replayed only while the caller may use the warehouse and still holds every permission that the
original request needed; permissions on objects that no longer exist do not count. Otherwise the request is executed as
if there were no record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar, cast
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError

from catalog.models import IdempotencyRecord
from catalog.selectors.tables.generic_tables import LoadedGenericTable, load_generic_table_by_id
from catalog.selectors.tables.load import LoadedTabular, StagedTable, load_version
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import delete_in_batches
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Conflict, NotFound
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json.strict import read_stored_json, write_json
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions, is_allowed, required_permissions
from tenancy.authz.port import PermissionCheck
from tenancy.authz.securables import are_registered
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

T = TypeVar("T")


class KeyReused(BadRequest):
    wire_type, is_final = "IdempotencyKeyReused", False


class DuplicateRequest(Conflict):
    """The same request was committed concurrently; this transaction must be rolled back."""

    wire_type, is_final = "RequestInProgress", False


class ReplayedError(CatalogError):
    """The stored error of the original request."""

    def __init__(self, status: int, wire_type: str, message: str) -> None:
        super().__init__(message)
        self.status, self.wire_type = status, wire_type  # type: ignore[misc]  # those of the stored error


@dataclass(frozen=True, slots=True)
class ModernizedVersion:
    """A version whose file has an older form than its document: the record stores the document for the replay."""

    version: LoadedTabular


_MARK_DIGITS = 12


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A client's Idempotency-Key, and the SHA-256 of the whole request."""

    warehouse_id: UUID
    key: UUID
    fingerprint: bytes
    actor: Actor

    @property
    def mark(self) -> str:
        """Twelve hexadecimal digits at the end of its file ids, by which a repeated request recognises its files."""
        whole = self.warehouse_id.bytes + self.key.bytes + self.fingerprint
        return blake2b(whole, digest_size=_MARK_DIGITS // 2).hexdigest()

    def store(self, result: object) -> None:
        """Insert the response of the request in the caller's transaction: see `serialize_result`.

        Raises `DuplicateRequest` when the same request was committed first: the transaction must be rolled back.
        """
        _insert(self, 200, response_to_store(self, result))


def file_id(idempotency_key: IdempotencyKey | None) -> UUID:
    """Return a new id for a file that the request writes; with a key it ends in the key's `mark`."""
    fresh = new_id()
    return fresh if idempotency_key is None else UUID(hex=fresh.hex[:-_MARK_DIGITS] + idempotency_key.mark)


def run_idempotent(actor: Actor, idempotency_key: IdempotencyKey, act: Callable[[], T]) -> T:
    """Return the stored response of the key, or execute `act`, which stores its own response under the key.

    Raises what `act` raises or the stored error, and `KeyReused` (400) when the key was used for another request.
    """
    replay = _find_replay(actor, idempotency_key)
    if replay is not None:
        return cast("T", replay.result)
    try:
        return act()
    except DuplicateRequest:
        return cast("T", _require_replay(actor, idempotency_key).result)
    except CatalogError as error:
        if not _is_storable(actor, idempotency_key, error):
            # A 4xx promises that nothing was committed, but the same request may have been committed concurrently.
            replay = _find_replay(actor, idempotency_key) if error.status < 500 else None  # noqa: PLR2004
            if replay is None:
                raise
            return cast("T", replay.result)
        # The error may be caused by the same request, committed a moment ago: then its response is replayed.
        try:
            with write_transaction():
                _insert(idempotency_key, error.status, {"type": error.wire_type, "message": error.message})
        except DuplicateRequest:
            return cast("T", _require_replay(actor, idempotency_key).result)
        raise


def _is_storable(actor: Actor, idempotency_key: IdempotencyKey, error: CatalogError) -> bool:
    if not error.is_final:
        return False
    needed = Can.LIST_EVERYTHING if isinstance(error, NotFound) else Can.USE
    return is_allowed(actor, needed, Securable.Type.WAREHOUSE, idempotency_key.warehouse_id)


def store_unchanged_response(idempotency_key: IdempotencyKey | None, result: object = None) -> None:
    """Store the response of a request that changed nothing, in a transaction of its own; no-op without a key."""
    if idempotency_key is not None:
        with write_transaction():
            idempotency_key.store(result)


def response_to_store(idempotency_key: IdempotencyKey, result: object) -> dict[str, Any]:
    """Serialize `result` with the permissions that a replay needs."""
    needed = [
        (action.value, kind.value, str(own_id))
        for action, (kind, own_id) in required_permissions(idempotency_key.actor)
    ]
    return serialize_result(result) | {"needed": needed}


def serialize_result(result: object) -> dict[str, Any]:
    """Serialize the result of a request: a version of a tabular, a generic table, a staged table, JSON, or None."""
    match result:
        case LoadedTabular():
            return {"tabular": str(result.id), "metadata-location": result.metadata_location}
        case ModernizedVersion(version):
            return serialize_result(version) | {"document": version.document.decode()}
        case LoadedGenericTable():
            return {"generic-table": str(result.id), "name": result.name}
        case StagedTable():
            return {"staged": result.document.decode()}
        case dict():
            return {"body": result}
        case None:
            return {}
    raise TypeError(f"cannot store a result of type {type(result).__name__}")


def delete_expired_idempotency_records(*, actor: Actor) -> int:
    """Delete the records that are older than lifetime and grace period; return their number."""
    conf = settings.ICEKEEPER.idempotency
    before = now() - timedelta(seconds=conf.lifetime + conf.grace_period)
    return delete_in_batches(IdempotencyRecord.objects.filter(created_at__lt=before))


def _insert(idempotency_key: IdempotencyKey, status: int, response: dict[str, Any]) -> None:
    try:
        IdempotencyRecord.objects.create(
            warehouse_id=idempotency_key.warehouse_id,
            key=idempotency_key.key,
            fingerprint=idempotency_key.fingerprint,
            status=status,
            response=write_json(response).decode(),
            created_at=now(),
        )
    except IntegrityError:
        raise DuplicateRequest("The same request was executed already") from None


class _Replay(NamedTuple):
    """The result of an earlier execution, which may be None."""

    result: Any


def _require_replay(actor: Actor, idempotency_key: IdempotencyKey) -> _Replay:
    replay = _find_replay(actor, idempotency_key)
    if replay is None:
        raise DuplicateRequest("The same request is in progress; try again")
    return replay


def _find_replay(actor: Actor, idempotency_key: IdempotencyKey) -> _Replay | None:
    """Find what the request returned before. Raises its stored error, and `KeyReused`."""
    # Responses of an inactive warehouse are not replayed.
    active = Warehouse.objects.active().filter(pk=idempotency_key.warehouse_id).values("pk")
    stored = IdempotencyRecord.objects.filter(warehouse_id__in=active, key=idempotency_key.key).first()
    if stored is None:
        return None
    response = read_stored_json(stored.response.encode())
    may_use_warehouse, *still_allowed = _check_permissions(
        actor, idempotency_key.warehouse_id, response.get("needed", ())
    )
    if not may_use_warehouse:
        return None
    if bytes(stored.fingerprint) != idempotency_key.fingerprint:
        raise KeyReused("The Idempotency-Key was used for another request before")
    if not all(still_allowed):
        return None
    return _Replay(_read_result(actor, idempotency_key.warehouse_id, stored.status, response))


def _read_result(actor: Actor, warehouse_id: UUID, status: int, response: dict[str, Any]) -> Any:
    """Reverse `serialize_result`. Raises the stored error."""
    if status >= 400:  # noqa: PLR2004
        raise ReplayedError(status, response["type"], response["message"])
    if "tabular" in response:
        tabular_id, location = UUID(response["tabular"]), response["metadata-location"]
        if "document" in response:
            return LoadedTabular(tabular_id, location, response["document"].encode())
        return load_version(actor=actor, warehouse_id=warehouse_id, tabular_id=tabular_id, location=location)
    if "generic-table" in response:
        table_id = UUID(response["generic-table"])
        found = load_generic_table_by_id(actor=actor, warehouse_id=warehouse_id, table_id=table_id)
        return replace(found, name=response["name"])
    if "staged" in response:
        return StagedTable(response["staged"].encode())
    return response.get("body")


def _check_permissions(actor: Actor, warehouse_id: UUID, needed: Sequence[Sequence[str]]) -> list[bool]:
    """Check whether `actor` may use the warehouse, then whether each of `needed` is allowed or its object deleted."""
    checks: list[PermissionCheck] = [(Can.USE, ObjectRef(Securable.Type.WAREHOUSE, warehouse_id))]
    checks += [(Can(action), ObjectRef(Securable.Type(kind), own_id)) for action, kind, own_id in needed]
    allowed = check_permissions(actor, checks)
    if not all(allowed[1:]):
        exists = are_registered([ref for _, ref in checks])
        allowed[1:] = [may or not still for may, still in zip(allowed[1:], exists[1:], strict=True)]
    return allowed
