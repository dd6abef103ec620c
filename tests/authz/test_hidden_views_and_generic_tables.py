"""Hidden views and generic tables are reported as missing, by name and by id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import uuid4

import pytest

from catalog.models import Tabular
from storage.models import Warehouse
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import VIEW, user
from tests.authz.hidden_object_fixtures import reported
from tests.authz.test_hiding import COMMIT
from tests.authz.tree_fixtures import give
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient
from tests.harness.wsgi_client import Response

pytestmark = [pytest.mark.django_db]

Client = Callable[[str], CallerClient]
Call = Callable[[CallerClient, str], Response]

LANCE = {"format": "lance"}
NOWHERE = {"metadata-location": "file:///nowhere/at/all.json"}


def renamed(route: str, kept: str) -> Call:
    """Rename objects out of the namespace `closed`, or (with the name `kept` in `open`) into the tested namespace."""

    def rename(client: CallerClient, name: str) -> Response:
        source, destination = {"namespace": ["closed"], "name": name}, {"namespace": ["open"], "name": "mine"}
        if kept:
            source, destination = {"namespace": ["open"], "name": kept}, {"namespace": [name], "name": "mine"}
        return client.post(route, {"source": source, "destination": destination})

    return rename


VIEW_CALLS: dict[str, Call] = {
    "load": lambda client, name: client.get(f"/namespaces/closed/views/{name}"),
    "exists": lambda client, name: client.head(f"/namespaces/closed/views/{name}"),
    "replace": lambda client, name: client.post(f"/namespaces/closed/views/{name}", COMMIT),
    "drop": lambda client, name: client.delete(f"/namespaces/closed/views/{name}"),
    "rename": renamed("/views/rename", ""),
}
VIEWS_CALLS: dict[str, Call] = {
    "register view": lambda client, name: client.post(f"/namespaces/{name}/register-view", {"name": "m", **NOWHERE}),
    "rename view into": renamed("/views/rename", "v"),
}
GENERIC_CALLS: dict[str, Call] = {
    "load": lambda client, name: client.get(f"/namespaces/closed/generic-tables/{name}"),
    "credentials": lambda client, name: client.get(f"/namespaces/closed/generic-tables/{name}/credentials"),
    "drop": lambda client, name: client.delete(f"/namespaces/closed/generic-tables/{name}"),
    "rename": renamed("/generic-tables/rename", ""),
}
GENERICS_CALLS: dict[str, Call] = {
    "generic tables": lambda client, name: client.get(f"/namespaces/{name}/generic-tables"),
    "create generic table": lambda client, name: client.post(
        f"/namespaces/{name}/generic-tables", {"name": "m", **LANCE}
    ),
    "rename generic table into": renamed("/generic-tables/rename", "g"),
}
CALLS = [
    *(("/catalog", f"view: {name}", act, "v", "NoSuchViewException") for name, act in VIEW_CALLS.items()),
    *(("/catalog", name, act, "closed", "NoSuchNamespaceException") for name, act in VIEWS_CALLS.items()),
    *(
        ("/lakekeeper", f"generic table: {name}", act, "g", "NoSuchGenericTableException")
        for name, act in GENERIC_CALLS.items()
    ),
    *(("/lakekeeper", name, act, "closed", "NoSuchNamespaceException") for name, act in GENERICS_CALLS.items()),
]


@pytest.fixture
def alice(client: Client, lake: dict[str, ObjectRef]) -> CallerClient:
    """The owner of `open`, who sees nothing else."""
    created = client("alice")
    give("ownership", lake["open"], user("alice"))
    return created


@pytest.mark.parametrize(
    ("base", "act", "hidden", "wire_type"), [(base, *rest) for base, _, *rest in CALLS], ids=[each[1] for each in CALLS]
)
def test_hidden_objects_are_reported_as_missing(
    alice: CallerClient,
    warehouse: Warehouse,
    everything: Callable[[], Fingerprint],
    base: str,
    act: Call,
    hidden: str,
    wire_type: str,
) -> None:
    at, before = CallerClient(f"{base}/v1/{warehouse.pk}", "alice"), everything()
    missing = "nowhere" if hidden != "closed" else "nolose"
    named = "{}" if hidden == "closed" else "closed.{}"
    of_missing = reported(lambda: act(at, missing), named.format(missing))
    of_hidden = reported(lambda: act(at, hidden), named.format(hidden))
    assert of_hidden[:2] == (404, wire_type)
    assert of_hidden == of_missing
    assert everything() == before


BY_ID: Mapping[str, Callable[[CallerClient, str, str, str], Response]] = {
    "protection": lambda at, base, kind, own_id: at.get(f"{base}/{kind}/{own_id}/protection"),
    "protect": lambda at, base, kind, own_id: at.post(f"{base}/{kind}/{own_id}/protection", {"protected": True}),
    "tags": lambda at, base, kind, own_id: at.get(f"{base}/{kind}/{own_id}/tags"),
    "actions": lambda at, base, kind, own_id: at.get(f"{base}/{kind}/{own_id}/actions"),
    "grants": lambda at, base, kind, own_id: at.get(f"{base}/{kind}/{own_id}/grants"),
    "grant": lambda at, base, kind, own_id: at.post(
        f"{base}/{kind}/{own_id}/grants",
        {"writes": [{"privilege": "select", "principal": {"user": "oidc~alice"}}]},
    ),
    "undrop": lambda at, base, kind, own_id: at.post(
        f"{base}/deleted-tabulars/undrop", {"targets": [{"type": kind, "id": own_id}]}
    ),
}


@pytest.mark.parametrize(
    ("kind", "name", "wire_type"),
    [
        ("table", "a", "NoSuchTableException"),
        ("view", "v", "NoSuchViewException"),
        ("generic-table", "g", "NoSuchGenericTableException"),
    ],
)
@pytest.mark.parametrize("call", BY_ID)
def test_objects_hidden_by_id_are_reported_as_missing(
    alice: CallerClient,
    manage: Client,
    lake: dict[str, ObjectRef],
    warehouse: Warehouse,
    everything: Callable[[], Fingerprint],
    call: str,
    kind: str,
    name: str,
    wire_type: str,
) -> None:
    at, before, base = manage("alice"), everything(), f"/warehouse/{warehouse.pk}"
    uuid, nowhere = str(Tabular.objects.get(pk=lake[f"closed.{name}"][1]).uuid), str(uuid4())
    of_missing = reported(lambda: BY_ID[call](at, base, kind, nowhere), nowhere)
    of_hidden = reported(lambda: BY_ID[call](at, base, kind, uuid), uuid)
    assert of_hidden[:2] == (404, wire_type)
    assert of_hidden[:3] == of_missing[:3]  # unlike names, ids cannot be guessed: the work may differ
    assert everything() == before


def test_visible_objects_are_forbidden_and_not_missing(
    alice: CallerClient, lake: dict[str, ObjectRef], warehouse: Warehouse, everything: Callable[[], Fingerprint]
) -> None:
    give("describe", lake["closed"], user("alice"))
    generic = CallerClient(f"/lakekeeper/v1/{warehouse.pk}", "alice")
    before = everything()
    for name in ("replace", "drop", "rename"):
        assert VIEW_CALLS[name](alice, "v").refused(403, "ViewActionForbidden"), name
    for name in ("credentials", "drop", "rename"):
        assert GENERIC_CALLS[name](generic, "g").refused(403, "GenericTableActionForbidden"), name
    assert VIEWS_CALLS["register view"](alice, "closed").refused(403, "NamespaceActionForbidden")
    assert VIEWS_CALLS["rename view into"](alice, "closed").refused(403, "NamespaceActionForbidden")
    assert GENERICS_CALLS["create generic table"](generic, "closed").refused(403, "NamespaceActionForbidden")
    assert GENERICS_CALLS["rename generic table into"](generic, "closed").refused(403, "NamespaceActionForbidden")
    assert everything() == before


@pytest.mark.parametrize("body", [{"name": "v", **VIEW}, {"name": "g", **LANCE}], ids=["view", "generic table"])
def test_a_name_in_a_hidden_namespace_is_not_reported_as_taken(
    alice: CallerClient, warehouse: Warehouse, body: dict[str, object], everything: Callable[[], Fingerprint]
) -> None:
    """The error is the same whether the name exists there or not."""
    base, route = ("/lakekeeper", "generic-tables") if "format" in body else ("/catalog", "views")
    at, before = CallerClient(f"{base}/v1/{warehouse.pk}", "alice"), everything()
    taken, free = (
        reported(lambda name=name: at.post(f"/namespaces/closed/{route}", body | {"name": name}), name)
        for name in (str(body["name"]), "free")
    )
    assert taken[:2] == (404, "NoSuchNamespaceException")
    assert taken == free
    assert everything() == before
