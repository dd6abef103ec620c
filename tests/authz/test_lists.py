"""Lists contain exactly what the caller may see, in full pages, with a constant number of statements."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from catalog.models import Tabular, WarehouseStatistic
from catalog.selectors import visible_pages
from catalog.selectors.tables import search
from catalog.services.warehouse_statistics import beginning_of_hour, record_hour
from icekeeper.kernel.clock import now
from icekeeper.kernel.http.paging import write_page_token
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.securables import add_securable
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tests.authz.conftest import good, user
from tests.authz.tree_fixtures import give, role
from tests.catalog_fixtures import SCHEMA
from tests.harness.named_callers import CallerClient
from tests.harness.statement_counts import counting

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

Client = Callable[[str], CallerClient]


def names(response_of: CallerClient, target: str, member: str = "identifiers") -> list[str]:
    found = good(response_of.get(target)).json()[member]
    return sorted(each["name"] if isinstance(each, dict) else ".".join(each) for each in found)


def pages(client: CallerClient, target: str, size: int, member: str = "identifiers") -> list[int]:
    """Return the number of items on each page."""
    lengths: list[int] = []
    token: str | None = ""
    while token is not None:
        response = good(client.get(f"{target}?pageSize={size}&pageToken={token}")).json()
        lengths.append(len(response[member]))
        token = response.get("next-page-token")
    return lengths


def test_users_without_grants_see_no_warehouse(client: Client, lake: dict[str, ObjectRef]) -> None:
    alice = client("alice")
    assert alice.get("/namespaces").refused(404, "NoSuchWarehouseException")
    assert alice.get("/namespaces/open/tables").refused(404, "NoSuchWarehouseException")


def test_one_table_shows_itself_and_the_way_to_it(client: Client, lake: dict[str, ObjectRef]) -> None:
    alice = client("alice")
    give("select", lake["closed.deep.a"], user("alice"))
    assert names(alice, "/namespaces", "namespaces") == ["closed"]
    assert names(alice, "/namespaces?parent=closed", "namespaces") == ["closed.deep"]
    assert names(alice, "/namespaces/closed/tables") == []
    assert names(alice, "/namespaces/closed%1Fdeep/tables") == ["a"]
    assert names(alice, "/namespaces/closed%1Fdeep/views") == []
    assert alice.get("/namespaces/open/tables").refused(404, "NoSuchNamespaceException")
    generic = CallerClient(alice.base.replace("/catalog", "/lakekeeper"), "alice")
    assert names(generic, "/namespaces/closed%1Fdeep/generic-tables") == []
    give("describe", lake["closed.deep.g"], user("alice"))
    assert names(generic, "/namespaces/closed%1Fdeep/generic-tables") == ["g"]


def test_a_namespace_shows_all_that_is_in_it(client: Client, lake: dict[str, ObjectRef]) -> None:
    alice = client("alice")
    give("describe", lake["closed"], user("alice"))
    assert names(alice, "/namespaces", "namespaces") == ["closed"]
    assert names(alice, "/namespaces/closed%1Fdeep/tables") == ["a", "b"]
    assert names(alice, "/namespaces/closed%1Fdeep/views") == ["v"]


def test_objects_with_several_grants_are_listed_once(
    client: Client, root: CallerClient, lake: dict[str, ObjectRef]
) -> None:
    alice, roles = client("alice"), [role("readers"), role("writers")]
    for number in range(6):
        created = good(root.post("/namespaces/open/tables", {"name": f"t{number}", "schema": SCHEMA}))
        table = _table(created.json()["metadata"]["table-uuid"])
        give("manage_grants", table, user("alice"))  # which does not include seeing it
        if number in {0, 2, 4}:
            give("select", table, user("alice"))
            give("ownership", table, user("alice"))
        if number in {2, 3}:
            for each in roles:
                give("modify", table, user("alice"), through=each, to=each)
    assert names(alice, "/namespaces/open/tables") == ["t0", "t2", "t3", "t4"]
    assert pages(alice, "/namespaces/open/tables", 3) == [3, 1]


def test_pages_are_full(client: Client, root: CallerClient, lake: dict[str, ObjectRef]) -> None:
    alice = client("alice")
    for number in range(23):
        created = good(root.post("/namespaces/open/tables", {"name": f"t{number:02}", "schema": SCHEMA}))
        if number % 3 == 0:
            give("describe", _table(created.json()["metadata"]["table-uuid"]), user("alice"))
    seen = [f"t{number:02}" for number in range(0, 23, 3)]
    assert names(alice, "/namespaces/open/tables") == seen
    assert pages(alice, "/namespaces/open/tables", 3) == [3, 3, 2]
    assert pages(alice, "/namespaces/open/tables", 8) == [8]
    assert pages(root, "/namespaces/open/tables", 10) == [10, 10, 5]


def test_a_dropped_table_leaves_no_gap_in_a_page(
    client: Client, root: CallerClient, lake: dict[str, ObjectRef], soft_delete: int
) -> None:
    alice = client("alice")
    for number in range(6):
        created = good(root.post("/namespaces/open/tables", {"name": f"t{number}", "schema": SCHEMA}))
        give("describe", _table(created.json()["metadata"]["table-uuid"]), user("alice"))
    for number in (0, 2, 3):
        good(root.delete(f"/namespaces/open/tables/t{number}"))
    assert pages(alice, "/namespaces/open/tables", 2) == [2, 1]
    assert names(alice, "/namespaces/open/tables") == ["t1", "t4", "t5"]


def counts_at(caller: CallerClient, warehouse: Warehouse, query: str = "") -> list[tuple[int, int, int]]:
    """Return the numbers of tables, views and generic tables in the statistics, for each hour."""
    management = CallerClient(f"/management/v1/warehouse/{warehouse.pk}", caller.token)
    extensions = {"x-icekeeper-extensions": "true"}
    shown = good(management.get(f"/statistics{query}", **extensions)).json()["stats"]
    kinds = ("tables", "views", "generic-tables")
    return [tuple(each[f"number-of-{kind}"] for kind in kinds) for each in shown]


def test_statistics_count_what_the_caller_sees(
    client: Client, root: CallerClient, lake: dict[str, ObjectRef], warehouse: Warehouse, soft_delete: int
) -> None:
    alice = client("alice")
    record_hour(warehouse.project_id, beginning_of_hour(now()), now())
    WarehouseStatistic.objects.update(hour=now() - timedelta(hours=5))
    everything = counts_at(root, warehouse)
    assert len(everything) == 2
    give("describe", lake["open.a"], user("alice"))
    assert counts_at(alice, warehouse) == [(1, 0, 0)]
    give("select", lake["open.a"], user("alice"))
    team = role("team")
    give("describe", lake["closed.v"], user("alice"), through=team, to=team)
    assert counts_at(alice, warehouse) == [(1, 1, 0)]
    give("describe", lake["closed.deep"], user("alice"))
    assert counts_at(alice, warehouse) == [(3, 2, 1)]
    give("select", lake["closed.deep.a"], user("alice"))
    assert counts_at(alice, warehouse) == [(3, 2, 1)], "once"
    good(root.delete("/namespaces/open/tables/a"))
    assert counts_at(alice, warehouse) == [(2, 2, 1)]
    forged = write_page_token("warehouse-statistics", now().isoformat())
    assert counts_at(alice, warehouse, f"?page_token={forged}") == []
    give("describe", ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk), user("alice"))
    assert counts_at(alice, warehouse) == counts_at(root, warehouse)


def test_what_statistics_cost_does_not_depend_on_what_there_is(
    client: Client, root: CallerClient, lake: dict[str, ObjectRef], warehouse: Warehouse
) -> None:
    alice, costs = client("alice"), []
    give("describe", lake["open.a"], user("alice"))
    assert counts_at(alice, warehouse) == [(1, 0, 0)]
    for rounds in range(2):
        for number in range(1 + 9 * rounds):
            name = f"n{rounds}{number}"
            good(root.post("/namespaces", {"namespace": [name]}))
            _, created = [
                good(root.post(f"/namespaces/{name}/tables", {"name": table, "schema": SCHEMA})) for table in ("a", "b")
            ]
            give("describe", _table(created.json()["metadata"]["table-uuid"]), user("alice"))
        with counting() as seen:
            assert counts_at(alice, warehouse) == [(2 + 10 * rounds, 0, 0)]
        costs.append(seen["statements"])
    assert costs[0] == costs[1]


@pytest.mark.parametrize("size", [3, 12])
def test_what_a_list_costs_does_not_depend_on_its_length(
    client: Client, root: CallerClient, lake: dict[str, ObjectRef], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, some = client("alice"), client("some")
    give("describe", lake["open"], user("alice"))
    for number in range(size):
        created = good(root.post("/namespaces/open/tables", {"name": f"t{number}", "schema": SCHEMA}))
        if number % 2:
            give("select", _table(created.json()["metadata"]["table-uuid"]), user("some"))
    monkeypatch.setattr(permission_epoch, "is_fresh", lambda: True)  # as in a server
    alice.get("/namespaces/open/tables")
    with counting() as counted:
        assert len(names(alice, "/namespaces/open/tables")) == size + 2
    assert counted["statements"] == 1
    some.get("/namespaces/open/tables")
    with counting() as counted:
        assert len(names(some, "/namespaces/open/tables")) == size // 2
    assert counted["statements"] == 3


def test_a_page_behind_many_dropped_tables_costs_no_more_than_two_rounds(
    client: Client, builtin: object, lake: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = client("alice")
    row = Tabular.objects.get(pk=lake["open.a"][1])
    for number in range(60):
        own_id = new_id()
        Tabular.objects.create(
            id=own_id, warehouse_id=row.warehouse_id, namespace_id=row.namespace_id, kind="table", uuid=own_id,
            name=f"d{number}", name_key=f"d{number}", location=f"x/{own_id}", metadata_location="",
            deleted_at=now() if number < 57 else None,
        )  # fmt: skip
        add_securable(Securable.Type.TABLE, own_id, parent=lake["open"])
        give("describe", ObjectRef(Securable.Type.TABLE, own_id), user("alice"))
    monkeypatch.setattr(permission_epoch, "is_fresh", lambda: True)
    good(alice.get("/namespaces/open/tables"))
    with counting() as counted:
        response = good(alice.get("/namespaces/open/tables?pageSize=1&pageToken=")).json()
    assert [each["name"] for each in response["identifiers"]] == ["d57"]
    assert counted["statements"] <= 7
    assert pages(alice, "/namespaces/open/tables", 2) == [2, 1]


def test_one_warehouse_of_many_costs_two_questions(
    manage: Client, lake: dict[str, ObjectRef], warehouse: Warehouse, storage_root: Path
) -> None:
    alice = manage("alice")
    *_, last = [
        create_warehouse(
            actor=INTERNAL, project=get_project(None), name=f"w{number}",
            storage_profile={"type": "local", "path": str(storage_root / f"w{number}")},
        )
        for number in range(20)
    ]  # fmt: skip
    give("describe", ObjectRef(Securable.Type.WAREHOUSE, last.pk), user("alice"))
    alice.get("/whoami")
    with counting() as counted:
        response = good(alice.get("/warehouse?pageSize=1&pageToken=")).json()
    assert [each["name"] for each in response["warehouses"]] == ["w19"]
    assert counted["statements"] <= 9


@pytest.mark.parametrize("listing", ["deleted", "search"])
def test_a_request_looks_at_so_many_candidates_and_no_more(
    client: Client, manage: Client, root: CallerClient, lake: dict[str, ObjectRef], warehouse: Warehouse,
    soft_delete: int, monkeypatch: pytest.MonkeyPatch, listing: str,
) -> None:  # fmt: skip
    """The page is then short, and its token continues the list: for callers with too many grants to start from them."""
    client("alice")
    monkeypatch.setattr("tenancy.authz.builtin.visible_objects.MAX_GRANTS", 0)
    for number in range(9):
        created = good(root.post("/namespaces/open/tables", {"name": f"zebra{number}", "schema": SCHEMA}))
        if number == 8:
            give("ownership", _table(created.json()["metadata"]["table-uuid"]), user("alice"))
    if listing == "deleted":
        for number in range(9):
            good(root.delete(f"/namespaces/open/tables/zebra{number}"))
    monkeypatch.setattr(visible_pages, "MAX_SCANNED", 4)
    for module in (visible_pages, search):
        monkeypatch.setattr(module, "BATCH_SIZE", 2)
    at, lengths = manage("alice"), list[int]()
    token: str | None = ""
    while token is not None:
        base = f"/warehouse/{warehouse.pk}"
        query = f"?pageSize=5&pageToken={token}"
        if listing == "deleted":
            response = good(at.get(f"{base}/deleted-tabulars{query}")).json()
        else:
            response = good(
                at.post(f"{base}/search-tabular", {"search": "zebra", "page-size": 5, "page-token": token})
            ).json()
        lengths.append(len(response["tabulars"]))
        token = response.get("next-page-token")
        assert len(lengths) < 20
    assert sum(lengths) == 1
    assert lengths[:2] == [0, 0]
    if listing == "deleted":
        monkeypatch.setattr("tenancy.authz.builtin.visible_objects.MAX_GRANTS", 9)
        response = good(at.get(f"/warehouse/{warehouse.pk}/deleted-tabulars?pageSize=5&pageToken=")).json()
        assert len(response["tabulars"]) == 1


def _table(uuid: str) -> ObjectRef:
    return ObjectRef(Securable.Type.TABLE, Tabular.objects.get(uuid=uuid).pk)
