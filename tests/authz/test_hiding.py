"""Hidden objects are reported as missing: the same status, type and text, and no audit row before the response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from catalog.models import Tabular
from catalog.services.namespaces import create, drop, move
from catalog.services.tables import undrop
from storage.models import Warehouse
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import VIEW, user
from tests.authz.hidden_object_fixtures import reported
from tests.authz.tree_fixtures import give
from tests.catalog_fixtures import SCHEMA
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient
from tests.harness.wsgi_client import Response

pytestmark = [pytest.mark.django_db]

Client = Callable[[str], CallerClient]
Call = Callable[[CallerClient, str], Response]

COMMIT: dict[str, Any] = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": "v"}}]}


def on_table(act: Callable[[CallerClient, str], Response]) -> Call:
    return lambda client, name: act(client, f"/namespaces/closed/tables/{name}")


TABLE_CALLS: dict[str, Call] = {
    "load": on_table(lambda client, at: client.get(at)),
    "credentials": on_table(lambda client, at: client.get(f"{at}/credentials")),
    "commit": on_table(lambda client, at: client.post(at, COMMIT)),
    "drop": on_table(lambda client, at: client.delete(at)),
    "unregister": on_table(lambda client, at: client.post(f"{at}/unregister", {})),
    "metrics": on_table(lambda client, at: client.post(f"{at}/metrics", REPORT)),
    "rename": lambda client, name: client.post(
        "/tables/rename",
        {"source": {"namespace": ["closed"], "name": name}, "destination": {"namespace": ["open"], "name": "mine"}},
    ),
    "transaction": lambda client, name: client.post(
        "/transactions/commit",
        {"table-changes": [{"identifier": {"namespace": ["closed"], "name": name}, **COMMIT}]},
    ),
    "creation in a transaction": lambda client, name: client.post(
        "/transactions/commit",
        {"table-changes": [{"identifier": {"namespace": ["closed"], "name": name}, **CREATE}]},
    ),
}
CREATE: dict[str, Any] = {"requirements": [{"type": "assert-create"}], "updates": []}
REPORT: dict[str, Any] = {
    "report-type": "commit-report", "table-name": "t", "snapshot-id": 1, "sequence-number": 1, "operation": "append",
    "metrics": {},
}  # fmt: skip


NAMESPACE_CALLS: dict[str, Callable[[CallerClient, str], Response]] = {
    "load": lambda client, name: client.get(f"/namespaces/{name}"),
    "properties": lambda client, name: client.post(f"/namespaces/{name}/properties", {"updates": {"k": "v"}}),
    "drop": lambda client, name: client.delete(f"/namespaces/{name}"),
    "drop all": lambda client, name: client.delete(f"/namespaces/{name}?recursive=true&force=true"),
    "tables": lambda client, name: client.get(f"/namespaces/{name}/tables"),
    "views": lambda client, name: client.get(f"/namespaces/{name}/views"),
    "children": lambda client, name: client.get(f"/namespaces?parent={name}"),
    "create below": lambda client, name: client.post("/namespaces", {"namespace": [name, "mine"]}),
    "create table": lambda client, name: client.post(f"/namespaces/{name}/tables", {"name": "m", "schema": SCHEMA}),
    "create view": lambda client, name: client.post(f"/namespaces/{name}/views", {"name": "m", **VIEW}),
    "register": lambda client, name: client.post(
        f"/namespaces/{name}/register", {"name": "m", "metadata-location": "file:///nowhere/at/all.json"}
    ),
    "rename into": lambda client, name: client.post(
        "/tables/rename",
        {"source": {"namespace": ["open"], "name": "a"}, "destination": {"namespace": [name], "name": "mine"}},
    ),
}


@pytest.mark.parametrize(
    ("act", "hidden", "missing", "named", "wire_type"),
    [
        *((act, "a", "nowhere", "closed.{}", "NoSuchTableException") for act in TABLE_CALLS.values()),
        *((act, "closed", "nolose", "{}", "NoSuchNamespaceException") for act in NAMESPACE_CALLS.values()),
    ],
    ids=[*(f"table {name}" for name in TABLE_CALLS), *(f"namespace {name}" for name in NAMESPACE_CALLS)],
)
def test_hidden_objects_are_reported_as_missing(
    client: Client,
    lake: dict[str, ObjectRef],
    everything: Callable[[], Fingerprint],
    act: Call,
    hidden: str,
    missing: str,
    named: str,
    wire_type: str,
) -> None:
    alice = client("alice")
    give("ownership", lake["open"], user("alice"))
    before = everything()
    of_missing = reported(lambda: act(alice, missing), named.format(missing))
    of_hidden = reported(lambda: act(alice, hidden), named.format(hidden))
    assert of_hidden[:2] == (404, wire_type)
    assert of_hidden == of_missing
    assert everything() == before


def test_visible_objects_are_forbidden_and_not_missing(client: Client, lake: dict[str, ObjectRef]) -> None:
    alice = client("alice")
    give("describe", lake["closed"], user("alice"))
    for name, call in TABLE_CALLS.items():
        if name not in {"load", "metrics"}:
            assert call(alice, "a").refused(403, "TableActionForbidden"), name
    for name in ("properties", "drop", "drop all", "create below", "create table", "create view", "register"):
        assert NAMESPACE_CALLS[name](alice, "closed").refused(403, "NamespaceActionForbidden"), name


def test_a_hidden_warehouse_looks_missing(client: Client, lake: dict[str, ObjectRef], warehouse: Warehouse) -> None:
    alice = client("alice")
    config = CallerClient("/catalog/v1/config", "alice")
    config.get("?warehouse=another")  # the first call registers the caller, which is recorded
    hidden, missing = (reported(lambda name=name: config.get(f"?warehouse={name}"), name) for name in ("wh", "hw"))
    assert hidden[:2] == (404, "NoSuchWarehouseException")
    assert hidden == missing
    assert alice.get("/namespaces").refused(404, "NoSuchWarehouseException")
    management = CallerClient("/management/v1", "alice")
    for target in ("", "/statistics", "/deleted-tabulars"):
        assert management.get(f"/warehouse/{warehouse.pk}{target}").refused(404, "NoSuchWarehouseException")


HIDDEN_BY_ID: dict[str, Callable[[CallerClient, str, object], Response]] = {
    "move": lambda at, base, own_id: at.post(f"{base}/namespace/{own_id}/move", {"destination": ["zz"]}),
    "deleted": lambda at, base, own_id: at.get(f"{base}/deleted-tabulars?namespaceId={own_id}"),
    "search": lambda at, base, own_id: at.post(f"{base}/search-tabular", {"search": "a", "namespace-id": str(own_id)}),
}


@pytest.mark.parametrize("call", HIDDEN_BY_ID)
def test_a_namespace_that_is_hidden_by_its_id_looks_missing(
    client: Client,
    manage: Client,
    lake: dict[str, ObjectRef],
    warehouse: Warehouse,
    call: str,
    everything: Callable[[], Fingerprint],
) -> None:
    client("alice")
    give("ownership", lake["open"], user("alice"))
    before, base, nowhere = everything(), f"/warehouse/{warehouse.pk}", uuid4()
    at = manage("alice")
    own_id = lake["closed"][1]
    missing = reported(lambda: HIDDEN_BY_ID[call](at, base, nowhere), str(nowhere))
    hidden = reported(lambda: HIDDEN_BY_ID[call](at, base, own_id), str(own_id))
    assert hidden[:2] == (404, "NoSuchNamespaceException")
    assert hidden == missing
    assert everything() == before


LOCKING: dict[str, Callable[[CallerClient, CallerClient, str, dict[str, ObjectRef]], Response]] = {
    "move": lambda at, manage, base, lake: manage.post(
        f"{base}/namespace/{lake['closed'][1]}/move", {"destination": ["zz"]}
    ),
    "create below": lambda at, manage, base, lake: at.post("/namespaces", {"namespace": ["closed", "mine"]}),
    "drop all": lambda at, manage, base, lake: at.delete("/namespaces/closed?recursive=true&force=true"),
    "undrop": lambda at, manage, base, lake: manage.post(
        f"{base}/deleted-tabulars/undrop",
        {"targets": [{"type": "table", "id": str(Tabular.objects.get(pk=lake["closed.a"][1]).uuid)}]},
    ),
}


@pytest.mark.parametrize("rights", [None, "describe"])
@pytest.mark.parametrize("call", LOCKING)
def test_denied_requests_lock_nothing(
    client: Client,
    manage: Client,
    lake: dict[str, ObjectRef],
    warehouse: Warehouse,
    call: str,
    rights: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alice, at = client("alice"), manage("alice")
    give("ownership", lake["open"], user("alice"))
    if rights is not None:
        give(rights, lake["closed"], user("alice"))

    def locked(_: object) -> None:
        raise AssertionError("locked for nothing")

    for module in (move, create, drop, undrop):
        monkeypatch.setattr(module, "lock_warehouse", locked)
    response = LOCKING[call](alice, at, f"/warehouse/{warehouse.pk}", lake)
    assert response.status == (404 if rights is None else 403), response.body


def test_only_readers_get_credentials(client: Client, lake: dict[str, ObjectRef]) -> None:
    """A user who may only see a table gets its metadata without credentials."""
    alice = client("alice")
    give("describe", lake["closed.a"], user("alice"))
    loaded = alice.get("/namespaces/closed/tables/a")
    assert loaded.status == 200
    assert loaded.json()["metadata"]["table-uuid"] == str(Tabular.objects.get(pk=lake["closed.a"][1]).uuid)
    assert "storage-credentials" not in loaded.json()
    assert alice.get("/namespaces/closed/tables/a/credentials").refused(403, "TableActionForbidden")
