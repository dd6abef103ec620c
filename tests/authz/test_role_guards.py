"""Administrating roles: who may change their members or delete them; the last one cannot be emptied."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import NotFound
from tenancy.actor import INTERNAL, Actor, Grantee
from tenancy.authn.requests import assume_role
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.permissions import GrantActionForbidden, ProjectActionForbidden
from tenancy.models import Grant, Role, RoleMember, Securable, Server, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tenancy.services.administrators import LastAdministrator, administrated_among
from tenancy.services.grants import Difference, GrantSpec, apply_grants
from tenancy.services.projects import delete_project
from tenancy.services.role_members import Members, add_role_members, remove_role_members
from tenancy.services.roles import create_role, delete_role, set_source_system, update_role
from tests.authz.conftest import user
from tests.authz.tree_fixtures import give, role
from tests.harness.named_callers import CallerClient

pytestmark = pytest.mark.django_db

T = Securable.Type
ALICE, BOB, CAROL = user("alice"), user("bob"), user("carol")
NOT_FOUND = NotFound("there is no such thing")


@pytest.fixture
def project(builtin: BuiltinAuthorizer, bootstrapped: None) -> ObjectRef:
    for each in (ALICE, BOB, CAROL):
        User.objects.create(id=each.user_id or "", name="n")
    return ObjectRef(T.PROJECT, get_project(None).pk)


@pytest.fixture
def server(project: ObjectRef) -> ObjectRef:
    return ObjectRef(T.SERVER, Server.objects.get().server_id)


def change(actor: Actor, of: Role, privilege: str, *, writes: list[Grantee]) -> None:
    difference = Difference(writes=[GrantSpec(privilege, each) for each in writes])
    apply_grants(actor=actor, ref=ObjectRef(T.ROLE, of.pk), difference=difference, missing=NOT_FOUND)


def members(actor: Actor, of: Role, *, user: str | None = None, inner: UUID | None = None) -> None:
    put = Members([user] if user else [], [inner] if inner else [])
    add_role_members(actor=actor, project=get_project(None), role_id=of.pk, members=put)


def rebind(actor: Actor, of: Role) -> None:
    set_source_system(
        actor=actor, project=get_project(None), role_id=of.pk, provider_id="oidc", source_id="those-of-alice"
    )


def ways_in(of: Role) -> dict[str, Callable[[Actor], None]]:
    own, other = Grantee(user_id="oidc~alice"), role("other")
    return {
        "a member by assignment": lambda actor: change(actor, of, "assignee", writes=[own]),
        "a role by assignment": lambda actor: change(actor, of, "assignee", writes=[Grantee(role_id=other.pk)]),
        "an owner": lambda actor: change(actor, of, "ownership", writes=[own]),
        "a member": lambda actor: members(actor, of, user="oidc~alice"),
        "a role": lambda actor: members(actor, of, inner=other.pk),
        "another name for tokens": lambda actor: rebind(actor, of),
    }


def take_out(actor: Actor, of: Role) -> None:
    remove_role_members(actor=actor, project=get_project(None), role_id=of.pk, members=Members([BOB.user_id or ""]))


def revoke(actor: Actor, of: Role, privilege: str) -> None:
    difference = Difference(deletes=[GrantSpec(privilege, Grantee(user_id=BOB.user_id))])
    apply_grants(actor=actor, ref=ObjectRef(T.ROLE, of.pk), difference=difference, missing=NOT_FOUND)


WAYS_OUT: dict[str, Callable[[Actor, Role], None]] = {
    "a member by assignment": lambda actor, of: revoke(actor, of, "assignee"),
    "an owner": lambda actor, of: revoke(actor, of, "ownership"),
    "a member": take_out,
    "the whole role": lambda actor, of: delete_role(actor=actor, project=get_project(None), role_id=of.pk),
}


def state() -> tuple[object, ...]:
    return (
        sorted(RoleMember.objects.values_list("role", "user", "member_role"), key=str),
        sorted(Grant.objects.values_list("securable", "privilege", "user", "role"), key=str),
        sorted(Role.objects.values_list("id", "provider_id", "source_id"), key=str),
    )


@pytest.mark.parametrize("depth", ["itself", "a member of it", "an owner of it"])
@pytest.mark.parametrize(
    ("privilege", "on", "caller_has"),
    [
        ("project_admin", T.PROJECT, [("security_admin", T.PROJECT)]),
        ("operator", T.SERVER, [("security_admin", T.PROJECT)]),
        ("admin", T.SERVER, [("project_admin", T.PROJECT)]),
        ("operator", T.SERVER, [("admin", T.SERVER), ("project_admin", T.PROJECT)]),
    ],
)
def test_no_user_gains_rights_through_a_role(
    project: ObjectRef,
    server: ObjectRef,
    privilege: str,
    on: Securable.Type,
    caller_has: list[tuple[str, Securable.Type]],
    depth: str,
) -> None:
    refs = {T.PROJECT: project, T.SERVER: server}
    high = role("high")
    give(privilege, refs[on], BOB, through=high, to=high)
    for name, at in caller_has:
        give(name, refs[at], ALICE)
    asked = high
    if depth != "itself":
        asked = role("inner")
        change(
            INTERNAL, high, "assignee" if depth == "a member of it" else "ownership", writes=[Grantee(role_id=asked.pk)]
        )
    give("ownership", ObjectRef(T.ROLE, asked.pk), BOB)
    members(INTERNAL, asked, user=BOB.user_id)
    ways_out = {f"out: {way}": lambda actor, go=go: go(actor, asked) for way, go in WAYS_OUT.items()}
    for way, go in {**ways_in(asked), **ways_out}.items():
        before = state()
        with pytest.raises(GrantActionForbidden) as refused:
            go(ALICE)
        assert f"oidc~alice may not grant on {on} {refs[on][1]}: {privilege}" in str(refused.value), way
        assert state() == before, way


@pytest.mark.parametrize("way", ["a member by assignment", "a role", "an owner", "a member", "another name for tokens"])
def test_users_who_may_grant_membership_may_add_members(project: ObjectRef, server: ObjectRef, way: str) -> None:
    high = role("high")
    give("project_admin", project, BOB, through=high, to=high)
    give("project_admin", project, ALICE)
    ways, before = ways_in(high), state()
    ways[way](ALICE)
    assert state() != before


@pytest.mark.parametrize("way", WAYS_OUT)
def test_users_who_may_grant_membership_may_remove_members(project: ObjectRef, server: ObjectRef, way: str) -> None:
    high = role("high")
    give("project_admin", project, BOB, through=high, to=high)
    give("ownership", ObjectRef(T.ROLE, high.pk), BOB)
    give("project_admin", project, ALICE)
    before = state()
    WAYS_OUT[way](ALICE, high)
    assert state() != before


@pytest.mark.parametrize("way", WAYS_OUT)
def test_an_instance_admin_may_take_others_out(
    project: ObjectRef, server: ObjectRef, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except by revoking ownership, which is another user's grant."""
    high = role("high")
    give("operator", server, BOB, through=high, to=high)
    give("operator", server, CAROL)
    give("ownership", ObjectRef(T.ROLE, high.pk), BOB)
    admins = settings.ICEKEEPER.model_copy(update={"instance_admins": [ALICE.user_id]})
    monkeypatch.setattr(settings, "ICEKEEPER", admins)
    before = state()
    if way == "an owner":
        with pytest.raises(GrantActionForbidden):
            WAYS_OUT[way](ALICE, high)
        assert state() == before
    else:
        WAYS_OUT[way](ALICE, high)
        assert state() != before


