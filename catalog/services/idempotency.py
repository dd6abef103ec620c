"""Idempotency-Key: a request that a client sends again is not done again, and gets the same answer.

The outcome is a row of the transaction that does the work, unique by warehouse and key. So a crash leaves both or
neither, and of two requests with one key only one can commit: the other rolls back and answers with what it finds.
A refusal that the same request would meet again is kept as well; one that time may cure (5xx, contention, a location
in use) is not. Nor is one for want of rights, nor what looks missing to who may not see everything in the warehouse, so
that what is hidden and what is missing go on looking alike; and nothing of who may not use the warehouse.

An outcome is told to who may still do what the request was allowed to do because of, as far as that is still there, and
may use the warehouse. To anybody else it is as if there were none: the request is judged anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import blake2b
from typing import Any, TypeVar, cast
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError

from catalog.models import IdempotencyRecord
from catalog.selectors.tables.generic_tables import LoadedGenericTable, load_generic_table_by_id
from catalog.selectors.tables.load import Loaded, StagedTable, load_version
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.batches import delete_in_batches
from icekeeper.kernel.db.write_transaction import write_transaction
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
from tenancy.refs import ObjectRef

T = TypeVar("T")


class KeyReused(BadRequest):
    wire_type, is_final = "IdempotencyKeyReused", False


class DuplicateRequest(Conflict):
    """Somebody committed the same request first; this transaction must not."""

    wire_type, is_final = "RequestInProgress", False


class ReplayedError(CatalogError):
    """The refusal that the first of several equal requests met."""

    def __init__(self, status: int, wire_type: str, message: str) -> None:
        super().__init__(message)
        self.status, self.wire_type = status, wire_type  # type: ignore[misc]  # of the first refusal, not of a class


@dataclass(frozen=True, slots=True)
class ModernizedVersion:
    """A version whose file says the same in other words: to answer alike, its document is kept as well."""

    version: Loaded


_MARK_DIGITS = 12


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A client's Idempotency-Key, and the SHA-256 of everything that the request is."""

    warehouse_id: UUID
    key: UUID
    fingerprint: bytes
    actor: Actor

    @property
    def mark(self) -> str:
        """Twelve hexadecimal digits in which the ids of its files end: an equal request knows them by it."""
        whole = self.warehouse_id.bytes + self.key.bytes + self.fingerprint
        return blake2b(whole, digest_size=_MARK_DIGITS // 2).hexdigest()


def file_id(request: IdempotencyKey | None) -> UUID:
    """A new id for the file that the request writes."""
    fresh = new_id()
    return fresh if request is None else UUID(hex=fresh.hex[:-_MARK_DIGITS] + request.mark)


def run_idempotent(actor: Actor, request: IdempotencyKey, act: Callable[[], T]) -> T:
    """What `act` returns, which keeps its outcome under `request`; or what it returned when it was done before.

    Raises what `act` raises or raised, and `KeyReused` (400) when the key came with another request.
    """
    done = _find(actor, request)
    if done is not None:
        return cast("T", done[0])
    try:
        return act()
    except DuplicateRequest:
        return cast("T", _found(actor, request))
    except CatalogError as error:
        if not _may_be_kept(actor, request, error):
            # "Certainly not committed" must be true of all equal requests, and another may have been faster.
            done = _find(actor, request) if error.status < 500 else None  # noqa: PLR2004
            if done is None:
                raise
            return cast("T", done[0])
        # What refused this one may be that the same request succeeded a moment ago: then that is the answer.
        try:
            with write_transaction():
                _insert(request, error.status, {"type": error.wire_type, "message": error.message})
        except DuplicateRequest:
            return cast("T", _found(actor, request))
        raise


def _may_be_kept(actor: Actor, request: IdempotencyKey, refusal: CatalogError) -> bool:
    if not refusal.is_final:
        return False
    kept_for = Can.LIST_EVERYTHING if isinstance(refusal, NotFound) else Can.USE
    return is_allowed(actor, kept_for, Securable.Type.WAREHOUSE, request.warehouse_id)


def store_response(request: IdempotencyKey | None, result: object = None) -> None:
    """Write into the caller's transaction what the request came to: see `answer_of`. Nothing without a key.

    Raises `DuplicateRequest` when somebody else committed it first: the caller's transaction must be rolled back.
    """
    if request is not None:
        _insert(request, 200, response_to_store(request, result))


def store_unchanged_response(request: IdempotencyKey | None, result: object = None) -> None:
    """As `store_response`, for what changed nothing and so had no transaction."""
    if request is not None:
        with write_transaction():
            store_response(request, result)


def response_to_store(request: IdempotencyKey, result: object) -> dict[str, Any]:
    """What `result` can be made of again, and which rights it takes to be told."""
    needed = [(action.value, kind.value, str(own_id)) for action, (kind, own_id) in required_permissions(request.actor)]
    return answer_of(result) | {"needed": needed}


def answer_of(result: object) -> dict[str, Any]:
    """What `result` can be made of again: a version of a tabular, a generic table, a staged table, JSON, or nothing."""
    match result:
        case Loaded():
            return {"tabular": str(result.id), "metadata-location": result.metadata_location}
        case ModernizedVersion(version):
            return answer_of(version) | {"document": version.document.decode()}
        case LoadedGenericTable():
            return {"generic-table": str(result.id), "name": result.name}
        case StagedTable():
            return {"staged": result.document.decode()}
        case dict():
            return {"body": result}
        case None:
            return {}
    raise TypeError(f"no outcome can be kept of {type(result).__name__}")


def delete_expired_idempotency_records(*, actor: Actor) -> int:
    """Forget outcomes beyond their lifetime and the grace period; returns how many."""
    conf = settings.ICEKEEPER.idempotency
    before = now() - timedelta(seconds=conf.lifetime + conf.grace_period)
    return delete_in_batches(IdempotencyRecord.objects.filter(created_at__lt=before))


def _insert(request: IdempotencyKey, status: int, answer: dict[str, Any]) -> None:
    try:
        IdempotencyRecord.objects.create(
            warehouse_id=request.warehouse_id,
            key=request.key,
            fingerprint=request.fingerprint,
            status=status,
            answer=write_json(answer).decode(),
            created_at=now(),
        )
    except IntegrityError:
        raise DuplicateRequest("The same request was done already") from None


def _found(actor: Actor, request: IdempotencyKey) -> Any:
    done = _find(actor, request)
    if done is None:
        raise DuplicateRequest("The same request is being done; try again")
    return done[0]


def _find(actor: Actor, request: IdempotencyKey) -> tuple[Any] | None:
    # What was done in a warehouse that is not active any more is told to nobody.
    active = Warehouse.objects.filter(pk=request.warehouse_id, status=Warehouse.Status.ACTIVE).values("pk")
    outcome = IdempotencyRecord.objects.filter(warehouse_id__in=active, key=request.key).first()
    if outcome is None:
        return None
    answer = read_stored_json(outcome.answer.encode())
    usable, *still_allowed = _still_allowed(actor, request.warehouse_id, answer.get("needed", ()))
    if not usable:
        return None
    if bytes(outcome.fingerprint) != request.fingerprint:
        raise KeyReused("The Idempotency-Key was used for another request before")
    if not all(still_allowed):
        return None
    return (_result_of(actor, request.warehouse_id, outcome.status, answer),)


def _result_of(actor: Actor, warehouse_id: UUID, status: int, answer: dict[str, Any]) -> Any:
    """What `answer_of` was given. Raises the refusal that was kept."""
    if status >= 400:  # noqa: PLR2004
        raise ReplayedError(status, answer["type"], answer["message"])
    if "tabular" in answer:
        tabular_id, location = UUID(answer["tabular"]), answer["metadata-location"]
        if "document" in answer:
            return Loaded(tabular_id, location, answer["document"].encode())
        return load_version(actor=actor, warehouse_id=warehouse_id, tabular_id=tabular_id, location=location)
    if "generic-table" in answer:
        table_id = UUID(answer["generic-table"])
        found = load_generic_table_by_id(actor=actor, warehouse_id=warehouse_id, table_id=table_id)
        return replace(found, name=answer["name"])
    if "staged" in answer:
        return StagedTable(answer["staged"].encode())
    return answer.get("body")


def _still_allowed(actor: Actor, warehouse_id: UUID, needed: Sequence[Sequence[str]]) -> list[bool]:
    """Whether `actor` may use the warehouse, and may do each of `needed` or there is no such object any more."""
    questions: list[PermissionCheck] = [(Can.USE, ObjectRef(Securable.Type.WAREHOUSE, warehouse_id))]
    questions += [(Can(action), ObjectRef(Securable.Type(kind), own_id)) for action, kind, own_id in needed]
    answers = check_permissions(actor, questions)
    if not all(answers[1:]):
        there = are_registered([ref for _, ref in questions])
        answers[1:] = [answer or not is_there for answer, is_there in zip(answers[1:], there[1:], strict=True)]
    return answers
