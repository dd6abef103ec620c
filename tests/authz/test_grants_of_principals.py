"""`GET /grants`: every grant of one principal in a project."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.authz import port
from tenancy.authz.securables import add_securable
from tenancy.models import Grant
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.services.projects import create_project
from tests.authz.conftest import user
from tests.authz.grant_change_fixtures import Refs
from tests.authz.object_path_fixtures import path_of
from tests.authz.tree_fixtures import T, give, role
from tests.harness.named_callers import CallerClient
from tests.harness.statement_counts import counting
from tests.harness.wsgi_client import Response
from tests.management.warehouse_request_fixtures import NO_ONE, use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("builtin")]

PRIVILEGES = {
    T.PROJECT: "role_creator", T.WAREHOUSE: "create", T.NAMESPACE: "describe", T.TABLE: "select", T.VIEW: "modify",
    T.GENERIC_TABLE: "manage_tags", T.TAG: "apply",
}  # fmt: skip
OF_ANN = "/grants?principalUser=oidc~ann"


@pytest.fixture
def granted(refs: Refs) -> Refs:
    """One privilege on each type of object, the server and the role included."""
    for kind, privilege in PRIVILEGES.items():
        give(privilege, refs[kind], user("ann"))
    give("admin", refs[T.SERVER], user("ann"))
    give("ownership", refs[T.ROLE], user("ann"))
    give("select", refs[T.TABLE], user("bob"))
    return refs


def reported(response: Response) -> list[dict[str, Any]]:
    assert response.status == 200, response.body
    found: list[dict[str, Any]] = response.json()["grants"]
    return found


def kinds(grants: list[dict[str, Any]]) -> list[str]:
    return [each["resource"]["type"] for each in grants]


def test_everything_in_the_project_is_listed_in_the_order_of_granting(
    granted: Refs, manage: Callable[[str], CallerClient]
) -> None:
    grants = reported(manage("root").get(OF_ANN))
    assert [each["privilege"] for each in grants] == list(PRIVILEGES.values())
    assert all(each["principal"] == {"user": "oidc~ann"} and each["recognized"] for each in grants)
    for kind, each in zip(PRIVILEGES, grants, strict=True):
        parts = path_of(granted[kind]).split("/")
        ids = {f"{name}-id": own_id for name, own_id in zip(parts[1::2], parts[2::2], strict=True)} if parts[2:] else {}
        if kind is T.PROJECT:
            ids = {"project-id": str(granted[kind][1])}
        assert each["resource"] == {"type": {T.TAG: "tag-definition"}.get(kind, kind.value), **ids}


def test_ones_own_take_nothing_but_to_see_the_project(granted: Refs, manage: Callable[[str], CallerClient]) -> None:
    assert len(reported(manage("ann").get(OF_ANN))) == len(PRIVILEGES)
    assert manage("bob").get(OF_ANN).refused(403, "GrantActionForbidden")
    assert manage("bob").get(f"/grants?principalRole={NO_ONE}").refused(403, "GrantActionForbidden")
    assert kinds(reported(manage("bob").get("/grants?principalUser=oidc~bob"))) == ["table"]
    assert manage("stranger").get("/grants?principalUser=oidc~stranger").refused(403, "GrantActionForbidden")
    assert manage("stranger").get(OF_ANN).refused(403, "GrantActionForbidden")
    assert reported(manage("root").get("/grants?principalUser=oidc~unknown")) == []


def test_privileges_of_a_role_are_listed_under_the_role(granted: Refs, manage: Callable[[str], CallerClient]) -> None:
    team = role("readers")
    give("assignee", ObjectRef(T.ROLE, team.pk), user("bob"))
    give("modify", granted[T.NAMESPACE], user("bob"), to=team)
    of_team = f"/grants?principalRole={team.pk}"
    assert kinds(reported(manage("root").get(of_team))) == ["namespace"]
    assert reported(manage("root").get(of_team))[0]["principal"] == {"role": str(team.pk)}
    assert kinds(reported(manage("bob").get("/grants?principalUser=oidc~bob"))) == ["table"]
    assert manage("bob").get(of_team).refused(403, "GrantActionForbidden")
    assumed = {"x-assume-role": str(team.pk)}
    assert kinds(reported(manage("bob").get(of_team, **assumed))) == ["namespace"]
    assert manage("bob").get("/grants?principalUser=oidc~bob", **assumed).refused(403, "GrantActionForbidden")


def test_a_project_is_its_own(
    granted: Refs, manage: Callable[[str], CallerClient], elsewhere: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Project ids differ by case, and one may be a prefix of another."""
    other = {"x-project-id": "other"}
    for project_id in ("Other", "other2"):
        create_project(actor=INTERNAL, name=project_id + "x", project_id=project_id)
        give("select", ObjectRef(T.PROJECT, project_id), user("ann"))
    give("modify", ObjectRef(T.WAREHOUSE, elsewhere.pk), user("ann"))
    give("describe", ObjectRef(T.WAREHOUSE, elsewhere.pk), user("ann"))
    assert [each["privilege"] for each in reported(manage("ann").get(OF_ANN, **other))] == ["modify", "describe"]
    assert kinds(reported(manage("ann").get(OF_ANN, **{"x-project-id": "Other"}))) == ["project"]
    assert manage("root").get(OF_ANN, **other).refused(403, "GrantActionForbidden")
    assert manage("root").get(OF_ANN, **{"x-project-id": "none"}).refused(404, "ProjectNotFound")
    assert len(reported(manage("root").get(OF_ANN))) == len(PRIVILEGES)
    token = manage("ann").get(f"{OF_ANN}&pageSize=1").json()["next-page-token"]
    assert manage("ann").get(f"{OF_ANN}&pageToken={token}", **other).refused(400, "InvalidPaginationToken")
    use_settings(monkeypatch, enable_default_project=False)
    assert manage("ann").get(OF_ANN).refused(400, "ProjectIdMissing")