def test_other_roles_require_permission_to_manage_roles(project: ObjectRef) -> None:
    plain = role("plain")
    give("data_admin", project, BOB, through=plain, to=plain)
    give("security_admin", project, ALICE)
    for go in ways_in(plain).values():
        go(ALICE)
    assert RoleMember.objects.filter(role=plain, user="oidc~alice").exists()
    assert Role.objects.get(pk=plain.pk).ident == "oidc~those-of-alice"
    for way_out in WAYS_OUT.values():
        way_out(ALICE, plain)
    assert not Role.objects.filter(pk=plain.pk).exists()


def test_to_rename_takes_no_more(project: ObjectRef) -> None:
    high = role("high")
    give("project_admin", project, BOB, through=high, to=high)
    give("project_admin", project, CAROL)
    give("security_admin", project, ALICE)
    update_role(actor=ALICE, project=get_project(None), role_id=high.pk, name="renamed", description=None)
    assert Role.objects.get(pk=high.pk).name == "renamed"


def create_bound(actor: Actor) -> Role:
    return create_role(actor=actor, project=get_project(None), name="bound", provider_id="oidc", source_id="staff")


def test_role_creators_bind_no_role_to_a_group(project: ObjectRef, manage: Callable[[str], CallerClient]) -> None:
    give("role_creator", project, ALICE)
    own = create_role(actor=ALICE, project=get_project(None), name="own")
    give("role_creator", project, BOB, through=own, to=own)
    before = state()
    for act in (lambda: create_bound(ALICE), lambda: rebind(ALICE, own)):
        with pytest.raises(ProjectActionForbidden, match=f"oidc~alice may not bind roles of project {project[1]}"):
            act()
    body = {"name": "bound", "provider-id": "oidc", "source-id": "staff"}
    assert manage("alice").post("/role", body).refused(403, "ProjectActionForbidden")
    response = manage("alice").put(f"/role/{own.pk}/source-system", {"provider-id": "oidc", "source-id": "staff"})
    assert response.refused(403, "ProjectActionForbidden")
    assert state() == before
    mine = {"name": "mine", "provider-id": "lakekeeper", "source-id": "mine"}
    assert manage("alice").post("/role", mine).status == 201, "a name of this server's own binds nothing"


@pytest.mark.parametrize("privilege", ["project_admin", "security_admin"])
def test_administrators_of_the_project_bind_roles(project: ObjectRef, privilege: str) -> None:
    give(privilege, project, ALICE)
    rebind(ALICE, role("plain"))
    assert create_bound(ALICE).ident == "oidc~staff"


