"""Memberships: idempotent, all or none, without cycles, and listed at any depth."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from icekeeper.conf.groups import RoleSettings
from icekeeper.kernel.clock import now
from tenancy.actor import INTERNAL
from tenancy.models import Grant, Project, RoleMember, User
from tenancy.services.roles import create_role
from tests.harness.fingerprint import Fingerprint
from tests.management.role_member_fixtures import add, api, members_of, role, user
from tests.management.test_roles import MISSING, other_project  # noqa: F401 - a fixture

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("bootstrapped")]


def chain(length: int) -> list[dict[str, str]]:
    """Create roles, each a member of the previous one."""
    roles = [role(f"link {number}") for number in range(length)]
    for outer, inner in pairwise(roles):
        assert add(outer, inner).status == 200
    return roles


def roles_at(target: str) -> list[str]:
    response = api.get(target)
    assert response.status == 200, response.body
    return [each["id"] for each in response.json()["roles"]]


# --- add and remove --------------------------------------------------------------------------------------------------


def test_members_are_added_and_listed() -> None:
    staff, bob, devs = role("staff"), user("bob"), role("devs")
    nameless = User.objects.create(id="icekeeper~7", user_type="application")
    program = {"type": "user", "id": nameless.pk}
    response = add(staff, bob, devs, program)
    assert response.status == 200
    assert response.json() == {"members": [bob, devs, program]}
    assert api.get(f"/role/{staff['id']}/members").json() == {
        "members": [
            {**bob, "name": "Bob", "email": "bob@example.com", "user-type": "human"},
            {**program, "name": None, "user-type": "application"},
            {**devs, "name": "devs", "ident": f"lakekeeper~{devs['id']}"},
        ]
    }
    assert members_of(staff, "?type=user") == [bob["id"], program["id"]]
    assert members_of(staff, "?type=role") == [devs["id"]]
    held = {"id": staff["id"], "ident": f"lakekeeper~{staff['id']}", "name": "staff"}
    for target in (
        f"/user/{bob['id']}/roles",
        f"/user/{bob['id']}/roles/transitive",
        f"/role/{devs['id']}/member-of",
        f"/role/{devs['id']}/member-of/transitive",
    ):
        assert api.get(target).json() == {"roles": [held]}


def test_the_end_of_a_membership_is_shown() -> None:
    staff, bob, devs, carol = role("staff"), user("bob"), role("devs"), user("carol")
    for member in (bob, devs):
        entry = {"type": "assignee", member["type"]: member["id"], "expires-at": "2998-12-31T18:00:00.5-06:00"}
        assert api.post(f"/permissions/role/{staff['id']}/assignments", {"writes": [entry]}).status == 204
    add(staff, carol)
    found = api.get(f"/role/{staff['id']}/members").json()["members"]
    assert [each.get("expires-at") for each in found] == ["2999-01-01T00:00:00.500000+00:00"] * 2 + [None]
    assert "expires-at" not in found[2], "it has none"
    assigned = api.get(f"/permissions/role/{staff['id']}/assignments").json()["assignments"]
    assert [each.get("expires-at") for each in assigned if each["type"] == "assignee"] == [
        each.get("expires-at") for each in found
    ]
    assert [each["id"] for each in found if "expires-at" in each] == [bob["id"], devs["id"]]
    through = api.get(f"/role/{staff['id']}/members/transitive").json()["members"]
    assert not any("expires-at" in each for each in through), "there may be several paths"
    add(staff, bob)
    assert (
        api.get(f"/role/{staff['id']}/members?type=user").json()["members"][0]["expires-at"] == found[0]["expires-at"]
    )


def test_ended_grants_are_not_shown() -> None:
    staff, devs, inner, bob, eve = role("staff"), role("devs"), role("inner"), user("bob"), user("eve")
    add(devs, inner, eve)
    for member in (bob, devs):
        entry = {"type": "assignee", member["type"]: member["id"], "expires-at": "2999-01-01T00:00:00Z"}
        assert api.post(f"/permissions/role/{staff['id']}/assignments", {"writes": [entry]}).status == 204
    everywhere = [
        f"/role/{inner['id']}/member-of/transitive",
        f"/role/{devs['id']}/member-of",
        f"/user/{bob['id']}/roles",
        f"/user/{bob['id']}/roles/transitive",
        f"/user/{eve['id']}/roles/transitive",
    ]
    assert [staff["id"] in roles_at(each) for each in everywhere] == [True] * 5
    assert len(members_of(staff)) == 2
    assert len(members_of(staff, "/transitive")) == 4
    RoleMember.objects.filter(role_id=staff["id"]).update(expires_at=now())
    assert [staff["id"] in roles_at(each) for each in everywhere] == [False] * 5
    assert members_of(staff) == members_of(staff, "/transitive") == []


def test_putting_in_again_changes_nothing(everything: Callable[[], Fingerprint]) -> None:
    staff, bob, devs = role("staff"), user("bob"), role("devs")
    add(staff, bob, devs)
    before = everything()
    shouted = {"type": "role", "id": devs["id"].upper()}
    assert add(staff, bob, shouted, bob, devs, bob).json() == {"members": [bob, devs]}
    assert add(staff).json() == {"members": []}
    assert everything() == before
    carol = user("carol")
    assert add(staff, bob, carol, carol).json() == {"members": [bob, carol]}
    assert RoleMember.objects.count() == 3


def test_members_are_removed_idempotently() -> None:
    staff, devs, bob = role("staff"), role("devs"), user("a/b~c d")
    carol = user("carol")
    add(staff, devs, bob, carol)
    for _ in range(2):
        assert api.delete(f"/role/{staff['id']}/members/user/{quote(bob['id'], safe='')}").status == 204
        assert members_of(staff) == [carol["id"], devs["id"]]
    for _ in range(2):
        assert api.delete(f"/role/{staff['id']}/members/role/{devs['id'].upper()}").status == 204
        assert members_of(staff) == [carol["id"]]
    assert api.delete(f"/role/{staff['id']}/members/user/oidc~unknown").status == 204
    assert api.delete(f"/role/{staff['id']}/members/role/{MISSING}").status == 204
    assert members_of(staff) == [carol["id"]]


def test_only_the_member_of_that_type_is_removed(everything: Callable[[], Fingerprint]) -> None:
    staff, devs, bob = role("staff"), role("devs"), user("bob")
    add(staff, devs, bob)
    before = everything()
    target = f"/role/{staff['id']}/members"
    assert api.delete(f"{target}/user/{devs['id']}").refused(400, "InvalidUserIdError")
    assert api.delete(f"{target}/role/{bob['id']}").refused(400, "BadRequestException")
    assert api.delete(f"{target}/group/{bob['id']}").refused(400, "BadRequestException", "group")
    assert api.delete(f"{target}/user/oidc~").refused(400, "EmptyUserIdError")
    assert api.delete(f"{target}/user").refused(404, "NotFoundException")
    assert api.delete(target).refused(405, "MethodNotAllowedException")
    assert everything() == before


@pytest.mark.parametrize(
    ("bad", "status", "wire_type"),
    [
        ({"type": "user", "id": "oidc~unknown"}, 404, "RoleAssignmentUserNotFound"),
        ({"type": "user", "id": "unknown"}, 400, "InvalidUserIdError"),
        ({"type": "user", "id": "oidc~" + "x" * 10_000}, 400, "UserIdTooLongError"),
        ({"type": "user", "id": "oidc~a\x00"}, 400, "BadRequestException"),
        ({"type": "role", "id": MISSING}, 404, "RoleNotFoundInProject"),
        ({"type": "role", "id": "staff"}, 400, "BadRequestException"),
        ({"type": "role", "id": "{" + MISSING + "}"}, 400, "BadRequestException"),
        ({"type": "role"}, 400, "BadRequestException"),
        ({"id": "oidc~bob"}, 400, "BadRequestException"),
        ({"type": "group", "id": "oidc~bob"}, 400, "BadRequestException"),
        ({"type": None, "id": None}, 400, "BadRequestException"),
        ({"type": "user", "id": 7}, 400, "BadRequestException"),
        ("oidc~bob", 400, "BadRequestException"),
        (None, 400, "BadRequestException"),
    ],
)
def test_one_bad_member_keeps_all_out(
    everything: Callable[[], Fingerprint], bad: Any, status: int, wire_type: str
) -> None:
    staff, bob, devs = role("staff"), user("bob"), role("devs")
    before = everything()
    for members in ([bob, devs, bad], [bad, bob, devs]):
        assert add(staff, *members).refused(status, wire_type)
    assert everything() == before


@pytest.mark.parametrize("body", [None, [], {}, {"members": None}, {"members": {}}, {"members": "x"}])
def test_bodies_without_members(body: Any) -> None:
    staff = role("staff")
    assert api.post(f"/role/{staff['id']}/members", body).refused(400, "BadRequestException")


def test_a_request_has_a_thousand_members_at_most() -> None:
    staff = role("staff")
    User.objects.bulk_create(User(id=f"oidc~{number}", name="x") for number in range(1001))
    crowd = [{"type": "user", "id": f"oidc~{number}"} for number in range(1001)]
    assert add(staff, *crowd).refused(400, "BadRequestException", "1000")
    assert not RoleMember.objects.exists()
    assert add(staff, *crowd[:1000]).status == 200
    assert RoleMember.objects.count() == 1000


def test_a_role_of_another_project_is_no_member(
    other_project: Project,  # noqa: F811
    everything: Callable[[], Fingerprint],
) -> None:
    staff, bob = role("staff"), user("bob")
    stranger = create_role(actor=INTERNAL, project=other_project, name="stranger")
    ref = {"type": "role", "id": str(stranger.pk)}
    before = everything()
    assert add(staff, bob, ref).refused(404, "RoleNotFoundInProject", ref["id"])
    response = api.post(f"/role/{ref['id']}/members", {"members": [staff]}, **{"x-project-id": "other"})
    assert response.refused(404, "RoleNotFoundInProject", staff["id"])
    assert everything() == before
    both = {"x-project-id": "other"}
    assert api.post(f"/role/{ref['id']}/members", {"members": [bob]}, **both).status == 200
    assert roles_at("/user/oidc~bob/roles") == []
    assert roles_at("/user/oidc~bob/roles/transitive") == []
    assert [each["id"] for each in api.get("/user/oidc~bob/roles", **both).json()["roles"]] == [ref["id"]]


# --- chains --------------------------------------------------------------------------------------------------------


def test_no_role_is_in_itself(everything: Callable[[], Fingerprint]) -> None:
    a, b, c = chain(3)
    bob = user("bob")
    before = everything()
    for outer, inner in ((a, a), (b, a), (c, a), (c, b), (c, c)):
        assert add(outer, bob, inner).refused(409, "RoleMembershipCycle", inner["id"])
    assert everything() == before
    assert add(a, c).status == 200, "two paths are no cycle"


def test_chains_have_a_length(monkeypatch: pytest.MonkeyPatch, everything: Callable[[], Fingerprint]) -> None:
    roles = chain(11)
    top, bottom, bob = role("top"), role("bottom"), user("bob")
    before = everything()
    assert add(top, roles[0]).refused(409, "RoleMembershipDepthExceeded")
    assert add(roles[10], bottom).refused(409, "RoleMembershipDepthExceeded")
    assert everything() == before
    assert add(roles[9], bottom).status == 200
    assert add(roles[10], bob).status == 200, "users do not add to the depth"
    assert add(top, roles[1]).status == 200
    assert add(top, top | {"id": roles[5]["id"]}).status == 200
    short = settings.ICEKEEPER.model_copy(update={"role": RoleSettings(max_nesting_depth=2)})
    monkeypatch.setattr(settings, "ICEKEEPER", short)
    assert add(roles[3], roles[4]).status == 200, "existing memberships are kept"
    assert add(role("new"), roles[9]).status == 200
    assert add(role("newer"), roles[8]).refused(409, "RoleMembershipDepthExceeded")
    assert api.delete(f"/role/{roles[3]['id']}/members/role/{roles[4]['id']}").status == 204


def test_the_depth_of_a_chain_is_checked_in_the_middle() -> None:
    upper, lower = chain(6), [role(f"low {number}") for number in range(6)]
    for outer, inner in pairwise(lower):
        add(outer, inner)
    assert add(upper[5], lower[0]).refused(409, "RoleMembershipDepthExceeded"), "5 + 1 + 5"
    assert add(upper[4], lower[0]).status == 200


def test_every_member_of_a_role_is_listed_once() -> None:
    a, b, c, d = (role(name) for name in "abcd")
    bob, carol, dave = user("bob"), user("carol"), user("dave")
    for outer, *inner in ((a, b, c, bob), (b, d, carol, bob), (c, d), (d, dave, bob)):
        assert add(outer, *inner).status == 200
    assert members_of(a, "/transitive") == [b["id"], c["id"], d["id"], bob["id"], carol["id"], dave["id"]]
    assert members_of(a, "/transitive?type=user") == [bob["id"], carol["id"], dave["id"]]
    assert members_of(a, "/transitive?type=role") == [b["id"], c["id"], d["id"]]
    assert members_of(d, "/transitive") == [bob["id"], dave["id"]]
    assert roles_at(f"/role/{d['id']}/member-of") == [b["id"], c["id"]]
    assert roles_at(f"/role/{d['id']}/member-of/transitive") == [a["id"], b["id"], c["id"]]
    assert roles_at(f"/user/{dave['id']}/roles") == [d["id"]]
    assert roles_at(f"/user/{dave['id']}/roles/transitive") == [a["id"], b["id"], c["id"], d["id"]]
    direct, deep = (api.get(f"/role/{a['id']}/members{rest}").json()["members"] for rest in ("", "/transitive"))
    by_id = {member["id"]: member for member in deep}
    assert [by_id[member["id"]] for member in direct] == direct, "shown equally"


def own(outer: dict[str, str], *owners: dict[str, str], expires_at: datetime | None = None) -> None:
    """Grant users and roles the ownership of a role."""
    for owner in owners:
        Grant.objects.create_on(
            securable_id=f"role:{outer['id']}",
            privilege="ownership",
            owned_role_id=outer["id"],
            expires_at=expires_at,
            **{f"{owner['type']}_id": owner["id"]},
        )


def entries_at(target: str, key: str) -> list[tuple[str, str]]:
    plain, response = api.get(target), api.get(target, **{"x-icekeeper-extensions": "true"})
    assert (plain.status, response.status) == (200, 200), response.body
    assert plain.json()[key] == [
        {name: value for name, value in each.items() if name not in {"entry", "origin"}}
        for each in response.json()[key]
    ]
    for each in response.json()[key]:
        user = User.objects.filter(pk=each["id"]).first() if each.get("type") == "user" else None
        assert each.get("origin") == (user.origin if user is not None else None)
    return [(each["id"], each["entry"]) for each in response.json()[key]]


def test_owners_are_members_in_every_list() -> None:
    a, b, c = (role(name) for name in "abc")
    ann, bob, carol, dan, eve = (user(name) for name in ("ann", "bob", "carol", "dan", "eve"))
    assert add(a, ann, bob).status == 200
    own(a, b, bob, carol)
    own(b, dan)
    assert add(c, a).status == 200
    RoleMember.objects.create(role_id=a["id"], user_id=eve["id"], expires_at=now() - timedelta(seconds=1))
    own(a, eve)
    own(a, user("expired"), expires_at=now() - timedelta(seconds=1))
    member, owner = "member", "owner"
    assert entries_at(f"/role/{a['id']}/members", "members") == [
        (ann["id"], member), (bob["id"], member), (b["id"], owner), (carol["id"], owner), (eve["id"], owner)
    ]  # fmt: skip
    assert members_of(a, "?type=role") == [b["id"]]
    assert members_of(a, "?type=user") == [each["id"] for each in (ann, bob, carol, eve)]
    assert entries_at(f"/role/{a['id']}/members/transitive", "members") == [
        (b["id"], owner), (ann["id"], member), (bob["id"], member), (carol["id"], owner), (dan["id"], owner),
        (eve["id"], owner),
    ]  # fmt: skip
    assert entries_at(f"/role/{c['id']}/members/transitive", "members")[:2] == [(a["id"], member), (b["id"], owner)]
    assert members_of(c, "/transitive?type=user") == [each["id"] for each in (ann, bob, carol, dan, eve)]
    assert entries_at(f"/role/{b['id']}/member-of", "roles") == [(a["id"], owner)]
    assert entries_at(f"/role/{b['id']}/member-of/transitive", "roles") == [(a["id"], owner), (c["id"], member)]
    assert entries_at(f"/user/{bob['id']}/roles", "roles") == [(a["id"], member)]
    assert entries_at(f"/user/{carol['id']}/roles", "roles") == [(a["id"], owner)]
    assert entries_at(f"/user/{dan['id']}/roles", "roles") == [(b["id"], owner)]
    assert entries_at(f"/user/{dan['id']}/roles/transitive", "roles") == [
        (a["id"], owner), (b["id"], owner), (c["id"], member)
    ]  # fmt: skip


def test_lists_with_owners_have_pages() -> None:
    outer, users = role("outer"), [user(f"user{number}") for number in range(7)]
    assert add(outer, users[0], users[2], users[4]).status == 200
    own(outer, *users)
    listed = [users[number]["id"] for number in (0, 2, 4, 1, 3, 5, 6)]
    assert pages_of(f"/role/{outer['id']}/members", "members") == listed
    assert pages_of(f"/role/{outer['id']}/members/transitive", "members") == sorted(listed)
    others = [role(f"role{number}") for number in range(5)]
    for each in others[:2]:
        assert add(each, users[0]).status == 200
    for each in others[1:]:
        own(each, users[0])
    expected = [outer["id"], *(each["id"] for each in others)]
    assert pages_of(f"/user/{users[0]['id']}/roles", "roles") == expected
    assert pages_of(f"/user/{users[0]['id']}/roles/transitive", "roles") == expected


def test_roles_of_another_project_that_a_role_owns_are_listed_there(other_project: Project) -> None:  # noqa: F811
    here = role("here")
    there = {"type": "role", "id": str(create_role(actor=INTERNAL, project=other_project, name="there").pk)}
    own(there, here)
    for rest in ("", "/transitive"):
        assert roles_at(f"/role/{here['id']}/member-of{rest}") == []
    response = api.get(f"/role/{there['id']}/members", **{"x-project-id": "other"})
    assert [each["id"] for each in response.json()["members"]] == [here["id"]]


def test_removing_an_owner_from_the_members_leaves_the_ownership(everything: Callable[[], Fingerprint]) -> None:
    outer, bob = role("outer"), user("bob")
    own(outer, bob)
    before = everything()
    assert api.delete(f"/role/{outer['id']}/members/user/oidc~bob").status == 204
    assert everything() == before
    assert members_of(outer) == [bob["id"]]


@pytest.mark.parametrize("rest", ["transitive", "direct"])
def test_listings_add_one_statement_to_those_of_the_path(rest: str) -> None:
    roles = chain(8)
    bob = user("bob")
    add(roles[7], bob)
    suffix = "/transitive" if rest == "transitive" else ""
    of_role, of_user = 2, 3  # the project and the named object; for users also the server, whose grants count
    for target, extra in (
        (f"/role/{roles[0]['id']}/members{suffix}", of_role),
        (f"/role/{roles[7]['id']}/member-of{suffix}", of_role),
        (f"/user/oidc~bob/roles{suffix}", of_user),
    ):
        with CaptureQueriesContext(connection) as captured:
            api.get(target)
        listing = [each for each in captured.captured_queries if "tenancy_rolemember" in each["sql"]]
        # Django does not capture prepared statements of PostgreSQL.
        assert len(captured) - len(listing) == extra
        assert len(listing) <= 1


def pages_of(target: str, key: str) -> list[str]:
    found, token = [], ""
    while True:
        response = api.get(f"{target}{'&' if '?' in target else '?'}pageSize=3&pageToken={token}").json()
        assert len(response[key]) == 3 or "next-page-token" not in response
        found += [each["id"] for each in response[key]]
        token = response.get("next-page-token")
        if token is None:
            return found


def test_listings_have_pages() -> None:
    top = role("top")
    inner = [role(f"inner {number}") for number in range(7)]
    crowd = [user(f"u{number}") for number in range(8)]
    add(top, *crowd[:4], *inner[:4])
    add(top, *inner[4:], *crowd[4:])
    for each in inner:
        add(each, crowd[0])
    target = f"/role/{top['id']}/members"
    for rest in ("", "?type=user", "?type=role", "/transitive", "/transitive?type=user", "/transitive?type=role"):
        assert pages_of(target + rest, "members") == members_of(top, rest)
        expected = [*inner, *crowd] if "type" not in rest else inner if "role" in rest else crowd
        assert sorted(members_of(top, rest)) == sorted(each["id"] for each in expected)
    for rest in ("", "/transitive"):
        assert pages_of(f"/user/oidc~u0/roles{rest}", "roles") == roles_at(f"/user/oidc~u0/roles{rest}")
        assert len(roles_at(f"/user/oidc~u0/roles{rest}")) == 8


def test_insertion_moves_no_page() -> None:
    top = role("top")
    add(top, *(user(f"u{number}") for number in range(4)))
    first = api.get(f"/role/{top['id']}/members?pageSize=2").json()
    add(top, user("u00"), role("late"))
    api.delete(f"/role/{top['id']}/members/user/oidc~u1")
    rest = members_of(top, f"?pageToken={first['next-page-token']}")
    assert rest[:3] == ["oidc~u2", "oidc~u3", "oidc~u00"]
    assert len(rest) == 4


def test_page_tokens_are_valid_for_their_listing_only() -> None:
    top, side = role("top"), role("side")
    crowd = [user(f"u{number}") for number in range(3)]
    inner = [role(f"i{number}") for number in range(3)]
    for outer in (top, side):
        add(outer, *crowd, *inner)
    targets = [
        f"/role/{outer['id']}/members{rest}"
        for outer in (top, side)
        for rest in ("?", "?type=user&", "?type=role&", "/transitive?", "/transitive?type=user&")
    ]
    targets += [f"/user/{each['id']}/roles{rest}?" for each in crowd[:2] for rest in ("", "/transitive")]
    targets += [f"/role/{each['id']}/member-of{rest}?" for each in inner[:2] for rest in ("", "/transitive")]
    tokens = {target: api.get(f"{target}pageSize=1").json()["next-page-token"] for target in targets}
    for target in targets:
        for issuer, token in tokens.items():
            response = api.get(f"{target}pageToken={token}")
            if issuer == target:
                assert response.status == 200
            else:
                assert response.refused(400, "InvalidPaginationToken")
    assert api.get(f"/role/{top['id']}/members?type=group").refused(400, "BadRequestException", "group")
    assert api.get(f"/role/{top['id']}/members?type=").refused(400, "BadRequestException")
