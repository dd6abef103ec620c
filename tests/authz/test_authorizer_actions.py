"""The routes `access` and `authorizer-actions` of the older API."""

from __future__ import annotations

import pytest

from tenancy.authz.actions import GRANT_ACTION_NAMES, LEGACY_ACTION_NAMES
from tenancy.models import Securable
from tests.authz.permission_fixtures import (
    FORBIDDEN,
    MANAGES,
    MISSING,
    NO_ONE,
    SHOWS,
    Everything,
    Things,
    new_role,
    other_project,
)
from tests.harness.named_callers import CallerClient
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = pytest.mark.django_db

T = Securable.Type
ROUTES = [(kind, "authorizer-actions") for kind in GRANT_ACTION_NAMES]
ROUTES += [(kind, "access") for kind in LEGACY_ACTION_NAMES if kind is not T.GENERIC_TABLE]
HIDDEN = [(kind, route) for kind, route in ROUTES if kind in MISSING]


def allowed(client: CallerClient, path: str, route: str, query: str = "", **headers: str) -> list[str]:
    response = client.get(f"{path}/{route}{query}", **headers)
    assert response.status == 200, response.body
    assert response.json().keys() == {"allowed-actions"}
    found: list[str] = response.json()["allowed-actions"]
    return found


def words(kind: Securable.Type, route: str) -> list[str]:
    return list((LEGACY_ACTION_NAMES if route == "access" else GRANT_ACTION_NAMES)[kind])


@pytest.mark.parametrize(("kind", "route"), ROUTES)
def test_full_rights_show_all_actions(things: Things, kind: Securable.Type, route: str) -> None:
    client = things.with_right("boss", ("operator", T.SERVER))
    for right in (MANAGES[kind], ("ownership", T.ROLE)):
        things.with_right("boss", right)
    assert allowed(client, things.path(kind), route) == words(kind, route)


@pytest.mark.parametrize(
    ("right", "kind", "route", "expected"),
    [
        (("admin", T.SERVER), T.SERVER, "authorizer-actions", ["read_assignments", "grant_admin"]),
        (("admin", T.SERVER), T.PROJECT, "access", [
            "list_warehouses", "list_roles", "search_roles", "read_assignments", "grant_project_admin",
            "grant_security_admin", "grant_data_admin", "grant_role_creator", "grant_tag_creator", "grant_describe",
            "grant_select", "grant_create", "grant_modify",
        ]),
        (("data_admin", T.PROJECT), T.PROJECT, "authorizer-actions", []),
        (("data_admin", T.PROJECT), T.WAREHOUSE, "access", [
            "create_namespace", "delete", "modify_storage", "modify_storage_credential", "get_config", "get_metadata",
            "list_namespaces", "include_in_list", "deactivate", "activate", "rename", "list_deleted_tabulars",
            "get_all_tasks", "control_all_tasks", "set_protection", "set_format_version_policy",
            "get_endpoint_statistics",
        ]),
        (("create", T.NAMESPACE), T.NAMESPACE, "access", [
            "create_table", "create_view", "create_generic_table", "create_namespace", "get_metadata",
        ]),
        (("select", T.TABLE), T.TABLE, "access", ["read_data", "get_metadata", "get_tasks"]),
        (("select", T.TABLE), T.NAMESPACE, "access", ["get_metadata"]),
        (("select", T.VIEW), T.VIEW, "access", ["select", "get_metadata", "get_tasks"]),
        (("manage_grants", T.GENERIC_TABLE), T.GENERIC_TABLE, "authorizer-actions", [
            "read_assignments", "change_ownership", "grant_pass_grants", "grant_manage_grants", "grant_describe",
            "grant_select", "grant_modify", "grant_manage_tags",
        ]),
        (("assignee", T.ROLE), T.PROJECT, "authorizer-actions", []),
        (("describe", T.PROJECT), T.ROLE, "access", ["read_assignments", "read"]),
    ],
)  # fmt: skip
def test_what_follows_from_a_privilege(
    things: Things, right: tuple[str, Securable.Type], kind: Securable.Type, route: str, expected: list[str]
) -> None:
    client = things.with_right("another", right)
    assert allowed(client, things.path(kind), route) == expected


def reported_to_strangers(kind: Securable.Type) -> str:
    """The path of a tabular names a warehouse, which is also hidden from them."""
    return MISSING[T.WAREHOUSE] if kind in {T.TABLE, T.VIEW, T.GENERIC_TABLE} else MISSING[kind]


@pytest.mark.parametrize(("kind", "route"), HIDDEN)
def test_users_without_sight_of_it_get_the_error_of_a_missing_object(
    things: Things, kind: Securable.Type, route: str
) -> None:
    stranger = things.client("stranger")
    queries = ["", "?principalUser=oidc~stranger", "?principalUser=oidc~root", f"?principalRole={things.role.pk}",
               f"?principalRole={NO_ONE}"]  # fmt: skip
    messages = []
    for path, named in ((things.path(kind), things.public_id(kind)), (things.path(kind, NO_ONE), NO_ONE)):
        responses = [stranger.get(f"{path}/{route}{query}") for query in queries]
        assert all(each.refused(404, reported_to_strangers(kind)) for each in responses)
        messages.append([each.error["message"].replace(named, "ID") for each in responses])
    assert messages[0] == messages[1]


