"""The built-in evaluator and a real OpenFGA over the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from icekeeper.kernel.ids import new_id
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.model import DOWN, rights_model
from tenancy.authz.openfga.backend import OpenFgaAuthorizer
from tenancy.authz.openfga.store import openfga_store
from tenancy.authz.port import NO_OBJECT, PermissionCheck
from tenancy.models import Grant, RoleMember, Securable, User
from tenancy.models.securable import ObjectRef, securable_id
from tests.openfga_fixtures import deliver_as_recorded

T = Securable.Type
EVERYTHING = 2**62


def questions_about(refs: Iterable[ObjectRef]) -> list[PermissionCheck]:
    """Return a check of every action of the model on each of the objects."""
    return [(Can(action), ref) for ref in refs for action in rights_model().actions(ref[0].value)]


class Pair:
    def __init__(self, openfga: OpenFgaAuthorizer) -> None:
        self.openfga, self.builtin = openfga, BuiltinAuthorizer()

    def deliver(self) -> None:
        """Deliver the outbox to OpenFGA, and read decisions from OpenFGA alone."""
        deliver_as_recorded(openfga_store())
        self.openfga.clear_caches()
        self.builtin.clear_caches()
        assert self.openfga._pending.is_none()

    def agreed(self, actor: Actor, refs: Sequence[ObjectRef]) -> dict[PermissionCheck, bool]:
        """Assert that both evaluators decide every check of these objects alike; return the decisions."""
        asked = questions_about(refs)
        by_openfga, by_rows = self.openfga.decide(actor, asked), self.builtin.decide(actor, asked)
        differing = [
            f"{action} on {securable_id(*ref)}: OpenFGA {theirs}, built-in {ours}"
            for (action, ref), theirs, ours in zip(asked, by_openfga, by_rows, strict=True)
            if theirs != ours
        ]
        assert not differing, f"about {actor.name}: " + "; ".join(differing[:10])
        return dict(zip(asked, by_rows, strict=True))

    def agreed_visible(self, actor: Actor, parent: ObjectRef, child_type: T) -> list[UUID]:
        """Assert that both show an actor who may not list everything the same children of an object; return these."""
        assert self.builtin.decide(actor, [(Can.LIST_EVERYTHING, parent)]) == [False]
        rows = Securable.objects.filter(parent_id=securable_id(*parent), type=child_type.value).order_by("object_id")
        children = [UUID(each) for each in rows.values_list("object_id", flat=True)]
        shown = self.openfga.decide(actor, [(Can.INCLUDE_IN_LIST, ObjectRef(child_type, each)) for each in children])
        wanted = [each for each, is_shown in zip(children, shown, strict=True) if is_shown]
        for one in (self.openfga, self.builtin):
            assert wanted == one.visible_ids(
                actor, parent=parent, child_type=child_type, after=NO_OBJECT, limit=EVERYTHING
            )
            numbers = one.all_visible(actor, parent=parent, child_type=child_type, after=NO_OBJECT)
            assert numbers == {each.int for each in wanted}
            if not rights_model().links(child_type.value, DOWN):
                assert numbers == one.all_visible_of(actor, parents=[parent], child_type=child_type)
            for limit in (1, 2):
                after = wanted[0] if wanted else NO_OBJECT
                assert wanted[1 : 1 + limit] == one.visible_ids(
                    actor, parent=parent, child_type=child_type, after=after, limit=limit
                )
        return wanted


def another_user(user_id: str) -> str:
    User.objects.get_or_create(id=user_id, defaults={"name": "n"})
    return user_id


def grant(
    ref: ObjectRef,
    privilege: str,
    *,
    user_id: str | None = None,
    role_id: UUID | None = None,
    expires_at: datetime | None = None,
) -> None:
    owned = ref[1] if ref[0] is T.ROLE and privilege == "ownership" else None
    Grant.objects.create_on(
        id=new_id(),
        securable_id=securable_id(*ref),
        privilege=privilege,
        user_id=user_id,
        role_id=role_id,
        owned_role_id=owned,
        expires_at=expires_at,
    )


def member(
    role_id: UUID, *, user_id: str | None = None, role: UUID | None = None, expires_at: datetime | None = None
) -> None:
    RoleMember.objects.create(role_id=role_id, user_id=user_id, member_role_id=role, expires_at=expires_at)
