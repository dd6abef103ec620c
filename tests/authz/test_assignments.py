"""The older assignments API: authorized reads, strict changes, all or nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from tenancy.audit.collector import collector
from tenancy.authz.actions import privileges_on
from tenancy.models import AuditRecord, Grant, Role, RoleMember, Securable, User
from tests.authz.permission_fixtures import (
    FORBIDDEN,
    MISSING,
    NO_ONE,
    SHOWS,
    WEAKEST,
    Everything,
    Things,
    new_role,
    other_project,
    to_role,
    to_user,
)
from tests.harness.log_lines import log_lines
from tests.harness.named_callers import CallerClient

pytestmark = pytest.mark.django_db

T = Securable.Type
KINDS = list(WEAKEST)
HIDDEN = [kind for kind in KINDS if kind in MISSING]
LATER = "2999-01-01T00:00:00Z"


def assigned(client: CallerClient, path: str, query: str = "") -> list[dict[str, Any]]:
    response = client.get(f"{path}/assignments{query}")
    assert response.status == 200, response.body
    found: list[dict[str, Any]] = response.json()["assignments"]
    return found


def write(client: CallerClient, path: str, *entries: dict[str, Any]) -> None:
    response = client.post(f"{path}/assignments", {"writes": list(entries)})
    assert (response.status, response.body) == (204, b""), response.body


# --- reported assignments
# ----------------------------------------------------------------------------------------------


def reported_to_strangers(kind: Securable.Type) -> str:
    """A warehouse that is hidden from the caller does not reveal which of its objects exist."""
    inside = {T.TABLE, T.VIEW, T.GENERIC_TABLE}  # namespaces are named without one here
    return "NoSuchWarehouseException" if kind in inside else MISSING[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_every_privilege_is_granted_listed_and_revoked(things: Things, kind: Securable.Type) -> None:
    manager, path = things.manager(kind), things.path(kind)
    things.client("dana")
    team = new_role("readers")
    before = assigned(manager, path)
    names = [each.name for each in privileges_on(kind)]
    entries = [entry for name in names for entry in (to_user(name, "dana"), to_role(name, team))]
    write(manager, path, *entries)
    response = manager.get(f"{path}/assignments")
    reported = response.json()
    assert sorted(map(repr, reported["assignments"])) == sorted(map(repr, [*before, *entries]))
    assert reported.keys() == {"assignments"} | ({"project-id"} if kind is T.PROJECT else set())
    if kind is T.PROJECT:
        assert reported["project-id"] == things.refs[kind][1]
    for name in names:
        only = assigned(manager, path, f"?relations={name}")
        assert {each["type"] for each in only} == {name}
        assert [each for each in only if each not in before] == [to_user(name, "dana"), to_role(name, team)]
    two = assigned(manager, path, f"?relations={names[0]}&relations%5B%5D={names[-1]}")
    assert {each["type"] for each in two} == {names[0], names[-1]}
    assert manager.post(f"{path}/assignments", {"deletes": reported["assignments"][len(before) :]}).status == 204
    assert assigned(manager, path) == before


def test_a_project_is_named_by_header_or_in_the_path(things: Things) -> None:
    project = other_project()
    things.client("dana")
    operator = things.manager(T.SERVER)
    here, header = f"/project/{project.pk}/assignments", {"x-project-id": project.pk}
    assert operator.post(here, {"writes": [to_user("select", "dana")]}).status == 204
    expected = {"assignments": [to_user("select", "dana")], "project-id": "other"}
    for response in (operator.get(here), operator.get("/project/assignments", **header)):
        assert (response.status, response.json()) == (200, expected)
    assert operator.get("/project/assignments").json()["project-id"] == things.refs[T.PROJECT][1]
    assert operator.post("/project/assignments", {"deletes": [to_user("select", "dana")]}, **header).status == 204
    assert operator.get("/project/no/assignments").refused(404, "ProjectNotFound")
    assert operator.get("/project/a%2Fb/assignments").refused(400, "MalformedProjectID")


def test_what_follows_from_other_grants_is_not_listed(things: Things) -> None:
    manager = things.manager(T.TABLE)
    things.client("dana")
    write(manager, things.path(T.NAMESPACE), to_user("modify", "dana"))
    assert [each for each in assigned(manager, things.path(T.TABLE)) if each.get("user") == "oidc~dana"] == []


def test_everything_is_listed_at_once_unless_a_page_is_requested(things: Things) -> None:
    manager, path = things.manager(T.WAREHOUSE), things.path(T.WAREHOUSE)
    before = assigned(manager, path)
    for name in ("dana", "erik", "finn"):
        things.client(name)
        write(manager, path, to_user("select", name))
    everything = assigned(manager, path)
    assert everything == [*before, *(to_user("select", name) for name in ("dana", "erik", "finn"))]
    seen, token, calls = [], "", 0
    while True:
        page = manager.get(f"{path}/assignments?pageSize=2&pageToken={token}").json()
        seen += page["assignments"]
        calls += 1
        if "next-page-token" not in page:
            break
        token = page["next-page-token"]
    assert seen == everything
    assert calls == (len(everything) + 1) // 2
    other = things.path(T.NAMESPACE)
    for target in (f"{other}/assignments?pageToken={token}", f"{path}/assignments?relations=select&pageToken={token}"):
        assert manager.get(target).refused(400, "InvalidPaginationToken")
    assert manager.get(f"{path}/assignments?pageSize=0").refused(400, "BadRequestException", "pageSize")


# --- who may ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_users_without_sight_of_it_get_the_error_of_a_missing_object(
    things: Things, kind: Securable.Type, everything: Everything
) -> None:
    stranger = things.client("stranger")
    before = everything()
    bodies: list[Any] = [
        {"writes": [to_user(WEAKEST[kind], "stranger")]},
        {"deletes": [to_user(WEAKEST[kind], "stranger")]},
        {"writes": [to_user(WEAKEST[kind], "stranger", **{"expires-at": "2001-01-01T00:00:00Z"})]},
        {"writes": [{"type": WEAKEST[kind], "role": str(things.role.pk)}]},
    ]
    if kind not in HIDDEN:
        assert stranger.get(f"{things.path(kind)}/assignments").refused(403, FORBIDDEN[kind])
        for body in bodies[:2]:
            assert stranger.post(f"{things.path(kind)}/assignments", body).refused(403, "GrantActionForbidden")
        assert everything() == before
        return
    messages = []
    for path, named in ((things.path(kind), things.public_id(kind)), (things.path(kind, NO_ONE), NO_ONE)):
        responses = [stranger.get(f"{path}/assignments")]
        responses += [stranger.post(f"{path}/assignments", body) for body in [*bodies, {}]]
        assert all(each.refused(404, reported_to_strangers(kind)) for each in responses)
        messages.append([each.error["message"].replace(named, "ID") for each in responses])
    assert messages[0] == messages[1]
    assert everything() == before


@pytest.mark.parametrize("kind", [kind for kind in SHOWS if kind in FORBIDDEN])
def test_seeing_an_object_does_not_allow_reading_its_grants(
    things: Things, kind: Securable.Type, everything: Everything
) -> None:
    viewer = things.with_right("viewer", SHOWS[kind])
    before = everything()
    path = things.path(kind)
    assert viewer.get(f"{path}/assignments").refused(403, FORBIDDEN[kind])
    for part in ("writes", "deletes"):
        response = viewer.post(f"{path}/assignments", {part: [to_user(WEAKEST[kind], "viewer")]})
        assert response.refused(403, "GrantActionForbidden", WEAKEST[kind])
    assert everything() == before


def test_viewers_of_a_role_may_read_its_members_and_not_change_them(things: Things, everything: Everything) -> None:
    viewer, path = things.with_right("viewer", SHOWS[T.ROLE]), things.path(T.ROLE)
    before = everything()
    assert assigned(viewer, path) == []
    response = viewer.post(f"{path}/assignments", {"writes": [to_user("assignee", "viewer")]})
    assert response.refused(403, "GrantActionForbidden", "assignee")
    assert everything() == before


def test_grant_managers_without_access_to_the_object_read_and_change_grants(things: Things) -> None:
    manager, path = things.with_right("blind", ("manage_grants", T.TABLE)), things.path(T.TABLE)
    things.client("dana")
    assert to_user("manage_grants", "blind") in assigned(manager, path)
    write(manager, path, to_user("select", "dana"))
    assert to_user("select", "dana") in assigned(manager, path)


def test_each_privilege_that_is_named_must_be_one_to_grant(things: Things, everything: Everything) -> None:
    passer, path = things.with_right("passer", ("pass_grants", T.TABLE)), things.path(T.TABLE)
    things.with_right("passer", ("select", T.TABLE))
    things.client("dana")
    before = everything()
    both = [to_user("select", "dana"), to_user("modify", "dana")]
    for body in ({"writes": both}, {"writes": both[:1], "deletes": both[1:]}):
        response = passer.post(f"{path}/assignments", body)
        assert response.refused(403, "GrantActionForbidden", "modify")
        assert "select" not in response.error["message"]
    assert everything() == before
    write(passer, path, both[0])


def test_managed_access_ends_what_owners_may_grant(things: Things, everything: Everything) -> None:
    owner, path = things.with_right("owner", ("ownership", T.TABLE)), things.path(T.TABLE)
    things.client("dana")
    write(owner, path, to_user("describe", "dana"))
    Securable.objects.filter(pk=f"warehouse:{things.warehouse.pk}").update(managed_access=True)
    before = everything()
    response = owner.post(f"{path}/assignments", {"deletes": [to_user("describe", "dana")]})
    assert response.refused(403, "GrantActionForbidden")
    assert everything() == before


def test_an_assumed_role_grants_as_the_role(things: Things) -> None:
    dana, path = things.client("dana"), things.path(T.TABLE)
    team = new_role("stewards")
    write(things.manager(T.TABLE), path, to_role("manage_grants", team))
    RoleMember.objects.create(role=team, user_id="oidc~dana")
    in_role = {"x-assume-role": str(team.pk)}
    body = {"writes": [to_user("select", "dana")]}
    assert dana.post(f"{path}/assignments", body, **in_role).status == 204
    assert dana.get(f"{path}/assignments", **in_role).status == 200


# --- strict, and all or nothing --------------------------------------------------------------------------------------


def test_existing_grants_are_not_granted_again_and_missing_ones_not_revoked(
    things: Things, everything: Everything
) -> None:
    manager, path = things.manager(T.TABLE), things.path(T.TABLE)
    things.client("dana")
    write(manager, path, to_user("select", "dana"))
    before = everything()
    again, absent = to_user("select", "dana"), to_user("modify", "dana")
    for body, status, wire_type in (
        ({"writes": [absent, again]}, 409, "TupleAlreadyExistsError"),
        ({"writes": [again | {"expires-at": LATER}]}, 409, "TupleAlreadyExistsError"),
        ({"deletes": [again, absent]}, 404, "TupleNotFoundError"),
        ({"writes": [to_user("describe", "dana")], "deletes": [absent]}, 404, "TupleNotFoundError"),
        ({"deletes": [to_user("select", "unknown")]}, 404, "TupleNotFoundError"),
    ):
        assert manager.post(f"{path}/assignments", body).refused(status, wire_type), body
        assert everything() == before
    for empty in ({}, {"writes": [], "deletes": []}, {"writes": []}):
        assert manager.post(f"{path}/assignments", empty).status == 204
    assert everything() == before
    assert manager.post(f"{path}/assignments", {"writes": [absent], "deletes": [again]}).status == 204
    assert [each for each in assigned(manager, path) if each.get("user") == "oidc~dana"] == [absent]


def test_principals_must_be_there_and_roles_of_the_project(things: Things, everything: Everything) -> None:
    manager, path = things.manager(T.WAREHOUSE), things.path(T.WAREHOUSE)
    foreign = new_role("foreign", other_project())
    deleted = things.client("deleted").token
    User.objects.filter(pk=f"oidc~{deleted}").update(deleted_at=datetime.now(UTC))
    things.client("dana")
    before = everything()
    good = to_user("select", "dana")
    for entry, wire_type in (
        (to_user("select", "unknown"), "GrantUserNotFound"),
        (to_user("select", "deleted"), "GrantUserNotFound"),
        ({"type": "select", "role": NO_ONE}, "GrantRoleNotInProject"),
        (to_role("select", foreign), "GrantRoleNotInProject"),
    ):
        assert manager.post(f"{path}/assignments", {"writes": [good, entry]}).refused(400, wire_type)
        assert everything() == before
    operator = things.manager(T.SERVER)
    write(operator, "/server", to_role("admin", foreign))  # the server has roles of all projects
    write(operator, "/server", to_role("admin", things.role))


def test_a_role_is_not_in_itself_and_not_in_a_circle(things: Things, everything: Everything) -> None:
    manager, path, team = things.manager(T.ROLE), things.path(T.ROLE), things.role
    inner = new_role("inner")
    write(manager, path, to_role("assignee", inner))
    assert list(RoleMember.objects.values_list("role_id", "member_role_id")) == [(team.pk, inner.pk)]
    before = everything()
    for name in ("assignee", "ownership"):
        response = manager.post(f"{path}/assignments", {"writes": [to_role(name, team)]})
        assert response.refused(400, "SelfAssignment")
    response = manager.post(f"/role/{inner.pk}/assignments", {"writes": [to_role("assignee", team)]})
    assert response.refused(409, "RoleMembershipCycle")
    assert everything() == before


def test_one_administrator_always_remains(things: Things, everything: Everything) -> None:
    Grant.objects.filter(securable_id=f"server:{things.refs[T.SERVER][1]}").delete()
    operator = things.manager(T.SERVER)
    things.client("dana")
    before = everything()
    own = to_user("operator", "manager")
    assert operator.post("/server/assignments", {"deletes": [own]}).refused(409, "LastAdministrator")
    assert everything() == before
    ending = to_user("operator", "dana", **{"expires-at": LATER})
    response = operator.post("/server/assignments", {"writes": [ending], "deletes": [own]})
    assert response.refused(409, "LastAdministrator")
    assert everything() == before
    assert operator.post("/server/assignments", {"writes": [to_user("admin", "dana")], "deletes": [own]}).status == 204
    assert operator.get("/server/assignments").refused(403, "ServerActionForbidden")


# --- grants that end -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [T.TABLE, T.ROLE])
def test_a_grant_ends_when_it_was_said_to(things: Things, kind: Securable.Type, everything: Everything) -> None:
    manager, path, name = things.manager(kind), things.path(kind), WEAKEST[kind]
    things.client("dana")
    past = datetime.now(UTC) - timedelta(seconds=1)
    before = everything()
    for text, wire_type in (
        (past.isoformat(), "GrantExpired"),
        *((each, "BadRequestException") for each in ("tomorrow", "", 17, None, "9999-12-31T23:59:59-14:00")),
    ):
        response = manager.post(f"{path}/assignments", {"writes": [to_user(name, "dana", **{"expires-at": text})]})
        assert response.refused(400, wire_type), text
        assert everything() == before
    write(manager, path, to_user(name, "dana", **{"expires-at": "2998-12-31T18:00:00-06:00"}))
    (reported,) = (each for each in assigned(manager, path) if each.get("user") == "oidc~dana")
    assert reported == to_user(name, "dana", **{"expires-at": reported["expires-at"]})
    assert datetime.fromisoformat(reported["expires-at"]) == datetime.fromisoformat(LATER)
    rows = Grant.objects if kind is T.TABLE else RoleMember.objects
    assert rows.filter(user_id="oidc~dana").update(expires_at=past) == 1
    assert [each for each in assigned(manager, path) if each.get("user") == "oidc~dana"] == []
    response = manager.post(f"{path}/assignments", {"deletes": [to_user(name, "dana")]})
    assert response.refused(404, "TupleNotFoundError")
    write(manager, path, to_user(name, "dana"))  # ended grants are not listed
    assert rows.filter(user_id="oidc~dana").values_list("expires_at", flat=True).get() is None
    assert (
        manager.post(f"{path}/assignments", {"deletes": [to_user(name, "dana", **{"expires-at": LATER})]}).status == 204
    )
    assert not rows.filter(user_id="oidc~dana").exists()


# --- hostile ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", HIDDEN)
def test_ids_that_are_none_and_ids_of_other_things(
    things: Things, kind: Securable.Type, everything: Everything
) -> None:
    manager = things.client("manager")
    write_body = {"writes": [to_user(WEAKEST[kind], "manager")]}
    before = everything()
    own_id = things.public_id(kind)
    others = [things.public_id(each) for each in KINDS if each is not kind]
    hostile = ["no", "..%2F" + own_id, own_id.replace("-", ""), "%7B" + own_id + "%7D", "urn:uuid:" + own_id, "*",
               "%E2%80%AE" + own_id, "' OR 1=1 --".replace(" ", "%20"), own_id + "%20", "a" * 3000]  # fmt: skip
    for named in [*others, *hostile]:
        path = things.path(kind, named)
        for response in (manager.get(f"{path}/assignments"), manager.post(f"{path}/assignments", write_body)):
            assert response.refused(404, reported_to_strangers(kind)), named
    assert manager.get(f"{things.path(kind, own_id + '%00')}/assignments").refused(400, "BadRequestException", "NUL")
    assert everything() == before
    assert things.manager(kind).get(f"{things.path(kind, own_id.upper())}/assignments").status == 200


@pytest.mark.parametrize("kind", [T.TABLE, T.VIEW, T.GENERIC_TABLE])
def test_a_table_is_found_in_its_own_warehouse_alone(things: Things, kind: Securable.Type) -> None:
    manager = things.manager(kind)
    for elsewhere in (NO_ONE, str(things.refs[T.NAMESPACE][1])):
        path = things.path(kind, warehouse_id=elsewhere)
        assert manager.get(f"{path}/assignments").refused(404, "NoSuchWarehouseException")
    assert manager.get(f"{things.path(kind, warehouse_id='wh')}/assignments").refused(404, "NoSuchWarehouseException")


ENTRY = {"type": "select", "user": "oidc~dana"}


@pytest.mark.parametrize(
    ("body", "wire_type", "text"),
    [
        (None, "BadRequestException", ""),
        ([], "BadRequestException", ""),
        ({"writes": None}, "BadRequestException", "writes"),
        ({"writes": {}}, "BadRequestException", "writes"),
        ({"writes": ["select"]}, "BadRequestException", "writes"),
        ({"writes": [{}]}, "BadRequestException", "type"),
        ({"writes": [{"type": "select"}]}, "BadRequestException", "writes[0]"),
        ({"writes": [ENTRY | {"role": NO_ONE}]}, "BadRequestException", "writes[0]"),
        ({"writes": [ENTRY | {"user": None}]}, "BadRequestException", "user"),
        ({"writes": [ENTRY | {"user": ""}]}, "BadRequestException", "user"),
        ({"writes": [ENTRY | {"user": 7}]}, "BadRequestException", "user"),
        ({"writes": [ENTRY | {"user": "dana"}]}, "InvalidUserIdError", ""),
        ({"writes": [ENTRY | {"user": "oidc~"}]}, "EmptyUserIdError", ""),
        ({"writes": [ENTRY | {"user": "oidc~" + "a" * 128}]}, "UserIdTooLongError", ""),
        ({"writes": [ENTRY | {"user": "oidc~da\u202ena"}]}, "InvalidUserIdError", ""),
        ({"writes": [ENTRY | {"user": "oidc~d\u0000"}]}, "BadRequestException", ""),
        ({"writes": [{"type": "select", "role": "team"}]}, "BadRequestException", "writes[0].role"),
        ({"writes": [ENTRY | {"type": "SELECT"}]}, "BadRequestException", "type"),
        ({"writes": [ENTRY | {"type": "create"}]}, "BadRequestException", "type"),
        ({"writes": [ENTRY | {"type": "managed_access"}]}, "BadRequestException", "type"),
        ({"deletes": [ENTRY | {"type": "apply"}]}, "BadRequestException", "type"),
        ({"writes": [ENTRY | {"type": ["select"]}]}, "BadRequestException", "type"),
        ({"writes": [ENTRY, ENTRY]}, "DuplicateGrantEntry", "writes"),
        ({"deletes": [ENTRY, ENTRY]}, "DuplicateGrantEntry", "deletes"),
        ({"writes": [ENTRY], "deletes": [ENTRY]}, "ContradictoryGrantDiff", "select"),
        ({"writes": [ENTRY | {"user": f"oidc~{n}"} for n in range(101)]}, "GrantDiffTooLarge", "101"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_change_changes_nothing(
    things: Things, everything: Everything, body: Any, wire_type: str, text: str
) -> None:
    manager = things.manager(T.TABLE)
    things.client("dana")
    before = everything()
    assert manager.post(f"{things.path(T.TABLE)}/assignments", body).refused(400, wire_type, text)
    assert everything() == before


@pytest.mark.parametrize("given", ["create", "", "select,modify", "SELECT", "%00", "%E2%80%AE", "a" * 500])
def test_relations_are_privileges_of_the_type(things: Things, given: str) -> None:
    manager = things.manager(T.TABLE)
    response = manager.get(f"{things.path(T.TABLE)}/assignments?relations={given}")
    assert response.refused(400, "BadRequestException")


def test_a_hundred_changes_are_one_and_each_has_its_line_of_the_log(
    things: Things, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    manager, path = things.manager(T.TABLE), things.path(T.TABLE)
    User.objects.bulk_create(User(id=f"oidc~u{n}", name="n") for n in range(100))
    with log_lines("icekeeper.audit") as written, django_capture_on_commit_callbacks(execute=True):
        write(manager, path, *(to_user("select", f"u{n}") for n in range(100)))
    assert Grant.objects.filter(user__id__startswith="oidc~u", privilege="select").count() == 100
    lines = written.read()
    assert len(lines) == 100
    assert {(each["type"], each["id"], each["by"], each["privilege"]) for each in lines} == {
        ("table", str(things.refs[T.TABLE][1]), "oidc~manager", "select")
    }
    assert {each["message"] for each in lines} == {"grant.created"}


def test_errors_are_in_the_audit_trail_with_their_true_reason(things: Things) -> None:
    path, about = things.path(T.TABLE), ("table", str(things.refs[T.TABLE][1]))
    stranger, viewer = things.client("stranger"), things.with_right("viewer", SHOWS[T.TABLE])
    body = {"writes": [to_user("modify", "viewer")]}
    for client, reason in ((stranger, "CannotSeeResource"), (viewer, "ActionForbidden")):
        AuditRecord.objects.all().delete()
        client.get(f"{path}/assignments")
        client.post(f"{path}/assignments", body)
        collector.write_due()
        denied = AuditRecord.objects.filter(event="access.denied").order_by("action")
        assert [(row.action, row.reason, row.object_type, row.object_id) for row in denied] == [
            (action, reason, *about) for action in ("grant_modify", "read_grants")
        ]


def test_grants_of_a_role_end_with_it(things: Things) -> None:
    manager, path, team = things.manager(T.TABLE), things.path(T.TABLE), new_role("short-lived")
    before = assigned(manager, path)
    write(manager, path, to_role("select", team))
    Role.objects.get(pk=team.pk).delete()
    assert assigned(manager, path) == before