def test_an_inactive_warehouse_hides_its_contents(granted: Refs, manage: Callable[[str], CallerClient]) -> None:
    Warehouse.objects.update(status="inactive")
    assert kinds(reported(manage("root").get(OF_ANN))) == ["project", "warehouse", "tag-definition"]
    assert kinds(reported(manage("ann").get(OF_ANN))) == ["project", "warehouse", "tag-definition"]
    for kind in (T.WAREHOUSE, T.TABLE):  # at their own paths both exist
        assert len(reported(manage("root").get(f"{path_of(granted[kind])}/grants?principalUser=oidc~ann"))) == 1
    Warehouse.objects.update(status="active")
    assert len(reported(manage("root").get(OF_ANN))) == len(PRIVILEGES)


def test_ended_grants_are_left_out_and_future_ends_are_shown(
    granted: Refs, manage: Callable[[str], CallerClient]
) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    Grant.objects.filter(user_id="oidc~ann", privilege="select").update(expires_at=later)
    Grant.objects.filter(user_id="oidc~ann", privilege="modify").update(expires_at=later - timedelta(days=2))
    found = {each["privilege"]: each.get("expires-at") for each in reported(manage("root").get(OF_ANN))}
    assert "modify" not in found
    assert datetime.fromisoformat(found.pop("select")) == later
    assert set(found.values()) == {None}


@pytest.mark.parametrize("size", [1, 3, 40, 100])
def test_many_grants_over_pages(refs: Refs, manage: Callable[[str], CallerClient], size: int) -> None:
    give("describe", refs[T.PROJECT], user("ann"))
    there = [ObjectRef(T.NAMESPACE, new_id()) for _ in range(30)]
    for ref in there:
        add_securable(*ref, parent=refs[T.WAREHOUSE])
        give("modify", ref, user("ann"))
    response, found, pages = manage("root").get(f"{OF_ANN}&pageSize={size}"), [], 0
    while True:
        found += reported(response)
        pages += 1
        token = response.json().get("next-page-token")
        if token is None:
            break
        assert len(reported(response)) == size
        response = manage("root").get(f"{OF_ANN}&pageSize={size}&pageToken={token}")
    assert [each["resource"].get("namespace-id") for each in found] == [None, *(str(ref[1]) for ref in there)]
    assert pages == -(-31 // size)


def test_a_page_costs_the_same_however_much_is_on_it(granted: Refs, manage: Callable[[str], CallerClient]) -> None:
    root = manage("root")
    root.get(OF_ANN)
    with counting() as few:
        assert len(reported(root.get(f"{OF_ANN}&pageSize=5"))) == 5
    with counting() as many:
        assert len(reported(root.get(OF_ANN))) == 7
    assert few == many


def test_removed_privileges_are_reported(granted: Refs, manage: Callable[[str], CallerClient]) -> None:
    Grant.objects.filter(securable_id=securable_id(*granted[T.TABLE])).update(privilege="fly")
    found = {each["privilege"]: each["recognized"] for each in reported(manage("root").get(OF_ANN))}
    assert [privilege for privilege, known in found.items() if not known] == ["fly"]


def test_a_user_must_be_named(granted: Refs, manage: Callable[[str], CallerClient]) -> None:
    assert manage("root").get("/grants").refused(400, "MissingGrantPrincipal")
    assert manage("root").get("/grants?pageSize=1").refused(400, "MissingGrantPrincipal")
    both = f"{OF_ANN}&principalRole={NO_ONE}"
    assert manage("root").get(both).refused(400, "AmbiguousGrantPrincipal")


def test_it_is_reported_whatever_the_backend(
    granted: Refs, manage: Callable[[str], CallerClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = manage("bob")
    with monkeypatch.context() as patched:
        patched.setattr("tenancy.authz.port.authorizer", port.AllowAll)
        assert len(reported(root.get(OF_ANN))) == len(PRIVILEGES)
        table = f"{path_of(granted[T.TABLE])}/grants"
        assert root.post(table, {"writes": [{"privilege": "modify", "principal": {"user": "oidc~bob"}}]}).status == 204
        assert len(reported(root.get(table))) == 3
