"""The routes `.../actions`, which list the allowed actions on an object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.models import Tabular
from storage.models import Warehouse
from tenancy.authz import port
from tenancy.authz.actions import ACTIONS_ON, Can
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import user
from tests.authz.object_path_fixtures import HOSTILE, MISSING, path_of
from tests.authz.tree_fixtures import T, give, role
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient
from tests.harness.statement_counts import counting, require_as_recorded
from tests.harness.wsgi_client import Response
from tests.management.warehouse_request_fixtures import NO_ONE, use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("builtin")]


@pytest.fixture
def ask(manage: Callable[[str], CallerClient]) -> Callable[..., Response]:
    def ask(name: str, target: str, **headers: str) -> Response:
        return manage(name).get(target, **headers)

    return ask


def reported(response: Response) -> list[str]:
    assert response.status == 200, response.body
    assert response.json().keys() == {"allowed-actions"}
    assert all(each.keys() == {"action"} for each in response.json()["allowed-actions"])
    return [each["action"] for each in response.json()["allowed-actions"]]


NO_WAREHOUSE = "NoSuchWarehouseException"
"""The error for every object in a warehouse that is hidden from the caller."""


@pytest.mark.parametrize(
    ("kind", "privilege", "expected"),
    [
        (T.SERVER, "admin", ["create_project", "update_users", "delete_users", "list_users", "provision_users",
                             "read_grants"]),
        (T.PROJECT, "role_creator", []),
        (T.PROJECT, "describe", ["get_metadata", "list_warehouses", "include_in_list", "list_roles", "search_roles",
                                 "get_endpoint_statistics", "get_task_queue_config", "get_project_tasks",
                                 "list_tags"]),
        (T.WAREHOUSE, "manage_grants", ["read_grants"]),
        (T.WAREHOUSE, "create", ["create_namespace", "get_metadata", "get_config", "list_namespaces",
                                 "list_everything", "use", "include_in_list", "list_deleted_tabulars",
                                 "get_task_queue_config", "get_all_tasks", "get_endpoint_statistics"]),
        (T.NAMESPACE, "manage_tags", None),
        (T.NAMESPACE, "modify", ["delete", "update_properties", "get_metadata", "list_tables", "list_views",
                                 "list_generic_tables", "list_namespaces", "list_everything", "set_protection",
                                 "include_in_list"]),
        (T.TABLE, "select", ["read_data", "get_metadata", "include_in_list", "get_tasks"]),
        (T.VIEW, "modify", ["drop", "select", "commit", "get_metadata", "rename", "include_in_list", "undrop",
                            "get_tasks", "control_tasks", "set_protection"]),
        (T.GENERIC_TABLE, "describe", ["get_metadata", "include_in_list", "get_tasks"]),
        (T.ROLE, "ownership", None),
        (T.TAG, "apply", ["read", "apply", "remove"]),
        (T.TAG, "ownership", ["read", "update", "delete", "apply", "remove", "read_attachments", "read_grants"]),
    ],
)  # fmt: skip
def test_what_follows_from_a_privilege_is_shown(
    ask: Callable[..., Response],
    refs: dict[Securable.Type, ObjectRef],
    kind: Securable.Type,
    privilege: str,
    expected: Any,
) -> None:
    give(privilege, refs[kind], user("ann"))
    target = f"{path_of(refs[kind])}/actions"
    own = ask("ann", target)
    if expected is None:  # it does not show the object
        # The path of a namespace names a warehouse, which is also hidden from them.
        assert own.refused(404, MISSING[T.WAREHOUSE if kind is T.NAMESPACE else kind])
        return
    order = [each.value for each in ACTIONS_ON[kind]]
    if kind is T.PROJECT and privilege == "role_creator":
        expected = ["create_role"]
    assert reported(own) == sorted(expected, key=order.index)
    assert reported(ask("root", f"{target}?principalUser=oidc~ann")) == reported(own) if kind is not T.SERVER else True
    assert reported(ask("ann", f"{target}?principalUser=oidc~ann")) == reported(own)


def test_full_rights_are_shown_in_the_order_of_the_actions(
    ask: Callable[..., Response], refs: dict[Securable.Type, ObjectRef]
) -> None:
    give("operator", refs[T.SERVER], user("chief"))
    for kind, ref in refs.items():
        assert reported(ask("chief", f"{path_of(ref)}/actions")) == [each.value for each in ACTIONS_ON[kind]]


@pytest.mark.parametrize("kind", MISSING)
def test_hidden_objects_are_reported_as_missing(
    ask: Callable[..., Response], refs: dict[Securable.Type, ObjectRef], kind: Securable.Type
) -> None:
    path = path_of(refs[kind])
    unseen = NO_WAREHOUSE if path.startswith("/warehouse/") else MISSING[kind]
    above, _, own_id = path.rpartition("/")
    hidden = ask("bob", f"{path}/actions")
    missing = ask("bob", f"{above}/{NO_ONE}/actions")
    assert hidden.refused(404, unseen)
    assert missing.refused(404, unseen)
    assert hidden.error["message"].replace(own_id, NO_ONE) == missing.error["message"]
    assert ask("bob", f"{path}/actions?principalUser=oidc~ann").refused(404, unseen)
    assert ask("root", f"{above}/{NO_ONE}/actions").refused(404, MISSING[kind])


def test_the_server_and_projects_are_no_secret(
    ask: Callable[..., Response], refs: dict[Securable.Type, ObjectRef]
) -> None:
    assert reported(ask("bob", "/server/actions")) == []
    assert reported(ask("bob", "/project/actions")) == []
    assert ask("bob", "/server/actions?principalUser=oidc~ann").refused(403, "ServerActionForbidden")
    assert ask("bob", "/project/actions?principalUser=oidc~ann").refused(403, "ProjectActionForbidden")
    assert ask("bob", "/project/actions", **{"x-project-id": "none"}).refused(404, "ProjectNotFound")
    assert ask("bob", "/project/actions", **{"x-project-id": "a b"}).refused(400, "MalformedProjectID")


def test_to_ask_about_others_takes_the_right_to_read_grants(
    ask: Callable[..., Response], refs: dict[Securable.Type, ObjectRef]
) -> None:
    give("select", refs[T.TABLE], user("ann"))
    give("describe", refs[T.TABLE], user("bob"))
    team = role("readers")
    give("modify", refs[T.TABLE], user("ann"), to=team)
    target = f"{path_of(refs[T.TABLE])}/actions"
    assert ask("bob", f"{target}?principalUser=oidc~ann").refused(403, "TableActionForbidden")
    assert ask("bob", f"{target}?principalRole={team.pk}").refused(403, "TableActionForbidden")
    assert "read_data" in reported(ask("root", f"{target}?principalUser=oidc~ann"))
    assert "drop" in reported(ask("root", f"{target}?principalRole={team.pk}"))
    assert ask("root", f"{target}?principalUser=oidc~unknown").refused(404, "UserNotFound")
    assert ask("root", f"{target}?principalRole={NO_ONE}").refused(404, "RoleIdNotFound")


@pytest.mark.parametrize(
    ("query", "wire_type"),
    [
        (f"principalUser=oidc~ann&principalRole={NO_ONE}", "InvalidGetAccessQuery"),
        ("principalUser=oidc~ann&principalUser=oidc~bob", "InvalidGetAccessQuery"),
        (f"principalRole={NO_ONE}&principalRole={NO_ONE}", "InvalidGetAccessQuery"),
        ("principalUser=", "EmptyUserIdError"), ("principalUser=ann", "InvalidUserIdError"),
        ("principalUser=oidc~", "EmptyUserIdError"), ("principalUser=oidc~a%00b", "BadRequestException"),
        ("principalUser=oidc~a%E2%80%AEb", "InvalidUserIdError"),
        ("principalUser=oidc~" + "x" * 200, "UserIdTooLongError"), ("principalRole=", "BadRequestException"),
        ("principalRole=team", "BadRequestException"), ("principalRole=oidc~ann", "BadRequestException"),
        ("principalRole=%7B" + NO_ONE + "%7D", "BadRequestException"),
    ],
)  # fmt: skip
def test_a_principal_is_one_user_or_one_role(
    ask: Callable[..., Response], refs: dict[Securable.Type, ObjectRef], everything: Callable[[], Fingerprint],
    query: str, wire_type: str,
) -> None:  # fmt: skip
    ask("root", "/server/actions")
    before = everything()
    for kind in (T.SERVER, T.TABLE, T.ROLE, T.TAG):
        assert ask("root", f"{path_of(refs[kind])}/actions?{query}").refused(400, wire_type)
    assert ask("root", f"/user/oidc~root/actions?{query}").refused(400, wire_type)
    assert everything() == before


@pytest.mark.parametrize("text", HOSTILE)
def test_invalid_ids_are_reported_as_missing(
    ask: Callable[..., Response], refs: dict[Securable.Type, ObjectRef], text: str
) -> None:
    warehouse = path_of(refs[T.WAREHOUSE])
    for kind, above in (
        (T.WAREHOUSE, "/warehouse"), (T.NAMESPACE, f"{warehouse}/namespace"), (T.TABLE, f"{warehouse}/table"),
        (T.VIEW, f"{warehouse}/view"), (T.GENERIC_TABLE, f"{warehouse}/generic-table"), (T.ROLE, "/role"),
        (T.TAG, "/tag-definition"),
    ):  # fmt: skip
        assert ask("root", f"{above}/{text}/actions").refused(404, MISSING[kind])
    assert ask("root", f"/warehouse/{text}/table/{NO_ONE}/actions").refused(404, "NoSuchWarehouseException")


def test_an_object_is_one_of_its_type_and_warehouse(
    ask: Callable[..., Response], refs: dict[Securable.Type, ObjectRef], elsewhere: Warehouse
) -> None:
    table = path_of(refs[T.TABLE])
    own_id, there = table.rpartition("/")[2], refs[T.WAREHOUSE][1]
    for path, kind in (
        (f"/warehouse/{there}/view/{own_id}", T.VIEW), (f"/warehouse/{there}/namespace/{own_id}", T.NAMESPACE),
        (f"/warehouse/{elsewhere.pk}/table/{own_id}", T.TABLE),
        (f"/warehouse/{there}/table/{refs[T.TABLE][1]}", T.TABLE),
        (f"/role/{refs[T.TAG][1]}", T.ROLE), (f"/tag-definition/{refs[T.ROLE][1]}", T.TAG),
    ):  # fmt: skip
        wire_type = NO_WAREHOUSE if str(elsewhere.pk) in path else MISSING[kind]
        assert ask("root", f"{path}/actions").refused(404, wire_type)
    other = {"x-project-id": "other"}
    assert ask("root", f"{path_of(refs[T.ROLE])}/actions", **other).refused(404, "RoleNotFoundInProject")
    assert reported(ask("root", f"{path_of(refs[T.TAG])}/actions", **other))


def test_dropped_tables_and_inactive_warehouses_are_reported(
    ask: Callable[..., Response], refs: dict[Securable.Type, ObjectRef]
) -> None:
    give("modify", refs[T.TABLE], user("ann"))
    target = f"{path_of(refs[T.TABLE])}/actions"
    row = Tabular.objects.get(pk=refs[T.TABLE][1])
    Tabular.objects.filter(pk=row.pk).update(deleted_at=row.updated_at)
    Warehouse.objects.update(status="inactive")
    assert "undrop" in reported(ask("ann", target))


# --- users -------------------------------------------------------------------------------------------------------


def test_every_user_may_do_everything_with_themselves_and_read_others(
    ask: Callable[..., Response], refs: dict[Securable.Type, ObjectRef]
) -> None:
    everything = [each.value for each in ACTIONS_ON[T.USER]]
    give("admin", refs[T.SERVER], user("admin"))
    give("describe", refs[T.TABLE], user("ann"))
    give("describe", refs[T.TABLE], user("bob"))
    assert reported(ask("ann", "/user/oidc~ann/actions")) == everything
    assert reported(ask("ann", "/user/oidc~bob/actions")) == ["read"]
    assert reported(ask("admin", "/user/oidc%7Ebob/actions")) == everything
    assert reported(ask("admin", "/user/oidc~bob/actions?principalUser=oidc~ann")) == ["read"]
    assert reported(ask("admin", "/user/oidc~ann/actions?principalUser=oidc~ann")) == everything
    assert reported(ask("admin", f"/user/oidc~ann/actions?principalRole={refs[T.ROLE][1]}")) == ["read"]
    assert ask("ann", "/user/oidc~bob/actions?principalUser=oidc~bob").refused(403, "ServerActionForbidden")
    assert ask("ann", "/user/oidc~unknown/actions").refused(404, "UserNotFound")
    assert ask("ann", "/user/unknown/actions").refused(400, "InvalidUserIdError")


# --- who asks ----------------------------------------------------------------------------------------------------


def test_in_an_assumed_role_one_has_its_rights_alone(
    ask: Callable[..., Response], refs: dict[Securable.Type, ObjectRef]
) -> None:
    team = role("readers")
    give("assignee", ObjectRef(T.ROLE, team.pk), user("ann"))
    give("select", refs[T.TABLE], user("ann"), to=team)
    give("modify", refs[T.TABLE], user("ann"))
    target = f"{path_of(refs[T.TABLE])}/actions"
    assumed = {"x-assume-role": str(team.pk)}
    assert "drop" in reported(ask("ann", target))
    assert reported(ask("ann", target, **assumed)) == ["read_data", "get_metadata", "include_in_list", "get_tasks"]
    assert reported(ask("ann", f"{target}?principalRole={team.pk}", **assumed)) == reported(
        ask("ann", target, **assumed)
    )
    assert ask("ann", f"{target}?principalUser=oidc~ann", **assumed).refused(403, "TableActionForbidden")


def test_instance_admins_see_their_own_actions(
    ask: Callable[..., Response], refs: dict[Securable.Type, ObjectRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings(monkeypatch, instance_admins=["oidc~super"])
    give("describe", refs[T.PROJECT], user("super"))
    target = f"{path_of(refs[T.TABLE])}/actions"
    everything = [each.value for each in ACTIONS_ON[T.TABLE]]
    assert reported(ask("super", target)) == [each for each in everything if each not in {"read_data", "write_data"}]
    assert "drop" not in reported(ask("root", f"{target}?principalUser=oidc~super"))


def test_one_call_to_the_authorizer_decides_all(
    ask: Callable[..., Response], refs: dict[Securable.Type, ObjectRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counting(port.AllowAll):
        calls = 0

        def decide(self, actor: Any, questions: Any) -> list[bool]:
            Counting.calls += 1
            return [action is not Can.MANAGE_TAGS for action, _ in questions]

    targets = {kind: f"{path_of(ref)}/actions" for kind, ref in refs.items()}
    with monkeypatch.context() as patched:
        patched.setattr("tenancy.authz.port.authorizer", Counting)
        for kind, target in targets.items():
            Counting.calls = 0
            words = [each.value for each in ACTIONS_ON[kind] if each is not Can.MANAGE_TAGS]
            assert reported(ask("ann", target)) == words
            assert Counting.calls == 1


def test_what_it_costs(
    ask: Callable[..., Response], refs: dict[Securable.Type, ObjectRef], builtin: BuiltinAuthorizer
) -> None:
    counted: dict[str, dict[str, int]] = {}
    targets = {kind.value: f"{path_of(ref)}/actions" for kind, ref in refs.items()} | {
        "user": "/user/oidc~root/actions"
    }
    for name, target in targets.items():
        builtin.clear_caches()
        with counting() as seen:
            assert reported(ask("root", target)) is not None
        counted[f"actions.{name}"] = dict(seen)
    require_as_recorded("actions", counted)