@pytest.fixture
def only_bob(project: ObjectRef) -> Role:
    """A role with Bob as its only member, and the only administrator of the project."""
    admins = role("admins")
    give("project_admin", project, BOB, through=admins, to=admins)
    give("security_admin", project, ALICE)
    Grant.objects.filter(privilege="project_admin", user__isnull=False).delete()
    return admins


def test_the_last_administrator_is_kept_by_assignments(
    only_bob: Role, server: ObjectRef, manage: Callable[[str], CallerClient]
) -> None:
    give("admin", server, ALICE)  # a user who may appoint project administrators without being one
    change, before = {"deletes": [{"type": "assignee", "user": "oidc~bob"}]}, state()
    response = manage("alice").post(f"/permissions/role/{only_bob.pk}/assignments", change)
    assert (response.status, response.error["type"]) == (409, "LastAdministrator")
    assert state() == before


@pytest.mark.parametrize("in_it", ["a member", "an owner", "in a role of it"])
def test_a_project_whose_role_alone_operates_the_server_stays(
    server: ObjectRef, project: ObjectRef, in_it: str
) -> None:
    on, high = f"server:{server[1]}", role("high")
    Grant.objects.filter(securable=on).delete()
    if in_it == "a member":
        give("operator", server, BOB, through=high, to=high)
    elif in_it == "an owner":
        give("operator", server, BOB, to=high)
        give("ownership", ObjectRef(T.ROLE, high.pk), BOB)
    else:
        inner = role("inner")
        give("operator", server, BOB, to=high)
        give("assignee", ObjectRef(T.ROLE, high.pk), BOB, through=inner, to=inner)
    give("modify", project, ALICE)
    before = state()
    with pytest.raises(LastAdministrator):
        delete_project(actor=INTERNAL, project_id=str(project[1]))
    assert state() == before
    give("operator", server, CAROL)
    before = state()
    with pytest.raises(GrantActionForbidden, match=f"oidc~alice may not grant on server {server[1]}: operator"):
        delete_project(actor=ALICE, project_id=str(project[1]))
    assert state() == before
    delete_project(actor=CAROL, project_id=str(project[1]))
    assert administrated_among([on]) == {on}


def test_a_project_goes_with_its_own_last_administrator(only_bob: Role, project: ObjectRef) -> None:
    on = f"project:{project[1]}"
    assert administrated_among([on]) == {on}
    delete_project(actor=BOB, project_id=str(project[1]))
    assert not Securable.objects.filter(pk=on).exists()


def test_an_end_for_the_last_administrators_membership(only_bob: Role) -> None:
    spec = GrantSpec("assignee", Grantee(user_id="oidc~bob"), now() + timedelta(days=1))
    with pytest.raises(LastAdministrator):
        apply_grants(
            actor=INTERNAL, ref=ObjectRef(T.ROLE, only_bob.pk), difference=Difference(writes=[spec]), missing=NOT_FOUND
        )
    assert RoleMember.objects.get(role=only_bob).expires_at is None


@pytest.mark.parametrize("nested", [False, True])
def test_owners_of_a_role_that_administrates_are_administrators(project: ObjectRef, nested: bool) -> None:
    admins, owners = role("admins"), role("owners")
    give("project_admin", project, BOB, to=admins)
    if nested:
        give("ownership", ObjectRef(T.ROLE, admins.pk), BOB, to=owners)
        give("ownership", ObjectRef(T.ROLE, owners.pk), BOB)
    else:
        give("ownership", ObjectRef(T.ROLE, admins.pk), BOB)
    Grant.objects.filter(privilege="project_admin", user__isnull=False).delete()
    on = f"project:{project[1]}"
    assert administrated_among([on]) == {on}
    owned, before = owners if nested else admins, state()
    taken = Difference(deletes=[GrantSpec("ownership", Grantee(user_id="oidc~bob"))])
    with pytest.raises(LastAdministrator):
        apply_grants(actor=INTERNAL, ref=ObjectRef(T.ROLE, owned.pk), difference=taken, missing=NOT_FOUND)
    with pytest.raises(LastAdministrator):
        delete_role(actor=INTERNAL, project=get_project(None), role_id=owned.pk)
    assert state() == before


def test_locked_out_users_administrate_nothing(only_bob: Role, project: ObjectRef) -> None:
    on = f"project:{project[1]}"
    assert administrated_among([on]) == {on}
    User.objects.filter(pk="oidc~bob").update(is_active=False)
    assert administrated_among([on]) == set()


def test_a_new_role_of_a_token_counts_at_once(project: ObjectRef, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permission_epoch, "is_fresh", lambda: True)  # as in a server
    dana = user("dana", "admins")
    before = permission_epoch.current()
    create_role(actor=INTERNAL, project=get_project(None), name="plain")
    assert permission_epoch.current() == before
    created = create_role(
        actor=INTERNAL, project=get_project(None), name="admins", provider_id="oidc", source_id="admins"
    )
    assert permission_epoch.current() != before
    assert assume_role(dana, str(created.pk)).assumed_role == created.pk
