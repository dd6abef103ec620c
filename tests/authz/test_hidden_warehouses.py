"""Requests in a hidden warehouse get the response of a warehouse that does not exist."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from storage.models import Warehouse
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.port import AuthorizationBackendError, authorizer
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import VIEW, user
from tests.authz.hidden_object_fixtures import Reported, reported
from tests.authz.test_hiding import COMMIT, REPORT
from tests.authz.tree_fixtures import give
from tests.catalog_fixtures import SCHEMA
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient
from tests.harness.statement_counts import counting
from tests.harness.wsgi_client import Response

pytestmark = [pytest.mark.django_db]

Client = Callable[[str], CallerClient]
Call = Callable[[CallerClient], Response]
ID = "00000000-0000-4000-8000-000000000001"
KEY = "idempotency-key"

CATALOG: dict[str, Call] = {
    "namespaces": lambda at: at.get("/namespaces"),
    "namespaces below": lambda at: at.get("/namespaces?parent=open"),
    "namespace": lambda at: at.get("/namespaces/open"),
    "namespace nowhere": lambda at: at.get("/namespaces/x"),
    "properties": lambda at: at.post("/namespaces/open/properties", {"updates": {"k": "v"}}),
    "drop namespace": lambda at: at.delete("/namespaces/open"),
    "drop subtree": lambda at: at.delete("/namespaces/open?recursive=true&force=true"),
    "drop with a key": lambda at: at.delete("/namespaces/open", **{KEY: str(uuid4())}),
    "create": lambda at: at.post("/namespaces", {"namespace": ["mine"]}),
    "create below": lambda at: at.post("/namespaces", {"namespace": ["open", "mine"]}),
    "create below nothing": lambda at: at.post("/namespaces", {"namespace": ["x", "mine"]}),
    "tables": lambda at: at.get("/namespaces/open/tables"),
    "views": lambda at: at.get("/namespaces/x/views"),
    "load": lambda at: at.get("/namespaces/open/tables/a"),
    "load nothing": lambda at: at.get("/namespaces/open/tables/x"),
    "load view": lambda at: at.get("/namespaces/open/views/v"),
    "replace view": lambda at: at.post("/namespaces/open/views/v", COMMIT),
    "drop view": lambda at: at.delete("/namespaces/open/views/v"),
    "register view": lambda at: at.post(
        "/namespaces/open/register-view", {"name": "m", "metadata-location": "file:///nowhere/at/all.json"}
    ),
    "rename view": lambda at: at.post(
        "/views/rename",
        {"source": {"namespace": ["open"], "name": "v"}, "destination": {"namespace": ["closed"], "name": "m"}},
    ),
    "credentials": lambda at: at.get("/namespaces/open/tables/a/credentials"),
    "create table": lambda at: at.post("/namespaces/open/tables", {"name": "m", "schema": SCHEMA}),
    "create view": lambda at: at.post("/namespaces/open/views", {"name": "m", **VIEW}),
    "commit": lambda at: at.post("/namespaces/open/tables/a", COMMIT),
    "commit with a key": lambda at: at.post("/namespaces/open/tables/a", COMMIT, **{KEY: str(uuid4())}),
    "drop table": lambda at: at.delete("/namespaces/open/tables/a"),
    "metrics": lambda at: at.post("/namespaces/open/tables/a/metrics", REPORT),
    "rename": lambda at: at.post(
        "/tables/rename",
        {"source": {"namespace": ["open"], "name": "a"}, "destination": {"namespace": ["closed"], "name": "m"}},
    ),
    "transaction": lambda at: at.post(
        "/transactions/commit", {"table-changes": [{"identifier": {"namespace": ["open"], "name": "a"}, **COMMIT}]}
    ),
    "empty transaction": lambda at: at.post("/transactions/commit", {"table-changes": []}),
}

MANAGEMENT: dict[str, Call] = {
    "table protection": lambda at: at.get(f"/table/{ID}/protection"),
    "namespace protection": lambda at: at.get(f"/namespace/{ID}/protection"),
    "protect": lambda at: at.post(f"/table/{ID}/protection", {"protected": True}),
    "tags": lambda at: at.get(f"/table/{ID}/tags"),
    "actions": lambda at: at.get(f"/table/{ID}/actions"),
    "move": lambda at: at.post(f"/namespace/{ID}/move", {"destination": ["zz"]}),
    "undrop": lambda at: at.post("/deleted-tabulars/undrop", {"targets": [{"type": "table", "id": ID}]}),
    "deleted": lambda at: at.get(f"/deleted-tabulars?namespaceId={ID}"),
    "search": lambda at: at.post("/search-tabular", {"search": "a", "namespace-id": ID}),
}


GENERIC: dict[str, Call] = {
    "generic tables": lambda at: at.get("/namespaces/open/generic-tables"),
    "generic tables nowhere": lambda at: at.get("/namespaces/x/generic-tables"),
    "create generic table": lambda at: at.post("/namespaces/open/generic-tables", {"name": "m", "format": "lance"}),
    "create generic table with a key": lambda at: at.post(
        "/namespaces/open/generic-tables", {"name": "m", "format": "lance"}, **{KEY: str(uuid4())}
    ),
    "create generic table nowhere": lambda at: at.post(
        "/namespaces/x/generic-tables", {"name": "m", "format": "lance"}
    ),
    "load generic table": lambda at: at.get("/namespaces/open/generic-tables/g"),
    "load no generic table": lambda at: at.get("/namespaces/open/generic-tables/x"),
    "generic table's credentials": lambda at: at.get("/namespaces/open/generic-tables/g/credentials"),
    "drop generic table": lambda at: at.delete("/namespaces/open/generic-tables/g"),
    "drop generic table with a key": lambda at: at.delete("/namespaces/open/generic-tables/g", **{KEY: str(uuid4())}),
    "rename generic table": lambda at: at.post(
        "/generic-tables/rename",
        {"source": {"namespace": ["open"], "name": "g"}, "destination": {"namespace": ["closed"], "name": "m"}},
    ),
}


def _reported(base: str, warehouse_id: UUID, call: Call) -> Reported:
    at = CallerClient(f"{base}/{warehouse_id}", "alice")
    return reported(lambda: call(at), str(warehouse_id))


@pytest.mark.parametrize("is_watched", [True, False])
@pytest.mark.parametrize(
    ("base", "call"),
    [("/catalog/v1", call) for call in CATALOG.values()]
    + [("/management/v1/warehouse", call) for call in MANAGEMENT.values()]
    + [("/lakekeeper/v1", call) for call in GENERIC.values()],
    ids=[*CATALOG, *MANAGEMENT, *GENERIC],
)
def test_a_hidden_warehouse_is_an_unknown_one(
    client: Client,
    lake: dict[str, ObjectRef],
    warehouse: Warehouse,
    base: str,
    call: Call,
    is_watched: bool,
    monkeypatch: pytest.MonkeyPatch,
    everything: Callable[[], Fingerprint],
) -> None:
    client("alice")
    monkeypatch.setattr(permission_epoch, "is_fresh", lambda: is_watched)  # True in a server
    before = everything()
    hidden, missing = _reported(base, warehouse.pk, call), _reported(base, uuid4(), call)
    assert hidden[:3] == (404, "NoSuchWarehouseException", "Warehouse does not exist: X")
    assert hidden == missing
    assert everything() == before


def test_an_id_in_another_spelling_reveals_no_more(
    client: Client, lake: dict[str, ObjectRef], warehouse: Warehouse
) -> None:
    client("alice")
    at = CallerClient(f"/management/v1/warehouse/{str(warehouse.pk).replace('-', '%2D')}", "alice")
    assert MANAGEMENT["table protection"](at).refused(404, "NoSuchWarehouseException")


def test_viewers_of_a_warehouse_see_which_objects_are_missing(
    client: Client, lake: dict[str, ObjectRef], warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This needs no further statement while their permission is cached."""
    alice = client("alice")
    monkeypatch.setattr(permission_epoch, "is_fresh", lambda: True)
    give("describe", ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk), user("alice"))
    for target, wire_type in {
        "/namespaces/x": "NoSuchNamespaceException",
        "/namespaces/x/tables": "NoSuchNamespaceException",
        "/namespaces/open/tables/x": "NoSuchTableException",
        "/namespaces/open/views/x": "NoSuchViewException",
    }.items():
        assert alice.get(target).refused(404, wire_type)
        with counting() as counted:
            assert alice.get(target).refused(404, wire_type)
        assert counted["statements"] == 1


def test_an_empty_transaction_requires_access_to_the_warehouse(client: Client, lake: dict[str, ObjectRef]) -> None:
    alice = client("alice")
    give("describe", lake["open.a"], user("alice"))
    assert alice.post("/transactions/commit", {"table-changes": []}).status == 204


def test_hidden_and_missing_look_alike_while_undecided(
    client: Client, lake: dict[str, ObjectRef], warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = client("alice")
    give("ownership", lake["open"], user("alice"))

    def away(*_: object) -> list[bool]:
        raise AuthorizationBackendError("no response")

    monkeypatch.setattr(type(authorizer()), "decide", away)
    config = CallerClient("/catalog/v1/config", "alice")
    for response in (
        *(config.get(f"?warehouse={name}") for name in (warehouse.name, "nowhere")),
        *(alice.get(f"/namespaces/closed/tables/{name}") for name in ("a", "nowhere")),
        *(alice.get(f"/namespaces/{name}") for name in ("closed", "nowhere")),
    ):
        assert response.refused(503, "AuthorizationBackendError")
