"""The grants API: list, grant and revoke privileges on an object."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from catalog.models import Tabular
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.authz.actions import privileges_on
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.models import Grant, Securable, User
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.services.roles import create_role
from tests.authz.conftest import user
from tests.authz.grant_change_fixtures import ANN, KINDS, LATER, LEAST, MOST, Refs, entry, least
from tests.authz.object_path_fixtures import MISSING, path_of
from tests.authz.tree_fixtures import T, give, role
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient
from tests.harness.statement_counts import counting, require_as_recorded
from tests.harness.wsgi_client import Response
from tests.management.warehouse_request_fixtures import NO_ONE, use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("builtin")]


def held(ref: ObjectRef) -> set[tuple[str, str]]:
    rows = Grant.objects.filter(securable_id=securable_id(*ref))
    return {(row.privilege, row.user_id or str(row.role_id)) for row in rows}


def reported(response: Response) -> list[dict[str, Any]]:
    assert response.status == 200, response.body
    assert response.json().keys() <= {"grants", "next-page-token"}
    found: list[dict[str, Any]] = response.json()["grants"]
    return found


def everything_of(client: CallerClient, target: str, size: int) -> list[dict[str, Any]]:
    """Return the items of all pages; every page but the last is full."""
    found: list[dict[str, Any]] = []
    token = ""
    while True:
        joint = "&" if "?" in target else "?"
        response = client.get(f"{target}{joint}pageSize={size}&pageToken={token}")
        page = reported(response)
        found += page
        token = response.json().get("next-page-token")
        if token is None:
            return found
        assert len(page) == size


# --- one object --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_grants_are_shown_with_the_ids_that_clients_know(refs: Refs, chief: CallerClient, kind: Securable.Type) -> None:
    target = f"{path_of(refs[kind])}/grants"
    assert chief.post(target, {"writes": [entry(least(kind))]}).status == 204
    (grant,) = [each for each in reported(chief.get(target)) if each["principal"] == ANN]
    parts = path_of(refs[kind]).split("/")
    resource = {"type": {T.TAG: "tag-definition"}.get(kind, kind.value)}
    if kind is T.PROJECT:
        resource["project-id"] = str(refs[kind][1])
    elif kind is not T.SERVER:
        resource |= {f"{name}-id": own_id for name, own_id in zip(parts[1::2], parts[2::2], strict=True)}
    created = Grant.objects.get(securable_id=securable_id(*refs[kind]), user_id="oidc~ann").created_at
    assert datetime.fromisoformat(grant.pop("created-at")) == created
    assert grant == {"principal": ANN, "resource": resource, "privilege": least(kind), "recognized": True}


@pytest.mark.parametrize("kind", KINDS)
def test_granting_and_revoking_again_is_no_error(refs: Refs, chief: CallerClient, kind: Securable.Type) -> None:
    target, before = f"{path_of(refs[kind])}/grants", held(refs[kind])
    team = {"role": str(refs[T.ROLE][1])}
    change = {"writes": [entry(least(kind)), entry(least(kind), team)], "deletes": [entry(MOST.get(kind, "modify"))]}
    for _ in range(2):
        assert chief.post(target, change).status == 204
        assert held(refs[kind]) - before == {(least(kind), "oidc~ann"), (least(kind), team["role"])}
    for _ in range(2):
        assert chief.post(target, {"deletes": change["writes"]}).status == 204
        assert held(refs[kind]) == before


def test_a_grant_may_end(refs: Refs, chief: CallerClient, manage: Callable[[str], CallerClient]) -> None:
    target = f"{path_of(refs[T.TABLE])}/grants"
    assert chief.post(target, {"writes": [entry("select", **{"expires-at": LATER.isoformat()})]}).status == 204
    (grant,) = reported(chief.get(target))
    assert datetime.fromisoformat(grant["expires-at"]) == LATER
    assert chief.post(target, {"writes": [entry("select", **{"expires-at": None})]}).status == 204
    assert "expires-at" not in reported(chief.get(target))[0]
    assert chief.post(target, {"writes": [entry("select", **{"expires-at": LATER.isoformat()})]}).status == 204
    Grant.objects.filter(privilege="select").update(expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert reported(chief.get(target)) == []
    assert manage("ann").get(f"{target}?principalUser=oidc~ann").refused(404, "NoSuchWarehouseException")


def test_a_removed_privilege_is_listed_and_can_be_revoked(refs: Refs, chief: CallerClient) -> None:
    target = f"{path_of(refs[T.TABLE])}/grants"
    Grant.objects.create_on(securable_id=securable_id(*refs[T.TABLE]), user_id="oidc~ann", privilege="fly")
    (grant,) = reported(chief.get(target))
    assert (grant["privilege"], grant["recognized"]) == ("fly", False)
    assert chief.post(target, {"writes": [entry("fly")]}).refused(400, "InvalidGrantPrivilege")
    assert chief.post(target, {"deletes": [entry("fly"), entry("never heard of")]}).status == 204
    assert held(refs[T.TABLE]) == set()


def test_a_listing_is_narrowed_to_one_principal(refs: Refs, chief: CallerClient) -> None:
    target, team = f"{path_of(refs[T.TABLE])}/grants", str(refs[T.ROLE][1])
    writes = [entry("select"), entry("modify", {"user": "oidc~bob"}), entry("select", {"role": team})]
    assert chief.post(target, {"writes": writes}).status == 204

    def listed(query: str) -> list[tuple[str, dict[str, str]]]:
        return [(each["privilege"], each["principal"]) for each in reported(chief.get(f"{target}{query}"))]

    assert len(listed("")) == 3
    assert listed("?principalUser=oidc~bob") == [("modify", {"user": "oidc~bob"})]
    assert listed(f"?principalRole={team}") == [("select", {"role": team})]
    assert listed("?principalUser=oidc~unknown") == listed(f"?principalRole={NO_ONE}") == []


@pytest.mark.parametrize("size", [1, 7, 50])
def test_many_grants_over_pages(refs: Refs, chief: CallerClient, size: int) -> None:
    target = f"{path_of(refs[T.VIEW])}/grants"
    User.objects.bulk_create(User(id=f"oidc~u{n}", name=f"u{n}") for n in range(30))
    for n in range(0, 30, 15):
        writes = [entry("select", {"user": f"oidc~u{m}"}) for m in range(n, n + 15)]
        assert chief.post(target, {"writes": writes}).status == 204
    found = everything_of(chief, target, size)
    assert sorted(each["principal"]["user"] for each in found) == sorted(f"oidc~u{n}" for n in range(30))
    token = chief.get(f"{target}?pageSize=1").json()["next-page-token"]
    for other in (f"{path_of(refs[T.TABLE])}/grants?", f"{target}?principalUser=oidc~u1&", "/server/grants?"):
        assert chief.get(f"{other}pageToken={token}").refused(400, "InvalidPaginationToken")
    for bad in ("pageToken=x", "pageToken=%F0%9F%98%80"):
        assert chief.get(f"{target}?{bad}").refused(400, "InvalidPaginationToken")
    for bad in ("pageSize=0", "pageSize=-1", "pageSize=x", "pageSize=", "pageSize=9999999999"):
        assert chief.get(f"{target}?{bad}").refused(400, "BadRequestException")


# --- who may -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_ones_own_grants_take_nothing_but_to_see_the_object(
    refs: Refs, manage: Callable[[str], CallerClient], kind: Securable.Type
) -> None:
    privilege = "role_creator" if kind is T.PROJECT else least(kind)
    if kind is T.SERVER:
        assert reported(manage("ann").get("/server/grants?principalUser=oidc~ann")) == []
        return
    if kind is T.PROJECT:
        give("describe", refs[T.TABLE], user("ann"))
    give(privilege, refs[kind], user("ann"))
    give(least(kind), refs[kind], user("bob"))
    target = f"{path_of(refs[kind])}/grants"
    own = reported(manage("ann").get(f"{target}?principalUser=oidc~ann"))
    assert [each["privilege"] for each in own] == [privilege]
    for query in ("", "?principalUser=oidc~bob", f"?principalRole={refs[T.ROLE][1]}"):
        assert manage("ann").get(f"{target}{query}").refused(403, "GrantActionForbidden")
    assert {each["principal"]["user"] for each in reported(manage("root").get(target))} >= {"oidc~ann", "oidc~bob"}


def test_being_in_a_role_is_not_being_it(refs: Refs, manage: Callable[[str], CallerClient]) -> None:
    team = role("readers")
    give("assignee", ObjectRef(T.ROLE, team.pk), user("ann"))
    give("select", refs[T.TABLE], user("ann"), to=team)
    target = f"{path_of(refs[T.TABLE])}/grants"
    assert reported(manage("ann").get(f"{target}?principalUser=oidc~ann")) == []
    of_role = f"{target}?principalRole={team.pk}"
    assert manage("ann").get(of_role).refused(403, "GrantActionForbidden")
    assumed = {"x-assume-role": str(team.pk)}
    assert [each["privilege"] for each in reported(manage("ann").get(of_role, **assumed))] == ["select"]
    assert manage("ann").get(f"{target}?principalUser=oidc~ann", **assumed).refused(403, "GrantActionForbidden")


@pytest.mark.parametrize("kind", MISSING.keys() & set(KINDS))
def test_hidden_objects_are_missing_on_all_three_routes(
    refs: Refs, manage: Callable[[str], CallerClient], everything: Callable[[], Fingerprint], kind: Securable.Type
) -> None:
    path = path_of(refs[kind])
    unseen = "NoSuchWarehouseException" if path.startswith("/warehouse/") else MISSING[kind]
    above, _, own_id = path.rpartition("/")
    bob = manage("bob")
    bob.get("/server/actions")
    before = everything()
    changes = [
        {"writes": [entry(least(kind))]}, {"deletes": [entry(least(kind))]}, {"writes": [entry("no such")]},
        {"writes": [entry(least(kind), {"user": "oidc~unknown"})]}, {"writes": [entry(least(kind), {"role": NO_ONE})]},
        {"writes": [entry(least(kind), **{"expires-at": "2001-01-01T00:00:00Z"})]},
    ]  # fmt: skip
    for act in (
        *(lambda at, query=query: bob.get(f"{at}/grants{query}") for query in (
            "", "?principalUser=oidc~bob", "?principalUser=oidc~ann", f"?principalRole={NO_ONE}")),
        *(lambda at, query=query: bob.get(f"{at}/grants/grantable-privileges{query}") for query in (
            "", "?principalUser=oidc~bob", "?principalUser=oidc~ann", f"?principalRole={NO_ONE}")),
        *(lambda at, change=change: bob.post(f"{at}/grants", change) for change in changes),
    ):  # fmt: skip
        hidden, missing = act(path), act(f"{above}/{NO_ONE}")
        assert hidden.refused(404, unseen)
        assert missing.refused(404, unseen)
        assert hidden.error["message"].replace(own_id, NO_ONE) == missing.error["message"]
    assert everything() == before


@pytest.mark.parametrize("kind", KINDS)
def test_seeing_an_object_does_not_allow_granting_on_it(
    refs: Refs, manage: Callable[[str], CallerClient], everything: Callable[[], Fingerprint], kind: Securable.Type
) -> None:
    if kind not in {T.SERVER, T.PROJECT}:
        give(least(kind), refs[kind], user("bob"))
    bob, target = manage("bob"), f"{path_of(refs[kind])}/grants"
    bob.get("/server/actions")
    before = everything()
    for change in (
        {"writes": [entry(least(kind), {"user": "oidc~bob"})]}, {"deletes": [entry(least(kind))]},
        {"writes": [entry(MOST.get(kind, "ownership"))]}, {"deletes": [entry("no such")]},
    ):  # fmt: skip
        assert bob.post(target, change).refused(403, "GrantActionForbidden", "oidc~bob may not grant on")
    assert everything() == before


def test_an_error_names_five_privileges_and_refuses_all(
    refs: Refs, manage: Callable[[str], CallerClient], everything: Callable[[], Fingerprint]
) -> None:
    give("pass_grants", refs[T.TABLE], user("bob"))
    give("select", refs[T.TABLE], user("bob"))
    bob, target = manage("bob"), f"{path_of(refs[T.TABLE])}/grants"
    names = [each.name for each in privileges_on(T.TABLE)]
    before = everything()
    response = bob.post(target, {"writes": [entry(name) for name in names]})
    assert response.refused(403, "GrantActionForbidden")
    refused = [name for name in names if name not in {"select", "describe"}][:5]
    assert response.error["message"].endswith(": " + ", ".join(refused))
    assert everything() == before
    assert bob.post(target, {"writes": [entry("select"), entry("describe")]}).status == 204


def test_manage_grants_alone_allows_every_route(refs: Refs, manage: Callable[[str], CallerClient]) -> None:
    give("manage_grants", refs[T.TABLE], user("bob"))
    bob, target = manage("bob"), f"{path_of(refs[T.TABLE])}/grants"
    assert bob.post(target, {"writes": [entry("ownership")]}).status == 204
    assert {each["privilege"] for each in reported(bob.get(target))} == {"manage_grants", "ownership"}
    assert bob.get(f"{target}/grantable-privileges").status == 200


def test_instance_admins_read_grants_and_write_none(
    refs: Refs, manage: Callable[[str], CallerClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings(monkeypatch, instance_admins=["oidc~super"])
    give("select", refs[T.TABLE], user("ann"))
    target = f"{path_of(refs[T.TABLE])}/grants"
    assert len(reported(manage("super").get(target))) == 1
    response = manage("super").post(target, {"writes": [entry("select", {"user": "oidc~super"})]})
    assert response.refused(403, "GrantActionForbidden")
    privileges = manage("super").get(f"{target}/grantable-privileges").json()["privileges"]
    assert not any(each["allowed"] for each in privileges)


# --- foreign projects --------------------------------------------------------------------------------------------


def test_objects_of_another_project_are_missing(
    refs: Refs, chief: CallerClient, elsewhere: Warehouse, everything: Callable[[], Fingerprint]
) -> None:
    other = {"x-project-id": "other"}
    before = everything()
    for kind in MISSING.keys() & set(KINDS):
        path, wire_type = path_of(refs[kind]), MISSING[kind]
        assert chief.get(f"{path}/grants", **other).refused(404, wire_type)
        assert chief.get(f"{path}/grants/grantable-privileges", **other).refused(404, wire_type)
        assert chief.post(f"{path}/grants", {"writes": [entry(least(kind))]}, **other).refused(404, wire_type)
    far = f"/warehouse/{elsewhere.pk}/grants"
    assert chief.get(far).refused(404, "NoSuchWarehouseException")
    assert chief.post(far, {"writes": [entry("select")]}).refused(404, "NoSuchWarehouseException")
    assert chief.get("/project/grants", **{"x-project-id": "none"}).refused(404, "ProjectNotFound")
    assert chief.get("/project/grants", **{"x-project-id": "a/b"}).refused(400, "MalformedProjectID")
    assert everything() == before
    assert reported(chief.get(far, **other)) == []
    assert chief.post(far, {"writes": [entry("select")]}, **other).status == 204
    assert len(reported(chief.get(far, **other))) == 1


def test_a_role_of_another_project_gets_nothing_but_on_the_server(
    refs: Refs, chief: CallerClient, elsewhere: Warehouse, everything: Callable[[], Fingerprint]
) -> None:
    far = create_role(
        actor=INTERNAL, project=elsewhere.project, name="far", description=None, provider_id=None, source_id=None
    )
    before = everything()
    for kind in KINDS[1:]:
        response = chief.post(f"{path_of(refs[kind])}/grants", {"writes": [entry(least(kind), {"role": str(far.pk)})]})
        assert response.refused(400, "GrantRoleNotInProject")
    assert everything() == before
    assert chief.post("/server/grants", {"writes": [entry("admin", {"role": str(far.pk)})]}).status == 204


def test_dropped_tables_keep_their_grants(refs: Refs, chief: CallerClient) -> None:
    target = f"{path_of(refs[T.TABLE])}/grants"
    row = Tabular.objects.get(pk=refs[T.TABLE][1])
    Tabular.objects.filter(pk=row.pk).update(deleted_at=row.updated_at)
    assert chief.post(target, {"writes": [entry("select")]}).status == 204
    assert len(reported(chief.get(target))) == 1


# --- what can be granted -----------------------------------------------------------------------------------------


def test_grantable_privileges_are_shown_to_all_users(refs: Refs, manage: Callable[[str], CallerClient]) -> None:
    response = manage("bob").get("/grants/grantable-privileges")
    by_type = response.json()["privileges"]
    assert list(by_type) == [
        "server", "project", "warehouse", "namespace", "table", "view", "generic-table", "tag-definition",
    ]  # fmt: skip
    for kind, name in zip(KINDS, by_type, strict=True):
        assert [each["name"] for each in by_type[name]] == [each.name for each in privileges_on(kind)]
        for each in by_type[name]:
            assert each.keys() == {"name", "display-name", "description", "category", "resource-type"}
            assert each["resource-type"] == name
            assert "_" not in each["display-name"]
    assert by_type["table"][1]["display-name"] == "pass grants"


@pytest.mark.parametrize("kind", KINDS)
def test_grantable_privileges_on_an_object_are_shown(
    refs: Refs, chief: CallerClient, manage: Callable[[str], CallerClient], kind: Securable.Type
) -> None:
    target = f"{path_of(refs[kind])}/grants/grantable-privileges"
    vocabulary = chief.get("/grants/grantable-privileges").json()["privileges"]
    named = vocabulary[{T.TAG: "tag-definition"}.get(kind, kind.value)]
    assert chief.get(target).json() == {"privileges": [{"privilege": each, "allowed": True} for each in named]}
    give(least(kind), refs[kind], user("ann"))
    of_ann = {"privileges": [{"privilege": each, "allowed": False} for each in named]}
    if kind is T.SERVER:
        for each in of_ann["privileges"]:
            each["allowed"] = each["privilege"]["name"] == "admin"
    assert manage("ann").get(target).json() == of_ann
    assert chief.get(f"{target}?principalUser=oidc~ann").json() == of_ann
    assert manage("ann").get(f"{target}?principalUser=oidc~ann").json() == of_ann
    if kind is not T.SERVER:
        assert manage("ann").get(f"{target}?principalUser=oidc~bob").refused(403, "GrantActionForbidden")
    assert chief.get(f"{target}?principalUser=oidc~unknown").refused(404, "UserNotFound")
    assert chief.get(f"{target}?principalRole={NO_ONE}").refused(404, "RoleIdNotFound")


# --- cost --------------------------------------------------------------------------------------------------------


def test_what_it_costs(refs: Refs, chief: CallerClient, builtin: BuiltinAuthorizer) -> None:
    counted: dict[str, dict[str, int]] = {}
    targets = {kind.value: f"{path_of(refs[kind])}/grants" for kind in KINDS}
    chief.get("/server/grants")
    for name, target in targets.items():
        privilege = LEAST.get(T(name), "describe")
        acts: dict[str, Callable[[], Response]] = {
            "apply": lambda target=target, privilege=privilege: chief.post(target, {"writes": [entry(privilege)]}),
            "list": lambda target=target: chief.get(target),
            "grantable": lambda target=target: chief.get(f"{target}/grantable-privileges"),
        }
        for act, do in acts.items():
            builtin.clear_caches()
            with counting() as seen:
                assert do().status in {200, 204}
            counted[f"grants.{act}.{name}"] = dict(seen)
    builtin.clear_caches()
    with counting() as seen:
        assert len(reported(chief.get("/grants?principalUser=oidc~ann"))) == 7
    counted["grants.of_principal"] = dict(seen)
    require_as_recorded("grants", counted)