@pytest.mark.parametrize(("kind", "route"), ROUTES)
def test_to_ask_about_others_takes_the_right_to_read_the_grants(
    things: Things, kind: Securable.Type, route: str
) -> None:
    manager, path = things.manager(kind), things.path(kind)
    viewer = things.with_right("viewer", SHOWS[kind]) if kind in SHOWS else things.client("viewer")
    own = allowed(viewer, path, route)
    assert allowed(manager, path, route, "?principalUser=oidc~viewer") == own
    assert allowed(viewer, path, route, "?principalUser=oidc~viewer") == own
    assert allowed(manager, path, route, f"?principalRole={new_role('empty').pk}") == []
    for query, wire_type in (
        ("?principalUser=oidc~unknown", "UserNotFound"),
        (f"?principalRole={NO_ONE}", "RoleIdNotFound"),
    ):
        assert manager.get(f"{path}/{route}{query}").refused(404, wire_type)
        if kind in FORBIDDEN:  # every user who sees a role may read its members
            assert viewer.get(f"{path}/{route}{query}").refused(403, FORBIDDEN[kind])
    if kind in FORBIDDEN:
        assert viewer.get(f"{path}/{route}?principalUser=oidc~manager").refused(403, FORBIDDEN[kind])


def test_an_assumed_role_asks_about_itself(things: Things) -> None:
    dana, path = things.with_right("dana", ("ownership", T.TABLE)), things.path(T.TABLE)
    things.with_right("dana", ("assignee", T.ROLE))
    manager = things.manager(T.TABLE)
    body = {"writes": [{"type": "select", "role": str(things.role.pk)}]}
    assert manager.post(f"{path}/assignments", body).status == 204
    in_role = {"x-assume-role": str(things.role.pk)}
    expected = ["read_data", "get_metadata", "get_tasks"]
    assert allowed(dana, path, "access", **in_role) == expected
    assert allowed(dana, path, "access", f"?principalRole={things.role.pk}", **in_role) == expected
    assert dana.get(f"{path}/access?principalUser=oidc~dana", **in_role).refused(403, "TableActionForbidden")
    assert allowed(dana, path, "access", f"?principalRole={things.role.pk}") == expected


def test_instance_admins_see_their_own_rights_alone(things: Things, monkeypatch: pytest.MonkeyPatch) -> None:
    use_settings(monkeypatch, instance_admins=["oidc~anna"])
    anna, path = things.client("anna"), things.path(T.TABLE)
    assert allowed(anna, path, "access") == [
        word for word in LEGACY_ACTION_NAMES[T.TABLE] if not word.startswith("grant_")
        and word not in {"read_data", "write_data", "change_ownership"}
    ]  # fmt: skip
    assert allowed(anna, path, "authorizer-actions") == ["read_assignments"]
    assert allowed(things.manager(T.TABLE), path, "access", "?principalUser=oidc~anna") == []


def test_a_project_is_named_by_header_or_in_the_path(things: Things) -> None:
    project = other_project()
    things.with_right("boss", ("project_admin", T.PROJECT))
    boss = things.client("boss")
    assert allowed(boss, "/project", "access", **{"x-project-id": project.pk}) == []
    assert allowed(boss, f"/project/{project.pk}", "access") == []
    assert allowed(boss, f"/project/{things.refs[T.PROJECT][1]}", "access") == list(LEGACY_ACTION_NAMES[T.PROJECT])
    assert boss.get("/project/access", **{"x-project-id": "no"}).refused(404, "ProjectNotFound")
    assert boss.get("/project/authorizer-actions", **{"x-project-id": "a b"}).refused(400, "MalformedProjectID")


@pytest.mark.parametrize(
    ("query", "wire_type"),
    [
        (f"?principalUser=oidc~viewer&principalRole={NO_ONE}", "InvalidGetAccessQuery"),
        ("?principalUser=oidc~viewer&principalUser=oidc~manager", "InvalidGetAccessQuery"),
        ("?principalUser=&principalRole=", "InvalidGetAccessQuery"),
        ("?principalUser=", "EmptyUserIdError"),
        ("?principalUser=viewer", "InvalidUserIdError"),
        ("?principalUser=oidc~%E2%80%AE", "InvalidUserIdError"),
        ("?principalUser=oidc~" + "a" * 128, "UserIdTooLongError"),
        ("?principalUser=oidc~a%00", "BadRequestException"),
        ("?principalRole=team", "BadRequestException"),
        ("?principalRole=", "BadRequestException"),
        (f"?principalRole=%7B{NO_ONE}%7D", "BadRequestException"),
    ],
)
def test_principals_that_cannot_be(things: Things, query: str, wire_type: str, everything: Everything) -> None:
    manager = things.manager(T.TABLE)
    before = everything()
    for route in ("access", "authorizer-actions"):
        assert manager.get(f"{things.path(T.TABLE)}/{route}{query}").refused(400, wire_type)
    assert everything() == before
