"""Batch checks: verdicts in order, an error for each invalid check, and no disclosure of hidden objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.models import Namespace, Tabular
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.authz.actions import ACTIONS_ON
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.securables import add_securable
from tenancy.models import Securable, Server
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tests.authz.batch_check_fixtures import CHECK, WITH_ERRORS, Ask, by_id, of, on_table, reported
from tests.authz.conftest import user
from tests.authz.tree_fixtures import T, give, role
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.statement_counts import counting, require_as_recorded
from tests.management.warehouse_request_fixtures import NO_ONE

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("builtin"), pytest.mark.both_databases]


@pytest.fixture
def ns(table: Tabular) -> ObjectRef:
    return ObjectRef(T.NAMESPACE, table.namespace_id)


def test_each_type_is_asked_by_id_and_by_name(ask: Ask, table: Tabular, ns: ObjectRef) -> None:
    warehouse = {"warehouse-id": str(table.warehouse_id)}
    give("modify", ObjectRef(T.TABLE, table.pk), user("ann"))
    named = {**warehouse, "namespace": ["NS"], "table": "T"}
    operations: list[tuple[str, str, dict[str, Any], bool]] = [
        ("server", "list_users", {}, False),
        ("project", "get_metadata", {}, True),
        ("project", "create_warehouse", {}, False),
        ("project", "get_metadata", {"project-id": str(get_project(None).pk)}, True),
        ("project", "get_metadata", {"project-id": None}, True),
        ("project", "get_metadata", {"project-id": "other"}, False),
        ("warehouse", "use", warehouse, True),
        ("warehouse", "create_namespace", warehouse, False),
        ("warehouse", "use", {"warehouse-id": NO_ONE}, False),
        ("namespace", "list_tables", {**warehouse, "namespace-id": str(ns[1])}, True),
        ("namespace", "list_tables", {**warehouse, "namespace": ["ns"]}, True),
        ("namespace", "create_table", {**warehouse, "namespace": ["ns"]}, False),
        ("namespace", "list_tables", {**warehouse, "namespace": ["ns", "x"]}, False),
        ("namespace", "list_tables", {"warehouse-id": NO_ONE, "namespace-id": str(ns[1])}, False),
        ("table", "write_data", by_id(table), True),
        ("table", "write_data", named, True),
        ("table", "manage_tags", named, False),
        ("table", "write_data", {**named, "table": "u"}, False),
        ("table", "write_data", {**by_id(table), "warehouse-id": NO_ONE}, False),
        ("view", "commit", {**warehouse, "namespace": ["ns"], "view": "t"}, False),
        ("view", "commit", {**warehouse, "view_id": str(table.uuid)}, False),
        ("generic-table", "drop", {**warehouse, "namespace": ["ns"], "generic_table": "t"}, False),
        ("generic-table", "drop", {**warehouse, "generic_table_id": str(table.uuid)}, False),
    ]
    checks = [{"operation": {kind: {"action": {"action": action}, **ids}}} for kind, action, ids, _ in operations]
    response = ask("ann", *checks)
    assert reported(response) == [expected for *_, expected in operations]
    assert [each["id"] for each in response.json()["results"]] == [str(location) for location in range(len(checks))]


@pytest.mark.parametrize("kind", ["view", "generic-table"])
def test_other_tabulars_go_by_all_their_spellings(ask: Ask, table: Tabular, kind: str) -> None:
    Tabular.objects.filter(pk=table.pk).update(kind=kind)
    Securable.objects.filter(pk=f"table:{table.pk}").delete()
    add_securable(T(kind), table.pk, parent=ObjectRef(T.NAMESPACE, table.namespace_id))
    give("describe", ObjectRef(T(kind), table.pk), user("ann"))
    warehouse = {"warehouse-id": str(table.warehouse_id)}
    ids = [
        {name: str(table.uuid)} for name in ("table-id", "view-id", "view_id", "generic-table-id", "generic_table_id")
    ]
    names = [{name: "t", "namespace": ["ns"]} for name in ("table", "view", "generic-table", "generic_table")]
    checks = [
        {"operation": {kind: {"action": {"action": "get_metadata"}, **warehouse, **each}}} for each in [*ids, *names]
    ]
    assert reported(ask("ann", *checks)) == [True] * len(checks)
    assert reported(ask("bob", *checks)) == [False] * len(checks)


def test_ids_come_back_in_the_order_of_the_checks(ask: Ask, table: Tabular) -> None:
    give("select", ObjectRef(T.TABLE, table.pk), user("ann"))
    asked = [("b", "read_data"), ("a", "write_data"), (None, "read_data"), ("b", "write_data"), ("", "get_metadata")]
    response = ask("ann", *({"id": own, **on_table(table, action)} for own, action in asked))
    assert response.json() == {
        "results": [
            {"id": "b", "allowed": True},
            {"id": "a", "allowed": False},
            {"id": "2", "allowed": True},
            {"id": "b", "allowed": False},
            {"id": "", "allowed": True},
        ]
    }
    assert ask("ann").json() == {"results": []}


def test_every_action_of_every_type_may_be_asked(ask: Ask, table: Tabular, ns: ObjectRef) -> None:
    give("operator", ObjectRef(T.SERVER, Server.objects.get().server_id), user("root"))
    locations = {
        "server": {}, "project": {}, "warehouse": {"warehouse-id": str(table.warehouse_id)},
        "namespace": {"warehouse-id": str(table.warehouse_id), "namespace-id": str(ns[1])},
        "table": by_id(table), "view": by_id(table), "generic-table": by_id(table),
    }  # fmt: skip
    give("operator", ObjectRef(T.SERVER, Server.objects.get().server_id), user("root"))
    for kind, location in locations.items():
        context = {"destination": ["elsewhere"]} if kind == "namespace" else {}
        checks = [
            {"operation": {kind: {"action": {"action": action.value, **context}, **location}}}
            for action in ACTIONS_ON[T(kind)]
        ]
        is_there = kind not in {"view", "generic-table"}
        assert reported(ask("root", *checks)) == [is_there] * len(checks)
        assert reported(ask("bob", *checks)) == [False] * len(checks)


# --- others ------------------------------------------------------------------------------------------------------


def test_readers_of_grants_may_check_others(ask: Ask, table: Tabular) -> None:
    give("select", ObjectRef(T.TABLE, table.pk), user("ann"))
    give("manage_grants", ObjectRef(T.TABLE, table.pk), user("chief"))
    checks = [on_table(table, "read_data"), on_table(table, "write_data")]
    about_ann = [of({"user": "oidc~ann"}, each) for each in checks]
    assert reported(ask("chief", *about_ann)) == [True, False]
    assert reported(ask("chief", *checks)) == [False, False]
    response = ask("bob", *about_ann, checks[0])
    assert reported(response) == ["CannotInspectPermissions"] * 2 + [False]
    assert response.json()["results"][0]["error"] == {
        "message": "oidc~bob may not check permissions of oidc~ann on this table",
        "type": "CannotInspectPermissions",
        "code": 403,
    }
    assert reported(ask("ann", *about_ann)) == [True, False], "oneself by name"
    assert reported(ask("chief", *(of({"user": "oidc~unheard-of"}, each) for each in checks))) == [False, False]


def test_a_denied_check_of_another_user_does_not_affect_the_rest(ask: Ask, table: Tabular) -> None:
    give("select", ObjectRef(T.TABLE, table.pk), user("ann"))
    ann = {"user": "oidc~ann"}
    garbage = [None, 7, [], {}, {"operation": {}}, {"operation": {"table": {"action": {"action": "fly"}}}}]
    response = ask(
        "ann", on_table(table), of({"user": "oidc~bob"}, on_table(table)), *garbage, of(ann, on_table(table))
    )
    expected = [True, "CannotInspectPermissions", *["BadRequestException"] * len(garbage), True]
    assert reported(response) == expected
    assert {each["error"]["code"] for each in response.json()["results"][2:-1]} == {400}


def test_errors_are_for_callers_that_ask_for_them(ask: Ask, table: Tabular) -> None:
    give("select", ObjectRef(T.TABLE, table.pk), user("ann"))
    checks = [on_table(table), of({"user": "oidc~bob"}, on_table(table)), 7]
    with_errors = ask("ann", *checks).json()["results"]
    plain = CallerClient(CHECK, "ann").post("", {"checks": checks}).json()["results"]
    assert plain == [{"id": str(at), "allowed": at == 0} for at in range(3)]
    assert [each.pop("error", {}).get("code") for each in with_errors] == [None, 403, 400]
    assert with_errors == plain


def test_roles_are_asked_about_by_their_id(ask: Ask, table: Tabular) -> None:
    readers = role("readers")
    give("select", ObjectRef(T.TABLE, table.pk), user("ann"), to=readers)
    give("assignee", ObjectRef(T.ROLE, readers.pk), user("ann"))
    give("manage_grants", ObjectRef(T.WAREHOUSE, table.warehouse_id), user("chief"))
    about = of({"role": str(readers.pk).upper()}, on_table(table))
    unknown = of({"role": NO_ONE}, on_table(table))
    assert reported(ask("chief", about, unknown)) == [True, "RoleIdNotFound"]
    assert reported(ask("ann", on_table(table), about, unknown)) == [True, *["CannotInspectPermissions"] * 2]
    assert ask("chief", unknown).json()["results"][0]["error"]["code"] == 404


def test_in_an_assumed_role_oneself_is_the_role(callers: NamedCallers, table: Tabular) -> None:
    readers = role("readers")
    give("select", ObjectRef(T.TABLE, table.pk), user("ann"), to=readers)
    give("assignee", ObjectRef(T.ROLE, readers.pk), user("ann"))
    give("modify", ObjectRef(T.TABLE, table.pk), user("ann"))
    callers.user("ann")
    checks = [
        on_table(table, "read_data"), on_table(table, "write_data"),
        of({"role": str(readers.pk)}, on_table(table, "read_data")),
        of({"user": "oidc~ann"}, on_table(table, "write_data")),
    ]  # fmt: skip
    headers = {"x-assume-role": str(readers.pk), **WITH_ERRORS}
    response = CallerClient(CHECK, "ann").post("", {"checks": checks}, **headers)
    assert reported(response) == [True, False, True, "CannotInspectPermissions"]


def test_token_roles_count_for_the_caller(callers: NamedCallers, table: Tabular) -> None:
    engineers = role("eng", source="eng")
    give("select", ObjectRef(T.TABLE, table.pk), user("bob"), to=engineers)
    callers.user("ann", roles=("eng",))
    named = of({"user": "oidc~ann"}, on_table(table))
    assert reported(CallerClient(CHECK, "ann").post("", {"checks": [on_table(table), named]})) == [True, True]


# --- no oracle ---------------------------------------------------------------------------------------------------


def probes(table: Tabular, elsewhere: Warehouse) -> list[dict[str, Any]]:
    """One list of operations per kind of object: hidden, missing, dropped, of another project, of another type."""
    warehouse = {"warehouse-id": str(table.warehouse_id)}
    read = {"action": {"action": "read_data"}}
    return [
        {"table": {**read, **by_id(table)}},
        {"table": {**read, **warehouse, "namespace": ["ns"], "table": "t"}},
        {"table": {**read, **warehouse, "table-id": NO_ONE}},
        {"table": {**read, **warehouse, "table-id": str(table.pk)}},
        {"table": {**read, **warehouse, "namespace": ["ns"], "table": "missing"}},
        {"table": {**read, **warehouse, "namespace": ["missing"], "table": "t"}},
        {"table": {**read, "warehouse-id": NO_ONE, "table-id": str(table.uuid)}},
        {"table": {**read, "warehouse-id": str(elsewhere.pk), "table-id": str(table.uuid)}},
        {"table": {**read, **warehouse, "namespace": ["n\x00s"], "table": "t"}},
        {"table": {**read, **warehouse, "namespace": ["ns"], "table": "t\x00"}},
        {"table": {**read, **warehouse, "namespace": ["n\x1fs"], "table": "' OR 1=1 --"}},
    ]


def test_checks_for_oneself_cannot_distinguish_hidden_from_missing(
    ask: Ask, table: Tabular, elsewhere: Warehouse
) -> None:
    results = ask("bob", *({"id": "x", "operation": each} for each in probes(table, elsewhere))).json()["results"]
    assert all(each == {"id": "x", "allowed": False} for each in results)
    kinds: dict[str, list[dict[str, Any]]] = {
        "warehouse": [{"warehouse-id": each} for each in (str(table.warehouse_id), str(elsewhere.pk), NO_ONE)],
        "namespace": [
            {"warehouse-id": str(table.warehouse_id), **each}
            for each in ({"namespace": ["ns"]}, {"namespace": ["x"]}, {"namespace-id": str(table.namespace_id)},
                         {"namespace-id": NO_ONE})
        ],
    }  # fmt: skip
    for kind, locations in kinds.items():
        checks = [{"operation": {kind: {"action": {"action": "get_metadata"}, **location}}} for location in locations]
        assert reported(ask("bob", *checks)) == [False] * len(locations)


def test_checks_for_others_cannot_distinguish_hidden_from_missing(
    ask: Ask, table: Tabular, elsewhere: Warehouse
) -> None:
    give("ownership", ObjectRef(T.TABLE, table.pk), user("ann"))
    asked = [{"id": "x", "identity": {"user": "oidc~ann"}, "operation": each} for each in probes(table, elsewhere)]
    first, *others = ask("bob", *asked).json()["results"]
    assert first["error"]["type"] == "CannotInspectPermissions"
    assert all(each == first for each in others)
    projects = [
        of({"user": "oidc~ann"}, {"operation": {"project": {"action": {"action": "delete"}, "project-id": each}}})
        for each in ("other", "none", str(get_project(None).pk))
    ]
    assert reported(ask("bob", *projects)) == ["CannotInspectPermissions"] * 3
    with counting() as one:
        ask("bob", asked[0])
    with counting() as another:
        ask("bob", asked[2])
    assert one == another


def test_warehouse_managers_are_denied_missing_objects(ask: Ask, table: Tabular, elsewhere: Warehouse) -> None:
    give("manage_grants", ObjectRef(T.WAREHOUSE, table.warehouse_id), user("chief"))
    give("ownership", ObjectRef(T.TABLE, table.pk), user("ann"))
    asked = [{"identity": {"user": "oidc~ann"}, "operation": each} for each in probes(table, elsewhere)]
    refused = "CannotInspectPermissions"
    assert reported(ask("chief", *asked)) == [
        True,
        True,
        False,
        False,
        False,
        False,
        refused,
        refused,
        False,
        False,
        False,
    ]
    view = {"warehouse-id": str(table.warehouse_id), "namespace": ["ns"], "view": "t", "action": {"action": "select"}}
    assert reported(ask("chief", of({"user": "oidc~ann"}, {"operation": {"view": view}}))) == [False]


def test_missing_objects_are_404_on_request(ask: Ask, table: Tabular, elsewhere: Warehouse) -> None:
    give("select", ObjectRef(T.TABLE, table.pk), user("ann"))
    give("describe", ObjectRef(T.WAREHOUSE, elsewhere.pk), user("bob"))
    warehouse = {"warehouse-id": str(table.warehouse_id)}
    get = {"action": {"action": "get_metadata"}}
    strict = {"error-on-not-found": True}
    assert reported(ask("ann", on_table(table, "write_data"), on_table(table), **strict)) == [False, True]
    for name, operation, wire_type in (
        ("bob", {"table": {"action": {"action": "read_data"}, **by_id(table)}}, "NoSuchTableException"),
        ("ann", {"table": {**get, **warehouse, "table-id": NO_ONE}}, "NoSuchTableException"),
        ("ann", {"table": {**get, **warehouse, "namespace": ["ns"], "table": "u"}}, "NoSuchTableException"),
        ("ann", {"view": {**get, **warehouse, "namespace": ["ns"], "table": "t"}}, "NoSuchViewException"),
        ("ann", {"generic-table": {**get, **by_id(table)}}, "NoSuchGenericTableException"),
        ("bob", {"namespace": {**get, **warehouse, "namespace": ["ns"]}}, "NoSuchNamespaceException"),
        ("ann", {"namespace": {**get, **warehouse, "namespace": ["x"]}}, "NoSuchNamespaceException"),
        ("bob", {"warehouse": {**get, **warehouse}}, "NoSuchWarehouseException"),
        ("ann", {"warehouse": {**get, "warehouse-id": str(elsewhere.pk)}}, "NoSuchWarehouseException"),
        ("ann", {"project": {**get, "project-id": "none"}}, "ProjectNotFound"),
    ):
        assert ask(name, {"operation": operation}, **strict).refused(404, wire_type)
        assert reported(ask(name, {"operation": operation}, **{"error-on-not-found": False})) == [False]
    hidden = ask("bob", {"operation": {"table": {**get, **by_id(table)}}}, **strict).error["message"]
    missing = ask("bob", {"operation": {"table": {**get, **warehouse, "table-id": NO_ONE}}}, **strict).error["message"]
    assert hidden.replace(str(table.uuid), NO_ONE) == missing
    about_others = of({"user": "oidc~ann"}, {"operation": {"table": {**get, **warehouse, "table-id": NO_ONE}}})
    assert reported(ask("bob", about_others, **strict)) == ["CannotInspectPermissions"]
    assert reported(ask("ann", {"operation": {"project": get}}, **strict)) == [True]


def test_dropped_tables_and_inactive_warehouses_are_asked_about(
    ask: Ask, client: Callable[[str], CallerClient], table: Tabular, soft_delete: int
) -> None:
    give("modify", ObjectRef(T.TABLE, table.pk), user("ann"))
    assert client("root").delete("/namespaces/ns/tables/t").status == 204
    assert Tabular.objects.get().deleted_at is not None
    Warehouse.objects.update(status="inactive")
    named = {"warehouse-id": str(table.warehouse_id), "namespace": ["ns"], "table": "t"}
    undrop = {"operation": {"table": {"action": {"action": "undrop"}, **named}}}
    assert reported(ask("ann", on_table(table, "undrop"), undrop)) == [True, False]


# --- cost --------------------------------------------------------------------------------------------------------


@pytest.fixture
def many(table: Tabular) -> list[dict[str, Any]]:
    """A thousand operations on 300 existing tables, by id and by name, and on missing ones."""
    namespace = Namespace.objects.get()
    rows = [
        Tabular(
            warehouse_id=table.warehouse_id, namespace=namespace, kind="table", uuid=new_id(), name=f"m{n}",
            name_key=f"m{n}", location=f"{table.location}-{n}", metadata_location=f"{table.location}-{n}/m.json",
        )
        for n in range(300)
    ]  # fmt: skip
    Tabular.objects.bulk_create(rows)
    above = Securable.objects.get(pk=f"namespace:{namespace.pk}")
    Securable.objects.bulk_create(
        Securable(
            id=f"table:{row.pk}", type="table", object_id=str(row.pk), parent=above, path=f"{above.path}table:{row.pk}/"
        )
        for row in rows
    )
    warehouse = {"warehouse-id": str(table.warehouse_id)}
    read, select, listed = ({"action": {"action": each}} for each in ("read_data", "select", "list_tables"))
    return [
        *({"table": {**read, **warehouse, "table-id": str(row.uuid)}} for row in rows),
        *({"table": {**read, **warehouse, "namespace": ["ns"], "table": row.name}} for row in rows),
        *({"view": {**select, **warehouse, "namespace": ["ns"], "view": row.name}} for row in rows),
        *({"namespace": {**listed, **warehouse, "namespace": [f"x{n}"]}} for n in range(98)),
        {"project": {"action": {"action": "get_metadata"}}},
        {"server": {"action": {"action": "list_users"}}},
    ]


def test_a_thousand_checks_cost_as_many_statements_as_a_few(
    ask: Ask, many: list[dict[str, Any]], table: Tabular, builtin: BuiltinAuthorizer
) -> None:
    give("select", ObjectRef(T.NAMESPACE, table.namespace_id), user("ann"))
    give("operator", ObjectRef(T.SERVER, Server.objects.get().server_id), user("chief"))
    counted: dict[str, dict[str, int]] = {}
    verdicts: list[bool] = []
    few = [many[0], many[300], many[600], many[900], many[998], many[999]]
    for name, asked in (("few", few), ("thousand", many)):
        for caller, identity in (("ann", None), ("chief", {"user": "oidc~ann"})):
            checks = [{"operation": each} if identity is None else of(identity, {"operation": each}) for each in asked]
            ask(caller, *checks)  # a registered user, and the process knows the id of the server
            builtin.clear_caches()
            with counting() as seen:
                response = ask(caller, *checks)
            verdicts = reported(response)
            counted[f"batch_check.{name}.{'oneself' if identity is None else 'another'}"] = dict(seen)
    assert verdicts == [True] * 600 + [False] * 398 + [True, False]
    for about in ("oneself", "another"):
        assert counted[f"batch_check.few.{about}"] == counted[f"batch_check.thousand.{about}"]
    require_as_recorded("authorization", counted)
