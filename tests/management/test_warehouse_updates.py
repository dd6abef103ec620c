"""Updates of warehouses: name, status, delete profile, protection and management."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from storage.services import warehouses
from tasks.models import Task
from tenancy.authz.actions import Can
from tenancy.models import Grant, Securable
from tests.harness.fingerprint import Fingerprint
from tests.harness.threads import at_once
from tests.harness.wsgi_client import ApiClient, Response, call
from tests.management.warehouse_request_fixtures import (
    KEY,
    NO_ONE,
    S3,
    call_as,
    forbid,
    keep_secrets,
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


def create(name: str = "s3", **more: Any) -> Response:
    return api.post("/warehouse", {"warehouse-name": name, "storage-profile": S3, **more})


def changed(own: ApiClient, change: str, body: Any) -> dict[str, Any]:
    """Change the warehouse and return it from the response, which must equal its state."""
    response = own.post(f"/{change}", body)
    assert response.status == 200, response.body
    assert own.get().json() == response.json()
    found: dict[str, Any] = response.json()
    return found


def version() -> int:
    return Warehouse.objects.get().version


def test_a_warehouse_on_an_object_store_is_returned_completely(
    bootstrapped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_secrets(monkeypatch)
    soft = {"type": "soft", "expiration-seconds": 604800}
    more = {"storage-credential": KEY, "delete-profile": soft, "allowed-format-versions": [3, 2, 2]}
    created = create(**more, **{"default-format-version": 2, "managed-by": "self-managed"})
    assert created.status == 201, created.body
    shown = created.json()
    assert {key: value for key, value in shown.items() if key not in {"id", "warehouse-id", "updated-at"}} == {
        "name": "s3",
        "project-id": "00000000-0000-0000-0000-000000000000",
        "status": "active",
        "protected": False,
        "managed-by": "self-managed",
        "storage-profile": shown["storage-profile"],
        "storage-credential-type": {"type": "s3", "credential-type": "access-key"},
        "delete-profile": soft,
        "allowed-format-versions": [2, 3],
        "default-format-version": 2,
    }
    assert shown["id"] == shown["warehouse-id"]
    assert S3.items() <= shown["storage-profile"].items()
    assert api.get(f"/warehouse/{shown['id']}").json() == shown
    assert api.get("/warehouse").json() == {"warehouses": [shown]}
    assert api.post("/warehouse", {"warehouse-name": "x", "storage-profile": shown["storage-profile"]}).refused(
        400, "CreateWarehouseStorageProfileOverlap"
    )


@pytest.mark.parametrize(
    ("change", "wire_type"),
    [
        ({"warehouse-name": ""}, "EmptyWarehouseName"),
        ({"warehouse-name": " \t "}, "EmptyWarehouseName"),
        ({"warehouse-name": "x" * 129}, "WarehouseNameTooLong"),
        ({"warehouse-name": "ü" * 65}, "WarehouseNameTooLong"),
        ({"warehouse-name": "x" * 10_000}, "WarehouseNameTooLong"),
        ({"warehouse-name": "a/b"}, "BadRequestException"),
        ({"warehouse-name": "a\x00b"}, "BadRequestException"),
        ({"warehouse-name": "a\u202eb"}, "BadRequestException"),
        ({"warehouse-name": "wh "}, "BadRequestException"),
        ({"warehouse-name": "wh\uffa0"}, "BadRequestException"),
        ({"warehouse-name": None}, "BadRequestException"),
        ({"warehouse-name": ["a"]}, "BadRequestException"),
        ({"allowed-format-versions": []}, "EmptyAllowedFormatVersions"),
        ({"allowed-format-versions": [2], "default-format-version": 3}, "DefaultFormatVersionNotAllowed"),
        ({"allowed-format-versions": [9]}, "BadRequestException"),
        ({"allowed-format-versions": ["2"]}, "BadRequestException"),
        ({"allowed-format-versions": [True]}, "BadRequestException"),
        ({"allowed-format-versions": [2] * 101}, "BadRequestException"),
        ({"default-format-version": 2.5}, "BadRequestException"),
        ({"managed-by": "unknown"}, "BadRequestException"),
        ({"managed-by": ["instance-admin"]}, "BadRequestException"),
        ({"delete-profile": "hard"}, "BadRequestException"),
        ({"storage-profile": "s3"}, "BadRequestException"),
        ({"storage-profile": {"type": "memory"}}, "BadRequestException"),
        ({"storage-credential": "secret"}, "BadRequestException"),
        ({"storage-credential": {}}, "BadRequestException"),
        ({"storage-credential": KEY | {"type": "stackit"}}, "InvalidStorageCredential"),
        ({"project-id": "a b"}, "MalformedProjectID"),
        ({"storage-profile": S3 | {"bucket": "x"}}, "Invalidbucket"),
    ],
)
def test_requests_that_are_refused(
    bootstrapped: None,
    everything: Callable[[], Fingerprint],
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    wire_type: str,
) -> None:
    keep_secrets(monkeypatch)
    before = everything()
    assert create(**change).refused(400, wire_type)
    assert everything() == before


def test_the_creator_of_a_warehouse_owns_it(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    call_as(monkeypatch, "oidc~alice")
    created = create().json()
    grant = Grant.objects.get()
    assert (grant.securable_id, grant.user_id, grant.privilege) == (
        f"warehouse:{created['id']}",
        "oidc~alice",
        "ownership",
    )
    assert api.delete(f"/warehouse/{created['id']}").status == 204
    assert not Grant.objects.exists()
    assert not Securable.objects.filter(type="warehouse").exists()


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
    other = ApiClient(f"/management/v1/warehouse/{create().json()['id']}")
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
    assert create().refused(403, "ProjectActionForbidden", "create_warehouse")
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


def test_only_instance_admins_create_managed_warehouses(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    use_settings(monkeypatch, instance_admins=["oidc~alice"])
    marker = {"managed-by": "instance-admin"}
    assert create(**marker).refused(403, "InstanceAdminRequired")
    assert not Warehouse.objects.exists()
    call_as(monkeypatch, "oidc~alice")
    assert create(**marker).json()["managed-by"] == "instance-admin"


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
    assert Task.objects.get().queue == Task.Queue.SOFT_DELETION
    assert own.delete().refused(409, "WarehouseNotEmpty")


def test_a_warehouse_with_tasks_stays(own: ApiClient, warehouse: Warehouse) -> None:
    task = Task.objects.create(
        queue=Task.Queue.TABULAR_PURGE, warehouse_id=warehouse.pk, entity_id=new_id(), payload={}
    )
    assert own.delete("?force=true").refused(409, "WarehouseHasUnfinishedTasks")
    task.delete()
    assert own.delete().status == 204


def test_locations_in_object_stores_are_kept_apart(bootstrapped: None) -> None:
    assert create("one", **{"storage-profile": S3 | {"key-prefix": "a"}}).status == 201
    for prefix in ("a", "/a/", "a/b", None):
        inside = create("two", **{"storage-profile": S3 | {"key-prefix": prefix}})
        assert inside.refused(400, "CreateWarehouseStorageProfileOverlap", "s3://my-bucket")
    first = api.get("/warehouse").json()["warehouses"][0]["id"]
    assert api.post(f"/warehouse/{first}/deactivate").status == 200
    stackit = {"type": "stackit", "bucket": "my-bucket", "region": "eu-1", "sts-enabled": False}
    amazon = S3 | {"key-prefix": "a", "endpoint": "https://s3.eu-1.amazonaws.com"}
    elsewhere = S3 | {"key-prefix": "a", "region": "eu-2"}  # bucket names are unique across regions
    for same in (amazon, elsewhere):
        assert create("two", **{"storage-profile": same}).refused(400, "CreateWarehouseStorageProfileOverlap")
    for number, other in enumerate(
        [S3 | {"key-prefix": "ab"}, S3 | {"key-prefix": "A"}, S3 | {"bucket": "my-bucket-2"}, stackit,
         S3 | {"key-prefix": "a", "endpoint": "http://minio:9000"}]
    ):  # fmt: skip
        assert create(f"n{number}", **{"storage-profile": other}).status == 201
    other_project = {"x-project-id": api.post("/project", {"project-name": "other"}).json()["project-id"]}
    body = {"warehouse-name": "one", "storage-profile": S3 | {"key-prefix": "a"}}
    assert api.post("/warehouse", body, **other_project).status == 201


@in_threads
def test_of_two_warehouses_of_one_name_or_location_one_is_created(bootstrapped: None) -> None:
    for number in range(6):
        locations = [{"storage-profile": S3 | {"key-prefix": f"{number}/{which}"}} for which in "ab"]
        responses = at_once(*(lambda location=location: create(f"n{number}", **location) for location in locations))  # noqa: B023
        assert sorted(response.status for response in responses) == [201, 409]
        [lost] = [response for response in responses if response.status == 409]
        assert lost.refused(409, "WarehouseAlreadyExists")
        locations = [{"storage-profile": S3 | {"key-prefix": f"x{number}{deeper}"}} for deeper in ("", "/y")]
        names = [f"x{number}", f"y{number}"]
        responses = at_once(
            *(
                lambda name=name, location=location: create(name, **location)
                for name, location in zip(names, locations, strict=True)
            )
        )
        assert sorted(response.status for response in responses) == [201, 400]
        [lost] = [response for response in responses if response.status == 400]
        assert lost.refused(400, "CreateWarehouseStorageProfileOverlap")
    assert Warehouse.objects.count() == 12


def test_a_warehouse_that_loses_its_location_at_the_last_moment_leaves_no_folder(
    bootstrapped: None, storage_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def taken_at_the_second_look(*asked: Any, **whose: Any) -> None:
        looks.append(asked)
        if len(looks) == 2:
            raise warehouses.WarehouseOverlap("taken")

    monkeypatch.setattr(warehouses, "require_free_location", taken_at_the_second_look)
    location = {"storage-profile": {"type": "local", "path": str(storage_root / "late")}}
    assert create("late", **location).refused(400, "CreateWarehouseStorageProfileOverlap")
    assert not (storage_root / "late").exists()


@in_threads
def test_changes_at_once_are_all_kept(bootstrapped: None) -> None:
    created = create().json()
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
