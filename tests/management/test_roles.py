"""Roles: create, update, search and delete, separated by project."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from icekeeper.kernel.ids import new_id, parse_id
from icekeeper.kernel.names import name_key
from tenancy.actor import INTERNAL
from tenancy.authz.actions import Can
from tenancy.authz.securables import add_securable
from tenancy.models import Grant, Project, Role, RoleMember, Securable, Server, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tenancy.services.role_members import Members, add_role_members
from tenancy.services.roles import create_role
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import forbid, refuse, reported

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("bootstrapped"), pytest.mark.both_databases]

api = ApiClient("/management/v1")
PROJECT = "00000000-0000-0000-0000-000000000000"
MISSING = "0198e0f4-3f6e-7c31-8c7d-000000000000"


@pytest.fixture
def other_project(bootstrapped: None) -> Project:
    project = Project.objects.create(id="other", name="Other", name_key=name_key("Other"))
    server = Server.objects.get()
    add_securable(Securable.Type.PROJECT, project.pk, parent=ObjectRef(Securable.Type.SERVER, server.server_id))
    return project


def build(name: str = "staff", **more: Any) -> dict[str, Any]:
    response = api.post("/role", {"name": name, **more})
    assert response.status == 201, response.body
    created: dict[str, Any] = response.json()
    return created


# --- create and update ---------------------------------------------------------------------------------------------


def test_a_role_is_created_and_loaded() -> None:
    created = build("Staff", description="All of us")
    assert parse_id(created["id"]) is not None
    assert {key: value for key, value in created.items() if key != "created-at"} == {
        "id": created["id"],
        "ident": f"lakekeeper~{created['id']}",
        "provider-id": "lakekeeper",
        "source-id": created["id"],
        "name": "Staff",
        "description": "All of us",
        "project-id": PROJECT,
    }
    assert api.get(f"/role/{created['id']}").json() == created
    assert api.get(f"/role/{created['id'].upper()}").json() == created
    assert api.get("/role").json() == {"roles": [created]}
    securable = Securable.objects.get(type="role")
    assert (securable.object_id, securable.parent_id) == (created["id"], f"project:{PROJECT}")
    metadata = api.get(f"/role/{created['id']}/metadata").json()
    assert metadata == {key: created[key] for key in ("id", "ident", "provider-id", "source-id", "name", "project-id")}


def test_a_role_that_another_system_knows() -> None:
    created = build("Admins", **{"provider-id": "oidc", "source-id": "CN=admins, O=~/x", "description": None})
    assert (created["ident"], "description" in created) == ("oidc~CN=admins, O=~/x", False)


@pytest.mark.parametrize("description", ["d" * 4097, "a\u202eb", "a\x00b", "a\u2028b", "\x1b[2J"])
def test_descriptions_that_are_refused(description: str) -> None:
    assert api.post("/role", {"name": "r", "description": description}).refused(400, "BadRequestException", "descr")
    created = build("r", description="two\n\tlines")
    body = {"name": "r", "description": description}
    assert api.post(f"/role/{created['id']}", body).refused(400, "BadRequestException", "descr")


def test_no_description_differs_from_an_empty_one() -> None:
    role = build("r", description="")
    assert role["description"] == ""
    target = f"/role/{role['id']}"
    for body, shown in (
        ({"name": "r", "description": "d"}, "d"),
        ({"name": "r"}, None),
        ({"name": "r", "description": "d\n2"}, "d\n2"),
        ({"name": "r", "description": None}, None),
        ({"name": "r", "description": ""}, ""),
    ):
        response = api.post(target, body)
        assert response.status == 200
        assert response.json().get("description") == shown
        assert ("description" in response.json()) == (shown is not None)
        assert api.get(target).json() == response.json()


def test_a_role_is_renamed_and_bound_elsewhere() -> None:
    created = build()
    target = f"/role/{created['id']}"
    renamed = api.post(target, {"name": "STAFF"}).json()
    assert renamed["name"] == "STAFF"
    assert renamed["updated-at"] > created["created-at"]
    bound = api.put(f"{target}/source-system", {"provider-id": "entra", "source-id": "7"})
    assert bound.status == 200
    assert (bound.json()["ident"], bound.json()["name"]) == ("entra~7", "STAFF")
    assert api.put(f"{target}/source-system", {"provider-id": "entra", "source-id": "7"}).status == 200
    assert api.get(target).json()["ident"] == "entra~7"


def test_names_and_sources_are_unique_per_project(
    other_project: Project, everything: Callable[[], Fingerprint]
) -> None:
    build("Straße", **{"provider-id": "oidc", "source-id": "s"})
    other = build("other")["id"]
    before = everything()
    for name in ("STRASSE", "strasse", "\uff53traße"):
        assert api.post("/role", {"name": name}).refused(409, "RoleNameAlreadyExists", name)
        assert api.post(f"/role/{other}", {"name": name}).refused(409, "RoleNameAlreadyExists")
    source = {"provider-id": "oidc", "source-id": "s"}
    assert api.post("/role", {"name": "x", **source}).refused(409, "RoleSourceIdConflict", "oidc~s")
    assert api.post("/role", {"name": "strasse", **source}).refused(409, "RoleSourceIdConflict")
    assert api.put(f"/role/{other}/source-system", source).refused(409, "RoleSourceIdConflict")
    assert everything() == before
    body = {"name": "Straße", **source}
    assert api.post("/role", body, **{"x-project-id": "other"}).status == 201
    build("strasse 2", **{"provider-id": "oidc", "source-id": "S"})


BAD_NAMES = [
    ("", "EmptyRoleName"),
    (" \t ", "EmptyRoleName"),
    ("n" * 256, "BadRequestException"),
    ("n" * 10_000, "BadRequestException"),
    ("\ufdfa" * 200, "BadRequestException"),
    ("a\nb", "BadRequestException"),
    ("a\x00b", "BadRequestException"),
    ("a\u202eb", "BadRequestException"),
    ("a ", "BadRequestException"),
    ("a\u115f", "BadRequestException"),
    (None, "BadRequestException"),
    (7, "BadRequestException"),
    (["a"], "BadRequestException"),
]
BAD_IDENTIFIERS = [
    ("oidc", None, "InvalidRoleIdentifier"),
    (None, "s", "InvalidRoleIdentifier"),
    ("", "s", "InvalidRoleIdentifier"),
    ("OIDC", "s", "InvalidRoleIdentifier"),
    ("oi dc", "s", "InvalidRoleIdentifier"),
    ("oidc~", "s", "InvalidRoleIdentifier"),
    ("öidc", "s", "InvalidRoleIdentifier"),
    ("p" * 129, "s", "InvalidRoleIdentifier"),
    ("oidc", "", "InvalidRoleIdentifier"),
    ("oidc", "  ", "InvalidRoleIdentifier"),
    ("oidc", "s" * 256, "InvalidRoleIdentifier"),
    ("oidc", "s" * 10_000, "InvalidRoleIdentifier"),
    ("oidc", "a\nb", "InvalidRoleIdentifier"),
    ("oidc", "a\x00b", "BadRequestException"),
    ("oidc", 7, "BadRequestException"),
    (["oidc"], "s", "BadRequestException"),
    ("system", "s", "RoleProviderIdReserved"),
]


@pytest.mark.parametrize(("name", "wire_type"), BAD_NAMES)
def test_bad_names(everything: Callable[[], Fingerprint], name: Any, wire_type: str) -> None:
    role = build()
    before = everything()
    assert api.post("/role", {"name": name}).refused(400, wire_type)
    assert api.post(f"/role/{role['id']}", {"name": name}).refused(400, wire_type)
    assert everything() == before


@pytest.mark.parametrize(("provider", "source", "wire_type"), BAD_IDENTIFIERS)
def test_bad_identifiers(everything: Callable[[], Fingerprint], provider: Any, source: Any, wire_type: str) -> None:
    role = build()
    before = everything()
    body = {"provider-id": provider, "source-id": source}
    assert api.post("/role", {"name": "x", **body}).refused(400, wire_type)
    if None not in body.values():
        assert api.put(f"/role/{role['id']}/source-system", body).refused(400, wire_type)
    for key in body:
        half = {other: "x" for other in body if other != key}
        assert api.put(f"/role/{role['id']}/source-system", half).refused(400, "BadRequestException", key)
    assert everything() == before


@pytest.mark.parametrize("body", [None, [], {}, "text", {"description": "no name"}, {"name": "x", "description": 7}])
def test_bad_bodies(body: Any) -> None:
    role = build()
    assert api.post("/role", body).refused(400, "BadRequestException")
    assert api.post(f"/role/{role['id']}", body).refused(400, "BadRequestException")
    too_long = {"name": "x", "description": "d" * 4097}
    assert api.post("/role", too_long).refused(400, "BadRequestException", "description")
    assert api.get("/role").json() == {"roles": [role]}


def test_read_only_members_are_ignored() -> None:
    body = {
        "id": MISSING,
        "ident": "oidc~x",
        "created-at": "1999-01-01T00:00:00Z",
        "updated-at": "1999-01-01T00:00:00Z",
        "provider_id": "oidc",
        "source_id": "x",
    }
    created = build("r", **body)
    assert created["id"] != MISSING
    assert created["provider-id"] == "lakekeeper"
    assert "1999" not in str(created)
    changed = api.post(
        f"/role/{created['id']}", {"name": "r2", "project-id": "other", "provider-id": "oidc", **body}
    ).json()
    kept = ("id", "ident", "project-id", "created-at", "provider-id", "source-id")
    assert {key: changed[key] for key in kept} == {key: created[key] for key in kept}


def test_roles_of_the_system_are_not_touched(everything: Callable[[], Fingerprint]) -> None:
    role = Role.objects.create(project_id=PROJECT, name="root", name_key="root", provider_id="system", source_id="root")
    before = everything()
    target = f"/role/{role.pk}"
    assert api.post(target, {"name": "mine"}).refused(400, "SystemRoleImmutable")
    assert api.delete(target).refused(400, "SystemRoleImmutable")
    body = {"provider-id": "oidc", "source-id": "x"}
    assert api.put(f"{target}/source-system", body).refused(400, "SystemRoleImmutable")
    assert everything() == before
    assert api.get(target).json()["ident"] == "system~root"
    assert api.post(f"{target}/members", {"members": []}).status == 200


# --- projects ------------------------------------------------------------------------------------------------------


def test_the_project_is_named_by_header_body_or_query(other_project: Project) -> None:
    in_header = api.post("/role", {"name": "a"}, **{"x-project-id": "other"}).json()
    in_body = api.post("/role", {"name": "b", "project-id": "other"}, **{"x-project-id": PROJECT}).json()
    default = build("c")
    assert in_header["project-id"] == in_body["project-id"] == "other"
    for response in (api.get("/role?projectId=other"), api.get("/role", **{"x-project-id": "other"})):
        assert response.json() == {"roles": [in_header, in_body]}
    assert api.get("/role").json() == {"roles": [default]}
    found = api.post("/search/role", {"search": "a", "project-id": "other"}).json()["roles"]
    assert found == [in_header]
    assert api.post("/search/role", {"search": "a"}).json() == {"roles": []}


def every_call_on(role_id: str, **headers: str) -> list[Response]:
    """Return each operation on one role except its metadata."""
    target = f"/role/{role_id}"
    source = {"provider-id": "oidc", "source-id": "x"}
    return [
        api.get(target, **headers),
        api.post(target, {"name": "new"}, **headers),
        api.delete(target, **headers),
        api.put(f"{target}/source-system", source, **headers),
        api.get(f"{target}/members", **headers),
        api.get(f"{target}/members/transitive", **headers),
        api.get(f"{target}/member-of", **headers),
        api.get(f"{target}/member-of/transitive", **headers),
        api.post(f"{target}/members", {"members": [{"type": "user", "id": "oidc~x"}]}, **headers),
        api.delete(f"{target}/members/user/oidc~x", **headers),
    ]


def test_a_role_of_another_project_is_not_found(other_project: Project, everything: Callable[[], Fingerprint]) -> None:
    role = build()
    before = everything()
    hostile = ["x", "..%2F" + role["id"], role["id"].replace("-", ""), "%7B" + role["id"] + "%7D", "*", "a" * 10_000]
    for role_id in [MISSING, *hostile]:
        for response in every_call_on(role_id):
            assert response.refused(404, "RoleNotFoundInProject", "Role does not exist in project")
    for response in every_call_on(role["id"], **{"x-project-id": "other"}):
        assert response.refused(404, "RoleNotFoundInProject", role["id"])
    for response in every_call_on(role["id"], **{"x-project-id": "missing"}):
        assert response.refused(404, "ProjectNotFound")
    for response in every_call_on(role["id"], **{"x-project-id": "no such/project"}):
        assert response.refused(400, "MalformedProjectID")
    for role_id in [MISSING, *hostile]:
        assert api.get(f"/role/{role_id}/metadata").refused(404, "RoleIdNotFound")
    assert api.get("/role/%00").refused(400, "BadRequestException", "NUL")
    assert everything() == before


def test_metadata_is_shown_across_projects(other_project: Project) -> None:
    role = build()
    metadata = api.get(f"/role/{role['id']}/metadata", **{"x-project-id": "other"}).json()
    assert (metadata["project-id"], metadata["name"]) == (PROJECT, "staff")


# --- deletion --------------------------------------------------------------------------------------------------------


def test_a_role_is_deleted_with_its_memberships_and_grants() -> None:
    above, role, below, bystander = (build(name)["id"] for name in ("above", "role", "below", "bystander"))
    user = User.objects.create(id="oidc~u", name="U")
    project = get_project(None)
    for outer, inner in ((above, role), (role, below), (above, bystander)):
        members = Members([user.pk], [parse_id(inner) or new_id()])
        add_role_members(actor=INTERNAL, project=project, role_id=parse_id(outer) or new_id(), members=members)
    Grant.objects.create_on(securable_id=f"project:{PROJECT}", role_id=role, privilege="select")
    Grant.objects.create_on(securable_id=f"role:{role}", user=user, privilege="ownership")
    Grant.objects.create_on(securable_id=f"project:{PROJECT}", role_id=below, privilege="select")
    assert api.delete(f"/role/{role}").status == 204
    assert api.get(f"/role/{role}").refused(404, "RoleNotFoundInProject")
    assert api.delete(f"/role/{role}").refused(404, "RoleNotFoundInProject")
    assert [str(grant.role_id) for grant in Grant.objects.all()] == [below]
    assert RoleMember.objects.count() == 2
    assert [each["id"] for each in api.get(f"/role/{above}/members").json()["members"]] == ["oidc~u", bystander]
    assert sorted(Securable.objects.filter(type="role").values_list("object_id", flat=True)) == sorted(
        [above, below, bystander]
    )
    build("role")


# --- search ----------------------------------------------------------------------------------------------------------


def pages_of(target: str) -> list[list[str]]:
    pages, token = [], ""
    while True:
        response = api.get(f"{target}&pageToken={token}")
        assert response.status == 200, response.body
        pages.append([role["name"] for role in response.json()["roles"]])
        token = response.json().get("next-page-token")
        if token is None:
            return pages


def test_roles_are_listed_in_pages_that_insertion_does_not_move(other_project: Project) -> None:
    ids = [build(f"r{number}")["id"] for number in range(5)]
    create_role(actor=INTERNAL, project=other_project, name="stranger")
    first = api.get("/role?pageSize=2").json()
    build("r5")
    api.delete(f"/role/{ids[1]}")
    rest = api.get(f"/role?pageSize=9&pageToken={first['next-page-token']}").json()
    assert [role["name"] for role in rest["roles"]] == ["r2", "r3", "r4", "r5"]
    assert pages_of("/role?pageSize=2") == [["r0", "r2"], ["r3", "r4"], ["r5"]]


def test_roles_are_filtered_by_repeated_parameters() -> None:
    ids = {}
    for provider, source in (("oidc", "a"), ("oidc", "b,c"), ("entra", "a"), ("ldap", "x")):
        name = f"{provider} {source}"
        ids[name] = build(name, **{"provider-id": provider, "source-id": source})["id"]
    for brackets in ("", "[]", "%5B%5D"):
        assert pages_of(f"/role?sourceIds{brackets}=a") == [["oidc a", "entra a"]]
        assert pages_of(f"/role?sourceIds{brackets}=a&sourceIds{brackets}=b%2Cc&pageSize=2") == [
            ["oidc a", "oidc b,c"], ["entra a"],
        ]  # fmt: skip
        assert pages_of(f"/role?providerIds{brackets}=ldap&providerIds{brackets}=entra") == [["entra a", "ldap x"]]
        assert pages_of(f"/role?providerIds{brackets}=oidc&sourceIds{brackets}=a") == [["oidc a"]]
        wanted = f"/role?roleIds{brackets}={ids['ldap x']}&roleIds{brackets}={ids['oidc a'].upper()}"
        assert pages_of(wanted) == [["oidc a", "ldap x"]]
        assert pages_of(f"/role?roleIds{brackets}={MISSING}") == [[]]
        assert api.get(f"/role?roleIds{brackets}=x").refused(400, "BadRequestException", "roleIds")
    assert pages_of("/role?roleIds=" + ids["oidc a"] + "&roleIds[]=" + ids["entra a"]) == [["oidc a", "entra a"]]
    assert pages_of("/role?providerIds=" + "%27%20OR%201=1") == [[]]


def test_page_tokens_are_valid_for_their_listing_only(other_project: Project) -> None:
    for number in range(3):
        build(f"r{number}")
        create_role(actor=INTERNAL, project=other_project, name=f"r{number}")
    token = api.get("/role?pageSize=1").json()["next-page-token"]
    found = api.post("/search/role", {"search": "r", "page-size": 1}).json()["next-page-token"]
    for target in (
        f"/role?projectId=other&pageToken={token}",
        f"/role?providerIds=lakekeeper&pageToken={token}",
        f"/user?pageToken={token}",
        f"/role?pageToken={found}",
        "/role?pageToken=nonsense",
    ):
        assert api.get(target).refused(400, "InvalidPaginationToken")
    for body in (
        {"search": "r", "page-token": token},
        {"search": "r", "project-id": "other", "page-token": found},
        {"search": "r", "provider-ids": ["lakekeeper"], "page-token": found},
    ):
        assert api.post("/search/role", body).refused(400, "InvalidPaginationToken")


def test_roles_are_found_best_first() -> None:
    for name in ("Data Engineers", "data", "Big Data", "Dtaa", "Metadata", "ops"):
        build(name)
    role = build("Externals", **{"provider-id": "oidc", "source-id": "data"})

    def found(search: str, **more: Any) -> list[str]:
        response = api.post("/search/role", {"search": search, **more})
        assert response.status == 200, response.body
        return [role["name"] for role in response.json()["roles"]]

    assert found("DATA") == ["data", "Data Engineers", "Big Data", "Metadata"]
    assert found("data enginers") == ["Data Engineers"]
    assert len(found("")) == 7
    assert found("", **{"provider-ids": ["oidc"]}) == ["Externals"]
    [hit] = api.post("/search/role", {"search": "externals"}).json()["roles"]
    assert hit == role
    for number in range(10):
        build(f"team {number}")
    assert len(found("team")) == 10
    assert len(found("a", **{"page-size": 3})) == 3
    for body in ({}, {"search": None}, {"search": 1}, {"search": "a", "provider-ids": "oidc"}):
        assert api.post("/search/role", body).refused(400, "BadRequestException")
    assert api.post("/search/role", {"search": "a", "project-id": "missing"}).refused(404, "ProjectNotFound")


# --- permissions -----------------------------------------------------------------------------------------------------


def test_permissions_are_checked(
    other_project: Project, everything: Callable[[], Fingerprint], monkeypatch: pytest.MonkeyPatch
) -> None:
    role = build()["id"]
    before = everything()
    asked = forbid(monkeypatch).asked_of
    for response in (api.post("/role", {"name": "new"}), api.get("/role"), api.post("/search/role", {"search": "a"})):
        assert response.refused(403, "ProjectActionForbidden")
    read, *others = every_call_on(role)
    assert read.json()["id"] == role
    types = [response.error["type"] for response in others if response.status == 403]
    on_role, of_all = "RoleActionForbidden", "ProjectActionForbidden"
    assert types == [*[on_role] * 4, of_all, on_role, of_all, *[on_role] * 2]
    assert asked == [
        *((action, f"project:{PROJECT}") for action in (Can.CREATE_ROLE, Can.LIST_ROLES, Can.SEARCH_ROLES)),
        *of_every_call_on(f"role:{role}", f"project:{PROJECT}"),
    ]
    assert api.get(f"/role/{role}/metadata").status == 200, "every caller may read the name of an id"
    asked.clear()
    for response in every_call_on(role, **{"x-project-id": "other"}):
        assert response.status in {403, 404}
    assert asked == [(Can.LIST_ROLES, "project:other")] * 2
    assert everything() == before


def of_every_call_on(role: str, project: str) -> list[tuple[Can, str]]:
    listing = [(Can.READ_ROLE_ASSIGNMENTS, role), (Can.LIST_ROLES, project)]
    changes = (Can.READ, Can.UPDATE, Can.DELETE, Can.UPDATE_SOURCE_SYSTEM)
    return [*((action, role) for action in changes), *listing * 2, *[(Can.MANAGE_ROLE_ASSIGNMENTS, role)] * 2]


def test_a_hidden_role_looks_missing(everything: Callable[[], Fingerprint], monkeypatch: pytest.MonkeyPatch) -> None:
    role = build()["id"]
    before = everything()
    refuse(monkeypatch)
    hidden, missing = every_call_on(role), every_call_on(MISSING)
    assert [response.status for response in hidden] == [404, 404, 404, 404, 404, 403, 404, 403, 404, 404]
    for one, other in zip(hidden, missing, strict=True):
        if one.status == 404:
            assert one.refused(404, "RoleNotFoundInProject")
            assert reported(one, role) == reported(other, MISSING)
        else:
            assert one.refused(403, "ProjectActionForbidden", "list_roles")
            assert one.error["message"] == other.error["message"]
    assert everything() == before


def test_methods_that_roles_do_not_have() -> None:
    role = build()["id"]
    assert api.put(f"/role/{role}", {"name": "x"}).refused(405, "MethodNotAllowedException")
    assert api.delete("/role").refused(405, "MethodNotAllowedException")
    assert api.post(f"/role/{role}/source-system", {}).refused(405, "MethodNotAllowedException")
    assert api.get("/search/role").refused(405, "MethodNotAllowedException")
