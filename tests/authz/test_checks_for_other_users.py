"""Permission checks for oneself and for other users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from catalog.objects import ObjectKey, resolve_objects
from icekeeper.kernel.errors.types import CatalogError, NoSuchWarehouse
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.actor import ANONYMOUS, INTERNAL, Actor, Grantee, acting_as, is_instance_admin
from tenancy.authz.actions import ACTIONS_ON, Can
from tenancy.authz.permissions import ProjectActionForbidden, WarehouseActionForbidden
from tenancy.authz.port import authorizer
from tenancy.models import Securable, Server, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors.permission_checks import (
    ActionCheck,
    check_actions_for,
    check_subject,
    check_subjects,
    is_allowed_for,
    list_allowed_actions_for,
    list_user_actions_for,
)
from tenancy.selectors.projects import get_project
from tenancy.selectors.roles import RoleIdNotFound
from tenancy.selectors.users import UserNotFound
from tenancy.services.grants import Difference, GrantSpec, apply_grants
from tenancy.services.roles import create_role
from tests.authz.conftest import user
from tests.harness.named_callers import CallerClient
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("builtin")]

MISSING = NoSuchWarehouse("there is none")
ANNA, BERT = Grantee(user_id="oidc~anna"), Grantee(user_id="oidc~bert")


@pytest.fixture(autouse=True)
def users(warehouse: Warehouse) -> None:
    for each in ("anna", "bert", "carl"):
        User.objects.create(id=f"oidc~{each}", name=each)


@pytest.fixture
def wh(warehouse: Warehouse) -> ObjectRef:
    return ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk)


@pytest.fixture
def team(warehouse: Warehouse) -> Grantee:
    created = create_role(
        actor=INTERNAL, project=get_project(None), name="team", description=None, provider_id="oidc", source_id="team"
    )
    return Grantee(role_id=created.pk)


def give(ref: ObjectRef, privilege: str, *grantees: Grantee) -> None:
    difference = Difference(writes=[GrantSpec(privilege, each) for each in grantees])
    apply_grants(actor=INTERNAL, ref=ref, difference=difference, missing=MISSING)


def asked(actor: Actor, grantee: Grantee | None, ref: ObjectRef, *actions: Can) -> list[Can]:
    return list_allowed_actions_for(actor=actor, grantee=grantee, ref=ref, actions=actions, missing=MISSING)


def refused(actor: Actor, grantee: Grantee | None, ref: ObjectRef) -> type[CatalogError]:
    with pytest.raises(CatalogError) as listed:
        asked(actor, grantee, ref, Can.GET_METADATA)
    if listed.type is UserNotFound:  # the single check accepts an unknown user
        assert not is_allowed_for(actor=actor, grantee=grantee, ref=ref, action=Can.GET_METADATA, missing=MISSING)
        return UserNotFound
    with pytest.raises(CatalogError) as single:
        is_allowed_for(actor=actor, grantee=grantee, ref=ref, action=Can.GET_METADATA, missing=MISSING)
    assert listed.type is single.type
    return listed.type


def test_all_users_see_their_actions_in_the_order_of_the_request(wh: ObjectRef) -> None:
    give(wh, "create", ANNA)
    give(wh, "manage_grants", BERT)
    wanted = (Can.GRANT_SELECT, Can.CREATE_NAMESPACE, Can.DELETE, Can.USE)
    for grantee in (None, ANNA):
        assert asked(user("anna"), grantee, wh, *wanted) == [Can.CREATE_NAMESPACE, Can.USE]
    assert asked(user("bert"), None, wh, *wanted) == [
        Can.GRANT_SELECT
    ]  # without seeing it, but with the right to grant on it
    assert asked(INTERNAL, None, wh, *wanted) == list(wanted)
    assert refused(user("carl"), None, wh) is NoSuchWarehouse


def test_to_ask_about_others_takes_the_right_to_read_what_they_were_granted(wh: ObjectRef) -> None:
    give(wh, "select", ANNA)
    give(wh, "manage_grants", BERT)
    assert asked(user("bert"), ANNA, wh, *ACTIONS_ON[Securable.Type.WAREHOUSE]) == [
        action for action in ACTIONS_ON[Securable.Type.WAREHOUSE] if asked(user("anna"), None, wh, action)
    ]
    assert asked(user("bert"), Grantee(user_id="oidc~carl"), wh, Can.USE) == []
    no_one = Grantee(user_id="oidc~unknown")
    for other in (BERT, no_one, Grantee(role_id=new_id())):
        assert refused(user("anna"), other, wh) is WarehouseActionForbidden
        assert refused(user("carl"), other, wh) is NoSuchWarehouse
    assert refused(user("bert"), no_one, wh) is UserNotFound
    assert refused(user("bert"), Grantee(role_id=new_id()), wh) is RoleIdNotFound


def test_the_roles_of_a_token_count_for_its_bearer_alone(wh: ObjectRef, team: Grantee) -> None:
    give(wh, "modify", team)
    give(wh, "manage_grants", BERT)
    carl = Grantee(user_id="oidc~carl")
    assert asked(user("carl", "team"), None, wh, Can.DELETE) == [Can.DELETE]
    assert asked(user("bert"), carl, wh, Can.DELETE) == []
    give(ObjectRef(Securable.Type.ROLE, team.role_id), "assignee", carl)
    assert asked(user("bert"), carl, wh, Can.DELETE) == [Can.DELETE]


def test_a_role_has_its_own_rights_and_assuming_it_acts_as_the_role(wh: ObjectRef, team: Grantee) -> None:
    give(wh, "modify", team)
    give(wh, "manage_grants", ANNA)
    in_role = Actor(user_id="oidc~anna", assumed_role=team.role_id)
    assert acting_as(in_role) == team
    both = (Can.DELETE, Can.GRANT_SELECT)
    assert asked(user("anna"), team, wh, *both) == asked(in_role, team, wh, *both) == [Can.DELETE]
    assert asked(in_role, None, wh, *both) == [Can.DELETE]
    assert refused(in_role, ANNA, wh) is WarehouseActionForbidden
    assert check_subject(team) == Actor(assumed_role=team.role_id, is_check_subject=True)


def test_no_user_is_an_instance_admin_in_responses_to_others(
    wh: ObjectRef, team: Grantee, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings(monkeypatch, instance_admins=["oidc~anna"])
    give(wh, "manage_grants", BERT)
    assert asked(user("anna"), None, wh, Can.DELETE, Can.GRANT_SELECT) == [Can.DELETE]
    assert asked(user("anna"), ANNA, wh, Can.DELETE) == [Can.DELETE]
    assert asked(user("bert"), ANNA, wh, Can.DELETE) == []
    assert asked(user("anna"), BERT, wh, Can.DELETE, Can.GRANT_SELECT) == [Can.GRANT_SELECT]
    assert not is_instance_admin(check_subject(ANNA))


def test_instance_admins_need_not_be_registered(
    wh: ObjectRef, monkeypatch: pytest.MonkeyPatch, manage: Callable[[str], CallerClient]
) -> None:
    give(wh, "manage_grants", BERT)
    give(ObjectRef(Securable.Type.PROJECT, get_project(None).pk), "project_admin", BERT)
    bert, who = manage("bert"), "principalUser=oidc~inst"
    inst, location = Grantee(user_id="oidc~inst"), {"warehouse": {"action": "delete", "warehouse-id": str(wh[1])}}
    question = {"identity": {"user": "oidc~inst"}, "operation": location}
    reads = [
        f"/warehouse/{wh[1]}/actions?{who}", f"/warehouse/{wh[1]}/grants/grantable-privileges?{who}",
        f"/access-review?{who}", f"/warehouse/{wh[1]}/reached-objects?{who}", f"/user/oidc~carl/actions?{who}",
    ]  # fmt: skip
    give(ObjectRef(Securable.Type.SERVER, Server.objects.get().server_id), "admin", BERT)
    for path in reads:
        assert bert.get(path).refused(404, "UserNotFound"), path
    assert bert.post("/permissions/explain", question).refused(404, "UserNotFound")
    assert bert.post("/permissions/check", question).json() == {"allowed": False}
    use_settings(monkeypatch, instance_admins=["oidc~inst"])
    for path in reads:
        assert bert.get(path).status == 200, path
    assert bert.get(reads[2]).json()["is-instance-admin"] is True
    reported = bert.post("/permissions/explain", question).json()
    assert (reported["allowed"], reported["chain"]) == (
        False,
        [],
    )  # responses to other callers treat an unknown user as one without grants
    assert bert.post("/permissions/check", question).json() == {"allowed": False}
    assert refused(user("anna"), inst, wh) is NoSuchWarehouse
    assert check_subject(inst) == Actor(user_id="oidc~inst", is_check_subject=True)
    User.objects.create(
        id="oidc~inst", name="i", is_active=False, deleted_at=User.objects.get(pk=ANNA.user_id).created_at
    )
    assert check_subject(inst).is_blocked  # a user who was blocked and then deleted is not registered again


def test_projects_are_no_secret_but_checks_require_access_to_the_project(wh: ObjectRef) -> None:
    project, server = (
        ObjectRef(Securable.Type.PROJECT, get_project(None).pk),
        ObjectRef(Securable.Type.SERVER, Server.objects.get().server_id),
    )
    carl = user("carl")
    assert asked(carl, None, project, Can.GET_METADATA) == []
    assert asked(carl, None, server, Can.CREATE_PROJECT) == []
    with pytest.raises(ProjectActionForbidden):
        is_allowed_for(actor=carl, grantee=None, ref=project, action=Can.DELETE, missing=MISSING)
    assert not is_allowed_for(actor=carl, grantee=None, ref=server, action=Can.CREATE_PROJECT, missing=MISSING)
    give(wh, "describe", Grantee(user_id="oidc~carl"))
    assert not is_allowed_for(actor=carl, grantee=None, ref=project, action=Can.DELETE, missing=MISSING)
    assert is_allowed_for(actor=carl, grantee=None, ref=project, action=Can.LIST_ROLES, missing=MISSING)


def test_a_deleted_user_is_unknown(wh: ObjectRef, team: Grantee) -> None:
    assert set(check_subjects([ANNA, BERT, team, ANNA])) == {ANNA, BERT, team}
    assert check_subjects([]) == {}
    User.objects.filter(pk="oidc~anna").update(deleted_at=User.objects.get(pk="oidc~anna").created_at)
    with pytest.raises(UserNotFound):
        check_subjects([BERT, ANNA])
    with pytest.raises(RoleIdNotFound):
        check_subjects([BERT, Grantee(role_id=UUID(int=0))])
    assert acting_as(ANONYMOUS) is None


@pytest.mark.parametrize("backend", ["builtin", "allowall"])
def test_locked_out_users_may_do_nothing_for_any_caller(
    backend: str, wh: ObjectRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(wh, "ownership", ANNA, BERT)
    use_settings(monkeypatch, authz_backend=backend)
    authorizer.cache_clear()
    User.objects.filter(pk="oidc~anna").update(is_active=False)
    check = ActionCheck(Can.GET_METADATA, ObjectKey(*wh), ANNA)
    checks = [check, replace(check, identity=BERT), replace(check, identity=Grantee(user_id="oidc~unknown-user"))]
    verdicts = check_actions_for(actor=INTERNAL, checks=checks, must_exist=False, resolve=resolve_objects)
    assert [each.is_allowed for each in verdicts] == [False, True, backend == "allowall"]
    assert asked(INTERNAL, ANNA, wh, Can.GET_METADATA) == []
    assert asked(INTERNAL, BERT, wh, Can.GET_METADATA) == [Can.GET_METADATA]
    assert list_user_actions_for(actor=INTERNAL, grantee=ANNA, user_id="oidc~anna") == []
