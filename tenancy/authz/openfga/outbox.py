"""The outbox of OpenFGA tuples: rows of changed tuples, written in the transaction that changes grants or objects.

The tuples are delivered after the commit, before the response is sent. What a crash or an outage leaves pending is
delivered later (`tenancy.authz.openfga.delivery`). Nothing here costs anything while another backend decides.

Tuples are enqueued before their rows are deleted: afterwards it is unknown which tuples they had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Q

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import fetch_one
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.ids import new_id
from tenancy.authz.openfga.delivery import LEASE_SECONDS, deliver_before_response
from tenancy.authz.openfga.tuples import TupleKey, grant_keys, managed_access_key, member_key, parent_key
from tenancy.authz.permission_epoch import bump_permission_epoch, permission_epoch
from tenancy.authz.port import is_openfga
from tenancy.models import Grant, Role, RoleMember, Securable, UndeliveredTuple

BATCH_SIZE: Final = 500
"""Rows of one statement."""


def enqueue_grant(securable_id: str, privilege: str, *, user_id: str | None = None, role_id: object = None) -> None:
    """Enqueue a grant to a user or a role that was created, revoked, or got another expiry."""
    if is_openfga():
        enqueue(grant_keys(securable_id, privilege, user_id=user_id, role_id=role_id))


def enqueue_members(role_id: object, *, user_ids: Iterable[str] = (), role_ids: Iterable[object] = ()) -> None:
    """Enqueue memberships that were created, removed, or got another expiry."""
    if is_openfga():
        users = [member_key(role_id, user_id=each, member_role_id=None) for each in user_ids]
        enqueue(users + [member_key(role_id, user_id=None, member_role_id=each) for each in role_ids])


def enqueue_creator_grant(securable_id: str, privilege: str, *, user_id: str | None, role_id: object) -> None:
    """As `enqueue_grant`, for an object that was created in this transaction."""
    if is_openfga():
        enqueue(grant_keys(securable_id, privilege, user_id=user_id, role_id=role_id), is_new=True)


def enqueue_new_object(securable_id: str, parent_id: str) -> None:
    if is_openfga():
        enqueue([parent_key(securable_id, parent_id)], is_new=True)


def enqueue_move(securable_id: str, parent_id: str) -> None:
    """Enqueue a move to another parent; call it before the move."""
    if is_openfga():
        former = Securable.objects.filter(pk=securable_id).values_list("parent_id", flat=True).first()
        enqueue([parent_key(securable_id, each) for each in {former, parent_id} if each is not None])


def enqueue_managed_access(securable_id: str) -> None:
    """Enqueue the managed-access flag of a warehouse or a namespace that was set or cleared."""
    if is_openfga():
        enqueue([managed_access_key(securable_id)])


def enqueue_object_deletion(securable_ids: Collection[str]) -> None:
    """Enqueue all tuples of objects; call it before they, locked, are deleted. Roles: `enqueue_role_deletion` too."""
    if not is_openfga():
        return
    ids = list(securable_ids)
    for first in range(0, len(ids), BATCH_SIZE):
        batch = ids[first : first + BATCH_SIZE]
        rows = list(Securable.objects.filter(pk__in=batch).values_list("pk", "parent_id", "managed_access"))
        keys = [parent_key(own_id, parent_id) for own_id, parent_id, _ in rows if parent_id is not None]
        keys += [managed_access_key(own_id) for own_id, _, is_managed in rows if is_managed]
        enqueue(keys + _grant_keys(Q(securable__in=batch)))


def enqueue_role_deletion(role_ids: Collection[UUID]) -> None:
    """Enqueue grants to roles and their memberships; call it before the roles are deleted."""
    if is_openfga():
        ids = list(Role.objects.filter(pk__in=role_ids).order_by("pk").select_for_update().values_list("pk", flat=True))
        enqueue(_grant_keys(Q(role__in=ids)) + _member_keys(Q(role__in=ids) | Q(member_role__in=ids)))


def enqueue_user_deletion(user_id: str) -> None:
    """Enqueue grants and memberships of a user; call it before they are deleted."""
    if is_openfga():
        enqueue(_grant_keys(Q(user=user_id)) + _member_keys(Q(user=user_id)))


def enqueue(keys: Iterable[TupleKey], *, is_new: bool = False) -> None:
    """Mark tuples as pending in the caller's transaction and deliver them after its commit.

    Other transactions that change the same tuples wait for this one. `is_new`: the objects were created in it.
    """
    wanted = list(keys)
    if not wanted:
        return
    delivery = _delivery_of_transaction()
    delivery.is_for_new_only &= is_new
    mark_pending(wanted, delivery.id)
    transaction.on_commit(delivery, robust=True)


def mark_pending(keys: Iterable[TupleKey], delivery: UUID) -> None:
    """As `enqueue`, but the caller delivers them."""
    wanted = sorted(set(keys))
    held_until = now() + timedelta(seconds=LEASE_SECONDS)
    for first in range(0, len(wanted), BATCH_SIZE):
        UndeliveredTuple.objects.bulk_create(
            [
                UndeliveredTuple(
                    id=new_id(),
                    object=key.object,
                    relation=key.relation,
                    subject=key.subject,
                    changed_by=delivery,
                    holder=delivery,
                    held_until=held_until,
                )
                for key in wanted[first : first + BATCH_SIZE]
            ],
            update_conflicts=True,
            unique_fields=["object", "relation", "subject"],
            update_fields=["changed_by"],  # a delivery that holds the lease continues, and sees that the row changed
        )


class _Delivery:
    """The delivery of one transaction; called after the commit once for each `enqueue` that was not rolled back."""

    def __init__(self) -> None:
        self.id = new_id()
        self.is_for_new_only = True
        self._is_done = False

    def __call__(self) -> None:
        if self._is_done:
            return
        self._is_done = True
        if not self.is_for_new_only:
            permission_epoch.bump()  # permission checks from now on read whether tuples are pending
        deliver_before_response(self.id)


def _delivery_of_transaction() -> _Delivery:
    for registered in connection.run_on_commit:
        called: object = registered[1]
        if isinstance(called, _Delivery):
            return called
    return _Delivery()


def _grant_keys(which: Q) -> list[TupleKey]:
    rows = Grant.objects.filter(which).values_list("securable_id", "privilege", "user_id", "role_id")
    return [
        key
        for on, privilege, user_id, role_id in rows
        for key in grant_keys(on, privilege, user_id=user_id, role_id=role_id)
    ]


def _member_keys(which: Q) -> list[TupleKey]:
    rows = RoleMember.objects.filter(which).values_list("role_id", "user_id", "member_role_id")
    return [member_key(role_id, user_id=user_id, member_role_id=member) for role_id, user_id, member in rows]


_ANY = "SELECT 1 FROM tenancy_undeliveredtuple LIMIT 1"

_EVERYTHING: Final = TupleKey("*", "*", "*")
"""Not a tuple: stands for all tuples while it is unknown which of them are outdated."""
_NEVER: Final = datetime(9999, 1, 1, tzinfo=UTC)


def require_reconciliation() -> None:
    """Record that permissions changed without OpenFGA: until `mark_reconciled`, our rows must allow what it allows."""
    unused = new_id()
    everything = _EVERYTHING._asdict()
    rest = {"changed_by": unused, "holder": unused, "held_until": _NEVER}
    with write_transaction():
        UndeliveredTuple.objects.get_or_create(**everything, defaults=rest)
        bump_permission_epoch()


def mark_reconciled() -> None:
    """Record that OpenFGA has the tuples of our rows and no others, except those that are pending."""
    UndeliveredTuple.objects.filter(**_EVERYTHING._asdict()).delete()


class PendingTuples:
    """Caches, until the permission epoch changes, that no tuple is pending; new objects need no new read."""

    def __init__(self) -> None:
        self._none_at: int | None = None

    def is_none(self) -> bool:
        """Return whether no tuple is pending; no statement while that is cached."""
        epoch = permission_epoch.current()
        if self._none_at == epoch and permission_epoch.is_fresh():
            return True
        is_none = fetch_one("default", _ANY, []) is None
        if is_none:
            self._none_at = epoch
        return is_none

    def invalidate(self) -> None:
        self._none_at = None
