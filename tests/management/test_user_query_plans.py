"""A page of users, roles or members reads few rows out of thousands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from icekeeper.kernel.clock import now
from icekeeper.kernel.http.paging import MIN_ID
from icekeeper.kernel.ids import new_id
from tenancy.models import Project, Role, RoleMember, User
from tenancy.selectors import roles
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

api = ApiClient("/management/v1")
MANY, FEW, SIZE = 3_000, 50, 10


@pytest.fixture
def crowd(bootstrapped: None) -> dict[str, Any]:
    """Create many users in a role, each in many roles, and a project, a role and a user with few."""
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this: plans of SQLite have no row counts")
    full = Project.objects.get()
    small = Project.objects.create(id="small", name="small", name_key="small")
    users = User.objects.bulk_create(User(id=f"oidc~{number:05}", name=f"u{number}") for number in range(MANY))
    roles = {}
    for project, count in ((small, FEW), (full, MANY), (small, FEW)):
        created = [Role(id=new_id(), project=project, source_id=str(number)) for number in range(count)]
        for role in created:
            role.name = role.name_key = role.source_id = str(role.id)
        roles[project.pk, len(roles)] = Role.objects.bulk_create(created)
    few, many = roles[small.pk, 0], roles[full.pk, 1]
    RoleMember.objects.bulk_create(
        [
            *(RoleMember(role=many[0], user=user) for user in users),
            *(RoleMember(role=role, user=users[0]) for role in many[1:]),
            *(RoleMember(role=role, member_role=many[1]) for role in many[2:]),
            *(RoleMember(role=many[1], user=user) for user in users[1:FEW]),
            *(RoleMember(role=many[0], member_role=role) for role in many[5 : 5 + FEW]),
            *(RoleMember(role=few[0], user=user) for user in users[:FEW]),
        ]
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return {"many": many, "few": few, "users": users}


def rows_read(statement: str, params: list[Any]) -> int:
    """Return the maximum of rows that one step of the prepared plan reads, skipped rows included."""
    with connection.cursor() as settings:
        settings.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    with psycopg.Cursor(connection.connection) as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", params, prepare=True)
        row = cursor.fetchone()
    assert row is not None
    steps = list(_steps(row[0][0]["Plan"]))
    return max(step["Actual Rows"] + step.get("Rows Removed by Filter", 0) for step in steps)


def _steps(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield step
    for each in step.get("Plans", ()):
        yield from _steps(each)


def listing(target: str, *, at_page: int = 1, **headers: str) -> str:
    """Return the statement of a page of a listing, with its parameters."""
    token, queries = "", list[dict[str, str]]()
    for _ in range(at_page):
        with CaptureQueriesContext(connection) as captured:
            response = api.get(f"{target}?pageSize={SIZE}&pageToken={token}", **headers)
        assert response.status == 200, response.body
        token, queries = response.json()["next-page-token"], captured.captured_queries
    [statement] = [each["sql"] for each in queries if f"LIMIT {SIZE + 1}" in each["sql"]]
    return str(statement)


def test_pages_read_their_own_rows(crowd: dict[str, Any]) -> None:
    for at_page in (1, 3):
        assert rows_read(listing("/user", at_page=at_page), []) == SIZE + 1
        assert rows_read(listing("/role", at_page=at_page, **{"x-project-id": "small"}), []) == SIZE + 1
        # Where nearly all roles belong to one project, those of the other may be skipped.
        assert rows_read(listing("/role", at_page=at_page), []) <= SIZE + 1 + 2 * FEW
    look_at_members(crowd)
    look_at_roles_that_a_user_is_in(crowd)


def look_at_members(crowd: dict[str, Any]) -> None:
    for role, most in ((crowd["many"][0].pk, SIZE + 1), (crowd["few"][0].pk, FEW)):
        members = list(RoleMember.objects.filter(role=role).order_by("pk").values_list("pk", flat=True))
        for after in (MIN_ID, members[len(members) // 2]):
            for kind in (None, "user"):
                assert rows_read(roles._MEMBERS_OF[kind], _page_of_members(role, after)) <= most
    role = crowd["many"][0].pk
    roles_alone = rows_read(roles._MEMBERS_OF["role"], _page_of_members(role, MIN_ID))
    assert roles_alone == SIZE + 1, "the users before them are not read"


def _page_of_members(role_id: UUID, after: UUID) -> list[Any]:
    """Return the parameters of a page of members: direct members, then owners."""
    at, limit = now(), SIZE + 1
    return [role_id, after, role_id, at, limit, role_id, after, *[at] * 3, limit, limit]


def look_at_roles_that_a_user_is_in(crowd: dict[str, Any]) -> None:
    many, user = crowd["many"], crowd["users"][0].pk
    project, at, limit = many[0].project_id, now(), SIZE + 1
    held = list(RoleMember.objects.filter(user=user).order_by("pk").values_list("pk", flat=True))
    inner = list(RoleMember.objects.filter(member_role=many[1]).order_by("pk").values_list("pk", flat=True))
    for after in (MIN_ID, inner[MANY // 2]):
        joined = [many[1].pk, after, many[1].pk, project, at, limit]
        owned = [many[1].pk, after, project, *[at] * 3, limit]
        assert rows_read(roles._ROLES_OF_ROLE, [*joined, *owned, limit]) == limit
    for after in (MIN_ID, held[MANY // 2]):
        joined = [user, after, user, project, at, limit]
        owned = [user, after, project, *[at] * 3, limit]
        assert rows_read(roles._ROLES_OF_USER, [*joined, *owned, limit]) == limit


def test_all_are_listed_to_the_end(crowd: dict[str, Any]) -> None:
    full = {"x-project-id": crowd["many"][0].project_id}
    role, first = crowd["many"][0].pk, crowd["users"][0].pk
    for target, key, count in (
        ("/user", "users", MANY),
        ("/role", "roles", MANY),
        (f"/role/{role}/members", "members", MANY + FEW),
        (f"/role/{role}/members/transitive", "members", MANY + FEW + 1),
        (f"/user/{first}/roles/transitive", "roles", MANY),
    ):
        found: list[str] = []
        token: str | None = ""
        while token is not None:
            response = api.get(f"{target}?pageSize=1000&pageToken={token}", **full).json()
            found += [each["id"] for each in response[key]]
            token = response.get("next-page-token")
        assert len(found) == len(set(found)) == count, target
