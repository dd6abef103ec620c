"""Protection: set and read by id, respected by drops until it is removed or overridden."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from catalog.models import Namespace, Tabular
from catalog.services.namespaces.drop import drop_namespace
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.authz.actions import Can
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import NO_ONE, forbid, refuse, reported

pytestmark = pytest.mark.django_db

KINDS = {
    "namespace": "NoSuchNamespaceException",
    "table": "NoSuchTableException",
    "view": "NoSuchViewException",
    "generic-table": "NoSuchGenericTableException",
}


@pytest.fixture
def api(warehouse: Warehouse) -> ApiClient:
    return ApiClient(f"/management/v1/warehouse/{warehouse.pk}")


@pytest.fixture
def things(catalog: ApiClient, create_table: Callable[..., dict[str, Any]]) -> dict[str, str]:
    """One object of each kind in the namespace `ns`, by the id that clients see; the view is a row only."""
    table = create_table("t")["metadata"]["table-uuid"]
    generic = ApiClient(catalog.base.replace("/catalog/", "/lakekeeper/"))
    assert generic.post("/namespaces/ns/generic-tables", {"name": "g", "format": "lance"}).status == 200
    namespace = Namespace.objects.get()
    view = Tabular.objects.create(
        warehouse_id=namespace.warehouse_id,
        namespace=namespace,
        kind="view",
        uuid="0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44",
        name="v",
        name_key="v",
        location=f"{namespace.location}/v",
        metadata_location=f"{namespace.location}/v/metadata/00000.json",
    )
    return {
        "namespace": str(namespace.pk),
        "table": table,
        "view": str(view.uuid),
        "generic-table": str(Tabular.objects.get(name="g").uuid),
    }


def protected_rows() -> int:
    return Tabular.objects.filter(protected=True).count() + Namespace.objects.filter(protected=True).count()


@pytest.mark.parametrize("kind", KINDS)
def test_protection_is_set_and_returned(api: ApiClient, things: dict[str, str], kind: str) -> None:
    target = f"/{kind}/{things[kind]}/protection"
    before = api.get(target).json()
    assert before["protected"] is False
    for wanted in (True, True, False):
        response = api.post(target, {"protected": wanted})
        assert response.status == 200, response.body
        assert set(response.json()) == {"protected", "updated_at"}
        assert response.json()["protected"] is wanted
        assert api.get(target).json() == response.json()
        assert protected_rows() == int(wanted)
        assert datetime.fromisoformat(response.json()["updated_at"]) > datetime.fromisoformat(before["updated_at"])


def test_a_protected_table_is_dropped_by_force_only(api: ApiClient, catalog: ApiClient, things: dict[str, str]) -> None:
    api.post(f"/table/{things['table']}/protection", {"protected": True})
    for response in (catalog.delete("/namespaces/ns/tables/t"), catalog.post("/namespaces/ns/tables/t/unregister")):
        assert response.refused(409, "ProtectedTabularDeletionWithoutForce", "Table is protected: ns.t")
    assert catalog.get("/namespaces/ns/tables?returnProtectionStatus=true").json()["protection-status"] == [True]
    assert catalog.delete("/namespaces/ns/tables/t?force=true").status == 204
    assert api.get(f"/table/{things['table']}/protection").refused(404, "NoSuchTableException", things["table"])


def test_a_drop_succeeds_after_protection_is_removed(
    api: ApiClient, catalog: ApiClient, things: dict[str, str]
) -> None:
    generic = ApiClient(catalog.base.replace("/catalog/", "/lakekeeper/"))
    target = f"/generic-table/{things['generic-table']}/protection"
    api.post(target, {"protected": True})
    assert generic.get("/namespaces/ns/generic-tables/g").json()["table"]["protected"] is True
    assert generic.delete("/namespaces/ns/generic-tables/g").refused(409, "ProtectedTabularDeletionWithoutForce")
    api.post(target, {"protected": False})
    assert generic.delete("/namespaces/ns/generic-tables/g").status == 204


def test_a_protected_namespace_is_dropped_by_force_only(api: ApiClient, catalog: ApiClient, namespace: str) -> None:
    row = Namespace.objects.get()
    assert api.post(f"/namespace/{row.pk}/protection", {"protected": True}).status == 200
    assert Namespace.objects.get().version == row.version + 1
    assert catalog.get("/namespaces?returnProtectionStatus=true").json()["protection-status"] == [True]
    assert catalog.delete("/namespaces/ns").refused(409, "NamespaceProtected", "Namespace is protected: ns")
    assert Namespace.objects.exists()
    drop_namespace(actor=INTERNAL, warehouse_id=row.warehouse_id, levels=("ns",), force=True)
    assert not Namespace.objects.exists()


def test_protection_follows_a_rename(api: ApiClient, catalog: ApiClient, things: dict[str, str]) -> None:
    target = f"/table/{things['table']}/protection"
    api.post(target, {"protected": True})
    names = [{"namespace": ["ns"], "name": name} for name in ("t", "renamed")]
    assert catalog.post("/tables/rename", {"source": names[0], "destination": names[1]}).status == 204
    assert api.get(target).json()["protected"] is True
    assert catalog.delete("/namespaces/ns/tables/renamed").refused(409, "ProtectedTabularDeletionWithoutForce")


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_objects(api: ApiClient, things: dict[str, str], kind: str) -> None:
    others = [thing for other, thing in things.items() if other != kind]
    hostile = ["no", "%00", "..%2F" + things[kind], things[kind].replace("-", ""), "%7B" + things[kind] + "%7D", "*"]
    for thing in ["0198e0f4-3f6e-7c31-8c7d-000000000000", *others, *hostile]:
        for response in (
            api.get(f"/{kind}/{thing}/protection"),
            api.post(f"/{kind}/{thing}/protection", {"protected": True}),
        ):
            if "%00" in thing:
                assert response.refused(400, "BadRequestException", "NUL")
            else:
                assert response.refused(404, KINDS[kind], "does not exist: ")
    for warehouse_id in ("0198e0f4-3f6e-7c31-8c7d-000000000000", "wh"):
        stranger = ApiClient(f"/management/v1/warehouse/{warehouse_id}")
        assert stranger.get(f"/{kind}/{things[kind]}/protection").refused(404, "NoSuchWarehouseException")
    assert protected_rows() == 0


def test_a_soft_deleted_table_is_not_found(api: ApiClient, things: dict[str, str]) -> None:
    row = Tabular.objects.get(name="t")
    Tabular.objects.filter(pk=row.pk).update(deleted_at=row.updated_at)
    target = f"/table/{things['table']}/protection"
    assert api.get(target).refused(404, "NoSuchTableException")
    assert api.post(target, {"protected": True}).refused(404, "NoSuchTableException")
    assert protected_rows() == 0


@pytest.mark.parametrize(
    "body", [None, {}, [], {"protected": None}, {"protected": "true"}, {"protected": 1}, {"protected": [True]}]
)
def test_protected_is_true_or_false(api: ApiClient, things: dict[str, str], body: Any) -> None:
    for kind, thing in things.items():
        assert api.post(f"/{kind}/{thing}/protection", body).refused(400, "BadRequestException")
    assert protected_rows() == 0


def test_methods_that_protection_does_not_have(api: ApiClient, things: dict[str, str]) -> None:
    assert api.delete(f"/table/{things['table']}/protection").refused(405, "MethodNotAllowedException")
    assert api.get(f"/table/{things['table']}").refused(404, "NotFoundException")


def test_permissions_are_checked(api: ApiClient, things: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = forbid(monkeypatch).asked
    for kind, thing in things.items():
        asked.clear()
        assert api.get(f"/{kind}/{thing}/protection").status == 200
        forbidden = api.post(f"/{kind}/{thing}/protection", {"protected": True})
        assert forbidden.refused(403, f"{kind.title().replace('-', '')}ActionForbidden", "set_protection")
        assert asked == [(Can.GET_METADATA, kind), (Can.SET_PROTECTION, kind)]
    assert protected_rows() == 0


def test_hidden_objects_are_not_found(api: ApiClient, things: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, Can.USE)
    for kind, thing in things.items():
        hidden, missing = (f"/{kind}/{each}/protection" for each in (thing, NO_ONE))
        assert api.get(hidden).refused(404, KINDS[kind])
        assert reported(api.get(hidden), thing) == reported(api.get(missing), NO_ONE)
        protected = {"protected": True}
        assert reported(api.post(hidden, protected), thing) == reported(api.post(missing, protected), NO_ONE)
    assert protected_rows() == 0
