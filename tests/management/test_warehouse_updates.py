"""Updates of warehouses: name, status, delete profile, protection and management."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tasks.models import Task
from tenancy.authz.actions import Can
from tests.harness.fingerprint import Fingerprint
from tests.harness.threads import at_once
from tests.harness.wsgi_client import ApiClient, Response, call
from tests.management.warehouse_request_fixtures import (
    NO_ONE,
    S3,
    call_as,
    forbid,
    post_warehouse,
    refuse,
    reported,
    use_settings,
)

pytestmark = pytest.mark.django_db
in_threads = pytest.mark.django_db(transaction=True, serialized_rollback=True)

api = ApiClient("/management/v1")

CHANGES: dict[str, Any] = {
    "rename": {"new-name": "other"},
    "activate": None,
    "deactivate": None,
    "delete-profile": {"delete-profile": {"type": "soft", "expiration-seconds": 5}},
    "format-version-policy": {"allowed-format-versions": [2, 3]},
    "protection": {"protected": True},
    "managed-by": {"managed-by": "instance-admin"},
    "storage": {"storage-profile": {"type": "local"}},
    "storage-credential": {},
}
"""Every change that a warehouse has, as it is asked for."""


@pytest.fixture
def own(warehouse: Warehouse) -> ApiClient:
    """A client of the warehouse `wh`, on local files."""
    return ApiClient(f"/management/v1/warehouse/{warehouse.pk}")


def changed(own: ApiClient, change: str, body: Any) -> dict[str, Any]:
    """Change the warehouse and return it from the response, which must equal its state."""
    response = own.post(f"/{change}", body)
    assert response.status == 200, response.body
    assert own.get().json() == response.json()
    found: dict[str, Any] = response.json()
    return found


def version() -> int:
    return Warehouse.objects.get().version


def test_every_change_returns_the_new_state(own: ApiClient) -> None:
    before = own.get().json()
    assert changed(own, "rename", {"new-name": "Renamed"})["name"] == "Renamed"
    soft = {"type": "soft", "expiration-seconds": 60}
    assert changed(own, "delete-profile", {"delete-profile": soft})["delete-profile"] == soft
    assert changed(own, "delete-profile", {"delete-profile": {"type": "hard"}})["delete-profile"] == {"type": "hard"}
    policy = {"allowed-format-versions": [3, 2], "default-format-version": 3}
    shown = changed(own, "format-version-policy", policy)
    assert (shown["allowed-format-versions"], shown["default-format-version"]) == ([2, 3], 3)
    shown = changed(own, "format-version-policy", {"allowed-format-versions": [1]})
    assert (shown["allowed-format-versions"], shown["default-format-version"]) == ([1], None)
    assert version() == 6
    assert datetime.fromisoformat(shown["updated-at"]) > datetime.fromisoformat(before["updated-at"])
    for member in ("id", "status", "storage-profile", "protected", "managed-by"):
        assert shown[member] == before[member]


def test_requests_without_a_difference_change_nothing(own: ApiClient, everything: Callable[[], Fingerprint]) -> None:
    before = everything()
    changed(own, "rename", {"new-name": "wh"})
    changed(own, "delete-profile", {"delete-profile": {"type": "hard"}})
    changed(own, "format-version-policy", {"allowed-format-versions": [3, 2, 1]})
    assert own.post("/activate").status == 200
    assert own.post("/protection", {"protected": False}).status == 200
    assert everything() == before
    assert version() == 1


def test_protection(own: ApiClient) -> None:
    response = own.post("/protection", {"protected": True})
    assert set(response.json()) == {"protected", "updated_at"}
    assert response.json()["protected"] is own.get().json()["protected"] is True
    assert response.json()["updated_at"] == own.get().json()["updated-at"]
    assert own.delete().refused(409, "WarehouseProtected", "wh")
    assert own.delete("?force=perhaps").refused(400, "BadRequestException", "force")
    assert own.delete("?force=true").status == 204
    assert own.get().refused(404, "NoSuchWarehouseException")


def test_names_are_unique_in_a_project(own: ApiClient, bootstrapped: None) -> None:
    other = ApiClient(f"/management/v1/warehouse/{post_warehouse().json()['id']}")
    assert other.post("/rename", {"new-name": "WH"}).refused(409, "WarehouseAlreadyExists")
    assert other.get().json()["name"] == "s3"
    assert other.post("/rename", {"new-name": "S3"}).json()["name"] == "S3"
    project_id = api.post("/project", {"project-name": "other"}).json()["project-id"]
    elsewhere = api.post("/warehouse", {"warehouse-name": "wh", "storage-profile": S3}, **{"x-project-id": project_id})
    assert elsewhere.status == 201
    assert elsewhere.json()["project-id"] == project_id
    assert [each["name"] for each in api.get("/warehouse").json()["warehouses"]] == ["wh", "S3"]
    assert api.get(f"/warehouse?projectId={project_id}").json() == {"warehouses": [elsewhere.json()]}


@pytest.mark.parametrize(
    ("change", "body", "wire_type"),
    [
        ("rename", {"new-name": ""}, "EmptyWarehouseName"),
        ("rename", {"new-name": "x" * 10_000}, "WarehouseNameTooLong"),
        ("rename", {"new-name": "a/b"}, "BadRequestException"),
        ("rename", {"new-name": 7}, "BadRequestException"),
        ("delete-profile", {"delete-profile": {}}, "BadRequestException"),
        ("delete-profile", {"delete-profile": None}, "BadRequestException"),
        ("delete-profile", {"delete-profile": {"type": "soft"}}, "BadRequestException"),
        ("delete-profile", {"delete-profile": {"type": "soft", "expiration-seconds": -1}}, "BadRequestException"),
        ("format-version-policy", {"allowed-format-versions": []}, "EmptyAllowedFormatVersions"),
        ("format-version-policy", {"allowed-format-versions": None}, "BadRequestException"),
        (
            "format-version-policy",
            {"allowed-format-versions": [1], "default-format-version": 2},
            "DefaultFormatVersionNotAllowed",
        ),
        ("protection", {"protected": "true"}, "BadRequestException"),
        ("managed-by", {"managed-by": "unknown"}, "BadRequestException"),
        ("storage", {"storage-profile": None}, "BadRequestException"),
        *((change, {}, "BadRequestException") for change in CHANGES if CHANGES[change] and change != "managed-by"),
    ],
)
def test_changes_that_are_refused(
    own: ApiClient, everything: Callable[[], Fingerprint], change: str, body: Any, wire_type: str
) -> None:
    before = everything()
    assert own.post(f"/{change}", body).refused(400, wire_type)
    assert everything() == before


@pytest.mark.parametrize("change", CHANGES)
def test_unknown_warehouses(
    warehouse: Warehouse, everything: Callable[[], Fingerprint], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    use_settings(monkeypatch, instance_admins=["oidc~alice"])
    call_as(monkeypatch, "oidc~alice")
    before = everything()
    for warehouse_id in (NO_ONE, "wh", str(warehouse.pk).replace("-", ""), f"%7B{warehouse.pk}%7D", "x" * 500):
        missing = ApiClient(f"/management/v1/warehouse/{warehouse_id}")
        assert missing.post(f"/{change}", CHANGES[change]).refused(404, "NoSuchWarehouseException")
    assert everything() == before


def test_permissions_are_checked(
    own: ApiClient, everything: Callable[[], Fingerprint], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, asked = everything(), forbid(monkeypatch).asked
    for change, body in CHANGES.items():
        expected = "InstanceAdminRequired" if change == "managed-by" else "WarehouseActionForbidden"
        assert own.post(f"/{change}", body).refused(403, expected)
    assert own.delete("?force=true").refused(403, "WarehouseActionForbidden", "delete")
    assert post_warehouse().refused(403, "ProjectActionForbidden", "create_warehouse")
    assert api.get("/warehouse").refused(403, "ProjectActionForbidden", "list_warehouses")
    on_it = [
        Can.RENAME, Can.ACTIVATE, Can.DEACTIVATE, Can.MODIFY_SOFT_DELETION, Can.SET_FORMAT_VERSION_POLICY,
        Can.SET_PROTECTION, Can.UPDATE_STORAGE, Can.UPDATE_STORAGE, Can.DELETE,
    ]  # fmt: skip
    on_project = [(Can.CREATE_WAREHOUSE, "project"), (Can.LIST_WAREHOUSES, "project")]
    assert asked == [(action, "warehouse") for action in on_it] + on_project
    asked = refuse(monkeypatch, Can.USE).asked
    assert own.get().refused(403, "WarehouseActionForbidden", "get_metadata")
    assert asked == [(Can.GET_METADATA, "warehouse")]
    assert everything() == before


def test_a_hidden_warehouse_looks_missing(
    own: ApiClient, everything: Callable[[], Fingerprint], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing, named = ApiClient(f"/management/v1/warehouse/{NO_ONE}"), own.base.rpartition("/")[2]
    before = everything()
    refuse(monkeypatch)
    assert own.get().refused(404, "NoSuchWarehouseException")
    assert reported(own.get(), named) == reported(missing.get(), NO_ONE)
    assert reported(own.delete("?force=true"), named) == reported(missing.delete("?force=true"), NO_ONE)
    for change, body in CHANGES.items():
        hidden, nothing = own.post(f"/{change}", body), missing.post(f"/{change}", body)
        if change == "managed-by":
            assert hidden.error["message"] == nothing.error["message"]
            assert hidden.refused(403, "InstanceAdminRequired")
        else:
            assert reported(hidden, named) == reported(nothing, NO_ONE), change
    assert everything() == before


def test_a_managed_warehouse_is_changed_by_instance_admins_only(
    own: ApiClient, catalog: ApiClient, everything: Callable[[], Fingerprint], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings(monkeypatch, instance_admins=["oidc~alice"])
    marker = {"managed-by": "instance-admin"}
    for user in (None, "oidc~bob"):
        if user:
            call_as(monkeypatch, user)
        assert own.post("/managed-by", marker).refused(403, "InstanceAdminRequired", "LAKEKEEPER__INSTANCE_ADMINS")
    call_as(monkeypatch, "oidc~alice", assumed_role=new_id())
    assert own.post("/managed-by", marker).refused(403, "InstanceAdminRequired")
    call_as(monkeypatch, "oidc~alice")
    assert changed(own, "managed-by", marker)["managed-by"] == "instance-admin"
    assert version() == 2

    call_as(monkeypatch, "oidc~bob")
    before = everything()
    for change, body in CHANGES.items():
        expected = "InstanceAdminRequired" if change == "managed-by" else "WarehouseManaged"
        assert own.post(f"/{change}", body).refused(403, expected)
    assert own.delete("?force=true").refused(403, "WarehouseManaged")
    assert everything() == before
    assert own.get().json()["managed-by"] == "instance-admin"
    assert catalog.post("/namespaces", {"namespace": ["ns"]}).status == 200, "its contents are not affected"
    assert catalog.delete("/namespaces/ns").status == 204

    call_as(monkeypatch, "oidc~alice")
    assert changed(own, "rename", {"new-name": "admin's"})["name"] == "admin's"
    assert changed(own, "managed-by", {"managed-by": "self-managed"})["managed-by"] == "self-managed"
    call_as(monkeypatch, "oidc~bob")
    assert own.delete().status == 204


def test_the_catalog_does_not_find_an_inactive_warehouse(
    own: ApiClient, catalog: ApiClient, create_table: Callable[..., dict[str, Any]], warehouse: Warehouse
) -> None:
    """Also with cached metadata, ETags and idempotency records."""
    generic = ApiClient(catalog.base.replace("/catalog/", "/lakekeeper/"))
    table = create_table()
    once = {"idempotency-key": str(new_id())}
    body = {"name": "u", "schema": table["metadata"]["schemas"][0]}
    assert catalog.post("/namespaces/ns/tables", body, **once).status == 200
    etag = catalog.get("/namespaces/ns/tables/t").headers["ETag"]
    assert catalog.get("/namespaces/ns/tables/t", **{"if-none-match": etag}).status == 304

    def requests() -> list[Response]:
        config = ApiClient("/catalog/v1")
        return [
            config.get("/config?warehouse=wh"),
            catalog.get("/namespaces"),
            catalog.get("/namespaces/ns"),
            catalog.get("/namespaces/ns/tables"),
            catalog.get("/namespaces/ns/tables/t"),
            catalog.get("/namespaces/ns/tables/t", **{"if-none-match": etag}),
            catalog.get("/namespaces/ns/tables/t", **{"if-none-match": "*"}),
            catalog.get("/namespaces/ns/tables/t?snapshots=refs"),
            catalog.get("/namespaces/ns/tables/t/credentials"),
            catalog.post("/namespaces/ns/tables", body, **once),
            catalog.post("/namespaces/ns/tables", {"name": "v", "schema": body["schema"]}),
            catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": []}),
            catalog.post("/transactions/commit", {"table-changes": []}),
            catalog.delete("/namespaces/ns/tables/t"),
            catalog.post("/namespaces", {"namespace": ["other"]}),
            catalog.post("/namespaces/ns/properties", {"updates": {"a": "b"}}),
            catalog.delete("/namespaces/ns?recursive=true"),
            generic.get("/namespaces/ns/generic-tables"),
            generic.post("/namespaces/ns/generic-tables", {"name": "g", "format": "lance"}),
        ]

    response = own.post("/deactivate")
    assert (response.status, response.body) == (200, b"")
    assert own.get().json()["status"] == "inactive"
    for each in requests():
        assert each.refused(404, "NoSuchWarehouseException")
    assert api.get("/warehouse").json() == {"warehouses": []}
    assert api.get("/warehouse?warehouseStatus=inactive").json() == {"warehouses": [own.get().json()]}
    assert own.post("/rename", {"new-name": "x"}).refused(404, "WarehouseNotActive")
    assert changed(own, "delete-profile", {"delete-profile": {"type": "soft", "expiration-seconds": 5}})
    response = own.post("/activate")
    assert (response.status, response.body) == (200, b"")
    assert Warehouse.objects.get().version == 4
    assert catalog.get("/namespaces/ns/tables/t", **{"if-none-match": etag}).status == 304
    assert catalog.post("/namespaces/ns/tables", body, **once).json()["metadata"]["location"]


def test_new_settings_apply_to_later_requests(
    own: ApiClient, catalog: ApiClient, create_table: Callable[..., dict[str, Any]]
) -> None:
    create_table("old")
    changed(own, "format-version-policy", {"allowed-format-versions": [3]})
    assert create_table("new")["metadata"]["format-version"] == 3
    body = {"name": "x", "schema": create_table("y")["metadata"]["schemas"][0], "properties": {"format-version": "2"}}
    assert catalog.post("/namespaces/ns/tables", body).refused(400, "FormatVersionNotAllowed")
    assert catalog.get("/namespaces/ns/tables/old").json()["metadata"]["format-version"] == 2
    changed(own, "delete-profile", {"delete-profile": {"type": "soft", "expiration-seconds": 60}})
    assert catalog.delete("/namespaces/ns/tables/old").status == 204
    assert Task.objects.live().get().queue == Task.Queue.SOFT_DELETION
    assert own.delete().refused(409, "WarehouseNotEmpty")


def test_a_warehouse_with_tasks_stays(own: ApiClient, warehouse: Warehouse) -> None:
    task = Task.objects.create(
        queue=Task.Queue.TABULAR_PURGE, warehouse_id=warehouse.pk, entity_id=new_id(), payload={}
    )
    assert own.delete("?force=true").refused(409, "WarehouseHasUnfinishedTasks")
    task.delete()
    assert own.delete().status == 204


@in_threads
def test_changes_at_once_are_all_kept(bootstrapped: None) -> None:
    created = post_warehouse().json()
    own = ApiClient(f"/management/v1/warehouse/{created['id']}")
    rounds = 8
    for number in range(rounds):
        policy = {"allowed-format-versions": [2, 3] if number % 2 else [1, 2, 3]}
        soft = {"type": "soft", "expiration-seconds": number}
        responses = at_once(
            lambda: own.post("/rename", {"new-name": f"n{number}"}),  # noqa: B023
            lambda: own.post("/delete-profile", {"delete-profile": soft}),  # noqa: B023
            lambda: own.post("/format-version-policy", policy | {"default-format-version": 2 + number % 2}),  # noqa: B023
            lambda: own.post("/storage", {"storage-profile": S3 | {"sts-token-validity-seconds": number}}),  # noqa: B023
        )
        assert {response.status for response in responses} == {200}
        shown = own.get().json()
        assert (shown["name"], shown["delete-profile"]) == (f"n{number}", soft)
        assert shown["default-format-version"] == 2 + number % 2
        assert shown["storage-profile"]["sts-token-validity-seconds"] == number
    assert version() == 1 + 4 * rounds


def test_methods_that_changes_do_not_have(warehouse: Warehouse) -> None:
    own = f"/management/v1/warehouse/{warehouse.pk}"
    for change in CHANGES:
        assert call("GET", f"{own}/{change}").refused(405, "MethodNotAllowedException")
        assert call("DELETE", f"{own}/{change}").refused(405, "MethodNotAllowedException")
