"""Invalid grant changes, and requests for grants on missing objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenancy.models import Grant, User
from tests.authz.grant_change_fixtures import ANN, LATER, Refs, entry
from tests.authz.object_path_fixtures import HOSTILE, MISSING, path_of
from tests.authz.tree_fixtures import T
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient
from tests.management.warehouse_request_fixtures import NO_ONE

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("builtin")]

MANY = [entry("select", {"user": f"oidc~u{n}"}) for n in range(101)]
BAD_BODIES: list[tuple[Any, str]] = [
    (None, "BadRequestException"), ([], "BadRequestException"), ("x", "BadRequestException"),
    ({}, "EmptyGrantDiff"), ({"writes": [], "deletes": []}, "EmptyGrantDiff"), ({"writes": []}, "EmptyGrantDiff"),
    ({"writes": None}, "BadRequestException"), ({"writes": {}}, "BadRequestException"),
    ({"writes": "select"}, "BadRequestException"), ({"writes": [None]}, "BadRequestException"),
    ({"writes": ["select"]}, "BadRequestException"), ({"writes": [[]]}, "BadRequestException"),
    ({"writes": [entry("select")], "delete": []}, "BadRequestException"),
    ({"Writes": [entry("select")]}, "BadRequestException"),
    ({"writes": [entry("select", resource={"type": "table"})]}, "BadRequestException"),
    ({"writes": [entry("select", recognized=True)]}, "BadRequestException"),
    ({"writes": [entry("select", expires_at=LATER.isoformat())]}, "BadRequestException"),
    ({"deletes": [entry("select", **{"expires-at": LATER.isoformat()})]}, "BadRequestException"),
    ({"writes": [{"privilege": "select"}]}, "BadRequestException"),
    ({"writes": [{"principal": ANN}]}, "BadRequestException"),
    ({"writes": [entry("select", {})]}, "BadRequestException"),
    ({"writes": [{"privilege": "select", "principal": None}]}, "BadRequestException"),
    ({"writes": [{"privilege": "select", "principal": "oidc~ann"}]}, "BadRequestException"),
    ({"writes": [entry("select", {"user": "oidc~ann", "role": NO_ONE})]}, "BadRequestException"),
    ({"writes": [entry("select", {"user": None})]}, "BadRequestException"),
    ({"writes": [entry("select", {"user": 7})]}, "BadRequestException"),
    ({"writes": [entry("select", {"group": "x"})]}, "BadRequestException"),
    ({"writes": [entry("select", {"user": "ann"})]}, "InvalidUserIdError"),
    ({"writes": [entry("select", {"user": "oidc~" + "x" * 200})]}, "UserIdTooLongError"),
    ({"writes": [entry("select", {"user": "oidc~a\u202eb"})]}, "InvalidUserIdError"),
    ({"writes": [entry("select", {"user": "oidc~a\x00b"})]}, "BadRequestException"),
    ({"writes": [entry("select", {"role": "team"})]}, "BadRequestException"),
    ({"writes": [entry("select", {"role": f"{{{NO_ONE}}}"})]}, "BadRequestException"),
    ({"writes": [entry("select", {"user": "oidc~unknown"})]}, "GrantUserNotFound"),
    ({"writes": [entry("select", {"role": NO_ONE})]}, "GrantRoleNotInProject"),
    ({"writes": [{"privilege": None, "principal": ANN}]}, "BadRequestException"),
    ({"writes": [{"privilege": 7, "principal": ANN}]}, "BadRequestException"),
    ({"writes": [entry("")]}, "InvalidGrantPrivilegeLength"), ({"deletes": [entry("")]}, "InvalidGrantPrivilegeLength"),
    ({"writes": [entry("x" * 257)]}, "InvalidGrantPrivilegeLength"),
    ({"deletes": [entry("x" * 257)]}, "InvalidGrantPrivilegeLength"),
    ({"writes": [entry("x" * 256)]}, "InvalidGrantPrivilege"), ({"writes": [entry("fly")]}, "InvalidGrantPrivilege"),
    ({"writes": [entry("SELECT")]}, "InvalidGrantPrivilege"), ({"writes": [entry("select ")]}, "InvalidGrantPrivilege"),
    ({"writes": [entry("create")]}, "InvalidGrantPrivilege"),
    ({"writes": [entry("s\u0435lect")]}, "InvalidGrantPrivilege"),
    ({"writes": [entry("' OR 1=1 --")]}, "InvalidGrantPrivilege"),
    ({"writes": [entry("can_drop")]}, "InvalidGrantPrivilege"),
    ({"writes": [entry("a\x00b")]}, "BadRequestException"), ({"deletes": [entry("a\x00b")]}, "BadRequestException"),
    ({"writes": [entry("select")] * 2}, "DuplicateGrantEntry"),
    ({"deletes": [entry("fly")] * 2}, "DuplicateGrantEntry"),
    ({"writes": [entry("select"), entry("select", **{"expires-at": LATER.isoformat()})]}, "DuplicateGrantEntry"),
    ({"writes": [entry("select")], "deletes": [entry("select")]}, "ContradictoryGrantDiff"),
    ({"writes": MANY}, "GrantDiffTooLarge"), ({"deletes": MANY}, "GrantDiffTooLarge"),
    ({"writes": MANY[:51], "deletes": [*MANY[51:], entry("x")]}, "GrantDiffTooLarge"),
    ({"writes": [None] * 100_000}, "GrantDiffTooLarge"),
    *(({"writes": [entry("select", **{"expires-at": bad})]}, "BadRequestException") for bad in (
        "", "soon", 7, True, [], "2027-13-01T00:00:00Z", "2027-01-01", "2027-01-01T00:00:00",
        "2027-01-01 00:00:00Z", "2027-02-30T00:00:00Z", "\u0662027-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59", "2027-01-01T00:00:00Z\x00")),
    ({"writes": [entry("select", **{"expires-at": "2001-01-01T00:00:00Z"})]}, "GrantExpired"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "wire_type"), BAD_BODIES, ids=lambda each: str(each)[:70])
def test_malformed_requests_change_nothing(
    refs: Refs, chief: CallerClient, everything: Callable[[], Fingerprint], body: Any, wire_type: str
) -> None:
    target = f"{path_of(refs[T.TABLE])}/grants"
    chief.get(target)
    before = everything()
    assert chief.post(target, body).refused(400, wire_type)
    assert everything() == before


def test_a_hundred_changes_are_few_enough(refs: Refs, chief: CallerClient) -> None:
    target = f"{path_of(refs[T.TABLE])}/grants"
    User.objects.bulk_create(User(id=f"oidc~u{n}", name=f"u{n}") for n in range(60))
    assert chief.post(target, {"writes": MANY[:60], "deletes": MANY[60:100]}).status == 204
    assert Grant.objects.filter(privilege="select").count() == 60


def test_all_is_done_or_nothing(refs: Refs, chief: CallerClient, everything: Callable[[], Fingerprint]) -> None:
    target = f"{path_of(refs[T.TABLE])}/grants"
    assert chief.post(target, {"writes": [entry("modify")]}).status == 204
    before = everything()
    bad = {"writes": [entry("select"), entry("select", {"user": "oidc~unknown"})], "deletes": [entry("modify")]}
    assert chief.post(target, bad).refused(400, "GrantUserNotFound")
    assert everything() == before


def test_the_last_administrators_keep_theirs(
    refs: Refs, chief: CallerClient, everything: Callable[[], Fingerprint]
) -> None:
    before = everything()
    for target, privilege, name in (("/server", "operator", "chief"), ("/project", "project_admin", "root")):
        change = {"deletes": [entry(privilege, {"user": f"oidc~{name}"})]}
        assert chief.post(f"{target}/grants", change).refused(409, "LastAdministrator")
    assert everything() == before


@pytest.mark.parametrize("name", ["principal", "principaluser", "principalUser%20", "pagesize", "x", "%00", "force"])
def test_parameters_that_are_not_known_are_refused(
    refs: Refs, chief: CallerClient, everything: Callable[[], Fingerprint], name: str
) -> None:
    path = path_of(refs[T.TABLE])
    chief.get(f"{path}/grants")
    before = everything()
    for target in (f"{path}/grants", f"{path}/grants/grantable-privileges", "/grants", "/grants/grantable-privileges"):
        assert chief.get(f"{target}?{name}=1").refused(400, "BadRequestException")
    assert chief.get(f"{path}/grants/grantable-privileges?pageSize=1").refused(400, "BadRequestException")
    for query in (f"{name}=1", "principalUser=oidc~ann", "pageSize=1"):
        response = chief.post(f"{path}/grants?{query}", {"writes": [entry("select")]})
        assert response.refused(400, "BadRequestException")
    assert everything() == before


@pytest.mark.parametrize(
    ("query", "wire_type"),
    [
        (f"principalUser=oidc~ann&principalRole={NO_ONE}", "AmbiguousGrantPrincipal"),
        ("principalUser=oidc~ann&principalUser=oidc~ann", "AmbiguousGrantPrincipal"),
        ("principalUser=", "EmptyUserIdError"), ("principalUser=ann", "InvalidUserIdError"),
        ("principalUser=oidc~%E2%80%AE", "InvalidUserIdError"), ("principalRole=x", "BadRequestException"),
    ],
)  # fmt: skip
def test_a_principal_is_one_user_or_one_role(refs: Refs, chief: CallerClient, query: str, wire_type: str) -> None:
    for target in (
        "/server/grants",
        f"{path_of(refs[T.TABLE])}/grants",
        "/grants",
        "/project/grants/grantable-privileges",
    ):
        assert chief.get(f"{target}?{query}").refused(400, wire_type)


@pytest.mark.parametrize("text", HOSTILE)
def test_invalid_ids_are_reported_as_missing(refs: Refs, chief: CallerClient, text: str) -> None:
    warehouse = path_of(refs[T.WAREHOUSE])
    for kind, above in (
        (T.WAREHOUSE, "/warehouse"), (T.NAMESPACE, f"{warehouse}/namespace"), (T.TABLE, f"{warehouse}/table"),
        (T.VIEW, f"{warehouse}/view"), (T.GENERIC_TABLE, f"{warehouse}/generic-table"), (T.TAG, "/tag-definition"),
    ):  # fmt: skip
        assert chief.get(f"{above}/{text}/grants").refused(404, MISSING[kind])
        assert chief.get(f"{above}/{text}/grants/grantable-privileges").refused(404, MISSING[kind])
        assert chief.post(f"{above}/{text}/grants", {"writes": [entry("select")]}).refused(404, MISSING[kind])


def test_there_are_no_other_routes(refs: Refs, chief: CallerClient) -> None:
    assert chief.get(f"{path_of(refs[T.ROLE])}/grants").refused(404, "NotFoundException")
    assert chief.get("/user/oidc~ann/grants").refused(404, "NotFoundException")
    assert chief.put("/server/grants", {}).refused(405, "MethodNotAllowedException")
    assert chief.delete("/server/grants").refused(405, "MethodNotAllowedException")
    assert chief.post("/grants", {}).refused(405, "MethodNotAllowedException")
