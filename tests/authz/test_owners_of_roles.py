"""Role ownership counts as membership, for cycles and for the maximum depth of nesting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from uuid import UUID

import pytest
from django.conf import settings

from icekeeper.conf.groups import RoleSettings
from icekeeper.kernel.errors.types import NotFound
from tenancy.actor import INTERNAL, Grantee
from tenancy.authn.requests import UnknownAssumedRole
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.models import Grant, Role, RoleMember, Securable, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tenancy.selectors.roles import RoleNotFoundInProject
from tenancy.services.grants import Difference, GrantRoleNotInProject, GrantSpec, apply_grants
from tenancy.services.role_members import Members, RoleMembershipCycle, RoleMembershipDepthExceeded, add_role_members
from tenancy.services.roles import create_role
from tests.authz.conftest import user
from tests.authz.tree_fixtures import give, role
from tests.harness.fingerprint import Fingerprint

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("bootstrapped", "builtin")]

ALICE = user("alice")
Everything = Callable[[], Fingerprint]
Put = Callable[[Role, Role], None]


def own(outer: Role, inner: Role) -> None:
    """Set `inner` as the owner of `outer`."""
    _assign("ownership", outer, inner)


def assign(outer: Role, inner: Role) -> None:
    _assign("assignee", outer, inner)


def add(outer: Role, inner: Role) -> None:
    members = Members(role_ids=[inner.pk])
    add_role_members(actor=INTERNAL, project=get_project(None), role_id=outer.pk, members=members)


def _assign(privilege: str, outer: Role, inner: Role) -> None:
    difference = Difference(writes=[GrantSpec(privilege, Grantee(role_id=inner.pk))])
    apply_grants(
        actor=INTERNAL, ref=ObjectRef(Securable.Type.ROLE, outer.pk), difference=difference, missing=NotFound("no")
    )


WAYS: list[Put] = [own, assign, add]


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_no_role_comes_into_itself_by_owning_one(first: Put, second: Put, everything: Everything) -> None:
    a, b, c = (role(name) for name in "abc")
    first(a, b)
    own(b, c)
    before = everything()
    for outer, inner in ((b, a), (c, a), (c, b)):
        with pytest.raises(RoleMembershipCycle) as refused:
            second(outer, inner)
        assert refused.value.message == f"Role {inner.pk} would be a member of itself, as {outer.pk} is in it"
    assert everything() == before
    second(a, c)  # two paths to one role are no cycle


@pytest.mark.parametrize("put", WAYS)
def test_ownership_is_a_step_of_a_chain(put: Put, everything: Everything, monkeypatch: pytest.MonkeyPatch) -> None:
    short = settings.ICEKEEPER.model_copy(update={"role": RoleSettings(max_nesting_depth=3)})
    monkeypatch.setattr(settings, "ICEKEEPER", short)
    chain = [role(f"link {number}") for number in range(4)]
    for outer, inner in pairwise(chain):
        own(outer, inner)
    top, bottom = role("top"), role("bottom")
    before = everything()
    for outer, inner in ((top, chain[0]), (chain[3], bottom)):
        with pytest.raises(RoleMembershipDepthExceeded):
            put(outer, inner)
    assert everything() == before
    put(top, chain[1])
    put(chain[2], bottom)
    give("ownership", ObjectRef(Securable.Type.ROLE, chain[3].pk), ALICE)  # users do not count as a level


def test_roles_created_in_assumed_roles_form_a_chain(everything: Everything, monkeypatch: pytest.MonkeyPatch) -> None:
    """The assumed role owns the role that it creates."""
    short = settings.ICEKEEPER.model_copy(update={"role": RoleSettings(max_nesting_depth=2)})
    monkeypatch.setattr(settings, "ICEKEEPER", short)
    project, created = get_project(None), [role("link 0")]
    give("role_creator", ObjectRef(Securable.Type.PROJECT, project.pk), ALICE)

    def create(name: str, within: UUID) -> Role:
        acting = replace(ALICE, assumed_role=within)
        give("role_creator", ObjectRef(Securable.Type.PROJECT, project.pk), ALICE, to=Role.objects.get(pk=within))
        return create_role(actor=acting, project=project, name=name)

    for number in (1, 2):
        created.append(create(f"link {number}", created[-1].pk))
    give("role_creator", ObjectRef(Securable.Type.PROJECT, project.pk), ALICE, to=created[2])
    before = everything()
    with pytest.raises(RoleMembershipDepthExceeded):
        create("link 3", created[2].pk)
    assert everything() == before
    create("sibling", created[1].pk)
    assert set(Grant.objects.filter(owned_role__isnull=False).values_list("role_id", "owned_role__name")) == {
        (created[0].pk, "link 1"), (created[1].pk, "link 2"), (created[1].pk, "sibling"),
    }  # fmt: skip


def test_a_role_deleted_while_assumed_creates_no_other(
    everything: Everything, builtin: BuiltinAuthorizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    team, project = role("team"), get_project(None)
    User.objects.create(id=ALICE.user_id, name="n")
    monkeypatch.setattr(builtin, "decide", lambda _actor, questions: [True] * len(questions))
    acting = replace(ALICE, assumed_role=team.pk)
    Role.objects.filter(pk=team.pk).delete()
    before = everything()
    with pytest.raises(UnknownAssumedRole):
        create_role(actor=acting, project=project, name="other")
    assert everything() == before


def owned_unasked(outer: Role, inner: Role, expires_at: datetime | None = None) -> None:
    """The rows that an earlier version accepted."""
    Grant.objects.create_on(
        securable_id=f"role:{outer.pk}",
        role=inner,
        privilege="ownership",
        owned_role=outer,
        expires_at=expires_at,
    )


@pytest.mark.parametrize("put", WAYS)
def test_an_existing_cycle_blocks_no_changes(put: Put) -> None:
    a, b, c, d, e = (role(name) for name in "abcde")
    own(a, b)
    owned_unasked(b, a)
    put(b, c)
    put(d, a)
    put(e, d)
    with pytest.raises(RoleMembershipCycle):
        put(c, e)
    acting = replace(ALICE, assumed_role=a.pk)
    give("role_creator", ObjectRef(Securable.Type.PROJECT, get_project(None).pk), ALICE, to=a)
    create_role(actor=acting, project=get_project(None), name="created in the circle")


def test_each_role_of_a_circle_is_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    short = settings.ICEKEEPER.model_copy(update={"role": RoleSettings(max_nesting_depth=3)})
    monkeypatch.setattr(settings, "ICEKEEPER", short)
    top, a, b, c, bottom = (role(name) for name in ("top", "a", "b", "c", "bottom"))
    add(a, b)
    add(b, c)
    owned_unasked(c, a)
    add(top, a)
    with pytest.raises(RoleMembershipDepthExceeded):
        add(c, bottom)
    add(b, bottom)


@pytest.mark.parametrize("put", WAYS)
def test_expired_grants_block_no_changes(put: Put) -> None:
    a, b = (role(name) for name in "ab")
    owned_unasked(b, a, expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    RoleMember.objects.create(role=b, member_role=a, expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    put(a, b)
    with pytest.raises(RoleMembershipCycle):
        add(b, a)


def test_users_whose_membership_ended_join_again() -> None:
    outer, inner = role("outer"), role("inner")
    User.objects.create(id=ALICE.user_id, name="n")
    ended = datetime(2020, 1, 1, tzinfo=UTC)
    RoleMember.objects.create(role=outer, user_id=ALICE.user_id, expires_at=ended)
    RoleMember.objects.create(role=outer, member_role=inner, expires_at=ended)
    members = Members([ALICE.user_id or ""], [inner.pk])
    add_role_members(actor=INTERNAL, project=get_project(None), role_id=outer.pk, members=members)
    assert list(RoleMember.objects.filter(role=outer).values_list("expires_at", flat=True)) == [None, None]


def nestings(outer: Role, inner: Role) -> dict[str, Callable[[], None]]:
    """The requests by which Alice may add `inner` to a role of her own."""

    def assigned(privilege: str) -> None:
        difference = Difference(writes=[GrantSpec(privilege, Grantee(role_id=inner.pk))])
        apply_grants(
            actor=ALICE, ref=ObjectRef(Securable.Type.ROLE, outer.pk), difference=difference, missing=NotFound("no")
        )

    members = Members(role_ids=[inner.pk])
    return {
        "own": lambda: assigned("ownership"),
        "assign": lambda: assigned("assignee"),
        "add": lambda: add_role_members(
            actor=ALICE, project=get_project(None), role_id=outer.pk, members=members
        ),
    }  # fmt: skip


@pytest.mark.parametrize("way", ["own", "assign", "add"])
def test_role_creators_nest_no_roles_that_are_hidden_from_them(way: str, everything: Everything) -> None:
    """Otherwise they could use up the nesting depth around these."""
    project = ObjectRef(Securable.Type.PROJECT, get_project(None).pk)
    give("role_creator", project, ALICE)
    outer, inner = (create_role(actor=ALICE, project=get_project(None), name=name) for name in ("outer", "inner"))
    secret, unknown = role("secret"), Role(id=UUID(int=7))
    before, messages = everything(), []
    for hidden in (secret, unknown):
        with pytest.raises((GrantRoleNotInProject, RoleNotFoundInProject)) as refused:
            nestings(outer, hidden)[way]()
        messages.append(refused.value.message.replace(str(hidden.pk), "X"))
    assert messages[0] == messages[1]
    assert everything() == before
    nestings(outer, inner)[way]()
    give("describe", project, ALICE)
    nestings(outer, secret)[way]()
