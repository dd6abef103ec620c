"""Whether OpenFGA has all that our relation rows say."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Q

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import fetch_one
from icekeeper.kernel.db.write_transaction import write_transaction
from icekeeper.kernel.ids import new_id
from tenancy.authz.openfga.delivery import LEASE_SECONDS, is_openfga
from tenancy.authz.openfga.tuples import TupleKey, grant_keys, managed_access_key, member_key, parent_key
from tenancy.authz.permission_epoch import bump_permission_epoch, permission_epoch
from tenancy.models import Grant, Role, RoleMember, Securable, UndeliveredTuple

AT_ONCE: Final = 500
"""Rows of one statement."""


def grant_changed(securable_id: str, privilege: str, *, user_id: str | None = None, role_id: object = None) -> None:
    """A grant to a user or a role was made, taken away, or ends at another time."""
    if is_openfga():
        note(grant_keys(securable_id, privilege, user_id=user_id, role_id=role_id))


def members_changed(role_id: object, *, user_ids: Iterable[str] = (), role_ids: Iterable[object] = ()) -> None:
    """Users or roles were put into a role, taken out of it, or are in it until another time."""
    if is_openfga():
        users = [member_key(role_id, user_id=each, member_role_id=None) for each in user_ids]
        note(users + [member_key(role_id, user_id=None, member_role_id=each) for each in role_ids])


def creator_granted(securable_id: str, privilege: str, *, user_id: str | None, role_id: object) -> None:
    """As `grant_changed`, for an object that nobody knew before."""
    if is_openfga():
        note(grant_keys(securable_id, privilege, user_id=user_id, role_id=role_id), is_new=True)


def securable_added(securable_id: str, parent_id: str) -> None:
    if is_openfga():
        note([parent_key(securable_id, parent_id)], is_new=True)


def securable_moves(securable_id: str, parent_id: str) -> None:
    """To be told before it hangs below that parent."""
    if is_openfga():
        former = Securable.objects.filter(pk=securable_id).values_list("parent_id", flat=True).first()
        note([parent_key(securable_id, each) for each in {former, parent_id} if each is not None])


def managed_access_changed(securable_id: str) -> None:
    """The flag of a warehouse or a namespace was set or taken away."""
    if is_openfga():
        note([managed_access_key(securable_id)])


def securables_go(securable_ids: Collection[str]) -> None:
    """To be told before they, locked, are deleted with the grants on them; of roles also `roles_go`."""
    if not is_openfga():
        return
    ids = list(securable_ids)
    for first in range(0, len(ids), AT_ONCE):
        batch = ids[first : first + AT_ONCE]
        rows = list(Securable.objects.filter(pk__in=batch).values_list("pk", "parent_id", "managed_access"))
        keys = [parent_key(own_id, parent_id) for own_id, parent_id, _ in rows if parent_id is not None]
        keys += [managed_access_key(own_id) for own_id, _, is_managed in rows if is_managed]
        note(keys + _grant_keys(Q(securable__in=batch)))


def roles_go(role_ids: Collection[UUID]) -> None:
    """To be told before they are deleted with their members, what they are members of, and what they are granted."""
    if is_openfga():
        ids = list(Role.objects.filter(pk__in=role_ids).order_by("pk").select_for_update().values_list("pk", flat=True))
        note(_grant_keys(Q(role__in=ids)) + _member_keys(Q(role__in=ids) | Q(member_role__in=ids)))


def user_goes(user_id: str) -> None:
    """To be told before all grants and memberships of a user are deleted."""
    if is_openfga():
        note(_grant_keys(Q(user=user_id)) + _member_keys(Q(user=user_id)))


def note(keys: Iterable[TupleKey], *, is_new: bool = False) -> None:
    """In the caller's transaction: these tuples may not be in OpenFGA as our rows say.

    Others who change the same wait for the end of the transaction. With `is_new` nobody can know the objects yet.
    """
    wanted = list(keys)
    if not wanted:
        return
    delivery = _delivery_of_transaction()
    delivery.is_for_new_only &= is_new
    mark(wanted, delivery.id)
    transaction.on_commit(delivery, robust=True)


def mark(keys: Iterable[TupleKey], delivery: UUID) -> None:
    """As `note`; to deliver them is the caller's own affair."""
    wanted = sorted(set(keys))
    held_until = now() + timedelta(seconds=LEASE_SECONDS)
    for first in range(0, len(wanted), AT_ONCE):
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
                for key in wanted[first : first + AT_ONCE]
            ],
            update_conflicts=True,
            unique_fields=["object", "relation", "subject"],
            update_fields=["changed_by"],  # whoever holds it goes on, and sees that it is another now
        )


class _Delivery:
    """Of one transaction; called once for each `note` in it that was not rolled back."""

    def __init__(self) -> None:
        self.id = new_id()
        self.is_for_new_only = True
        self._is_done = False

    def __call__(self) -> None:
        if self._is_done:
            return
        self._is_done = True
        from tenancy.authz.openfga.delivery import deliver_before_response

        if not self.is_for_new_only:
            permission_epoch.bump()  # whoever asks from now on looks whether all is delivered
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
"""No tuple: stands for all of them where nobody knows which are as they should be."""


_NEVER: Final = datetime(9999, 1, 1, tzinfo=UTC)


def require_reconciliation() -> None:
    """Rights were changed without OpenFGA being told: until `reconciled`, what it says must be in our rows, too."""
    nobody = new_id()
    everything = _EVERYTHING._asdict()
    rest = {"changed_by": nobody, "holder": nobody, "held_until": _NEVER}
    with write_transaction():
        UndeliveredTuple.objects.get_or_create(**everything, defaults=rest)
        bump_permission_epoch()


def reconciled() -> None:
    """OpenFGA has all that our rows say, and nothing else, but for what is noted by itself."""
    UndeliveredTuple.objects.filter(**_EVERYTHING._asdict()).delete()


class Undelivered:
    """That nothing is on its way is remembered until rights change; new objects matter to nobody who asked before."""

    def __init__(self) -> None:
        self._none_at: int | None = None

    def is_none(self) -> bool:
        """Costs no statement while it is remembered."""
        stamp = permission_epoch.current()
        if self._none_at == stamp and permission_epoch.is_fresh():
            return True
        is_none = fetch_one("default", _ANY, []) is None
        if is_none:
            self._none_at = stamp
        return is_none

    def forget(self) -> None:
        self._none_at = None
