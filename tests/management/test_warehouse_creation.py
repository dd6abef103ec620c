"""Creation of warehouses: responses, invalid requests, names and locations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage.models import Warehouse
from storage.services import warehouses
from tenancy.models import Grant, Securable
from tests.harness.fingerprint import Fingerprint
from tests.harness.threads import at_once
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import (
    KEY,
    S3,
    call_as,
    keep_secrets,
    post_warehouse,
    use_settings,
)

pytestmark = pytest.mark.django_db
in_threads = pytest.mark.django_db(transaction=True, serialized_rollback=True)

api = ApiClient("/management/v1")


def test_a_warehouse_on_an_object_store_is_returned_completely(
    bootstrapped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_secrets(monkeypatch)
    soft = {"type": "soft", "expiration-seconds": 604800}
    more = {"storage-credential": KEY, "delete-profile": soft, "allowed-format-versions": [3, 2, 2]}
    created = post_warehouse(**more, **{"default-format-version": 2, "managed-by": "self-managed"})
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
    assert post_warehouse(**change).refused(400, wire_type)
    assert everything() == before


def test_the_creator_of_a_warehouse_owns_it(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    call_as(monkeypatch, "oidc~alice")
    created = post_warehouse().json()
    grant = Grant.objects.get()
    assert (grant.securable_id, grant.user_id, grant.privilege) == (
        f"warehouse:{created['id']}",
        "oidc~alice",
        "ownership",
    )
    assert api.delete(f"/warehouse/{created['id']}").status == 204
    assert not Grant.objects.exists()
    assert not Securable.objects.filter(type="warehouse").exists()


def test_only_instance_admins_create_managed_warehouses(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    use_settings(monkeypatch, instance_admins=["oidc~alice"])
    marker = {"managed-by": "instance-admin"}
    assert post_warehouse(**marker).refused(403, "InstanceAdminRequired")
    assert not Warehouse.objects.exists()
    call_as(monkeypatch, "oidc~alice")
    assert post_warehouse(**marker).json()["managed-by"] == "instance-admin"


def test_locations_in_object_stores_are_kept_apart(bootstrapped: None) -> None:
    assert post_warehouse("one", **{"storage-profile": S3 | {"key-prefix": "a"}}).status == 201
    for prefix in ("a", "/a/", "a/b", None):
        inside = post_warehouse("two", **{"storage-profile": S3 | {"key-prefix": prefix}})
        assert inside.refused(400, "CreateWarehouseStorageProfileOverlap", "s3://my-bucket")
    first = api.get("/warehouse").json()["warehouses"][0]["id"]
    assert api.post(f"/warehouse/{first}/deactivate").status == 200
    stackit = {"type": "stackit", "bucket": "my-bucket", "region": "eu-1", "sts-enabled": False}
    amazon = S3 | {"key-prefix": "a", "endpoint": "https://s3.eu-1.amazonaws.com"}
    elsewhere = S3 | {"key-prefix": "a", "region": "eu-2"}  # bucket names are unique across regions
    for same in (amazon, elsewhere):
        assert post_warehouse("two", **{"storage-profile": same}).refused(400, "CreateWarehouseStorageProfileOverlap")
    for number, other in enumerate(
        [S3 | {"key-prefix": "ab"}, S3 | {"key-prefix": "A"}, S3 | {"bucket": "my-bucket-2"}, stackit,
         S3 | {"key-prefix": "a", "endpoint": "http://minio:9000"}]
    ):  # fmt: skip
        assert post_warehouse(f"n{number}", **{"storage-profile": other}).status == 201
    other_project = {"x-project-id": api.post("/project", {"project-name": "other"}).json()["project-id"]}
    body = {"warehouse-name": "one", "storage-profile": S3 | {"key-prefix": "a"}}
    assert api.post("/warehouse", body, **other_project).status == 201


@in_threads
def test_of_two_warehouses_of_one_name_or_location_one_is_created(bootstrapped: None) -> None:
    for number in range(6):
        locations = [{"storage-profile": S3 | {"key-prefix": f"{number}/{which}"}} for which in "ab"]
        responses = at_once(
            *(lambda name=f"n{number}", location=location: post_warehouse(name, **location) for location in locations)
        )
        assert sorted(response.status for response in responses) == [201, 409]
        [lost] = [response for response in responses if response.status == 409]
        assert lost.refused(409, "WarehouseAlreadyExists")
        locations = [{"storage-profile": S3 | {"key-prefix": f"x{number}{deeper}"}} for deeper in ("", "/y")]
        names = [f"x{number}", f"y{number}"]
        responses = at_once(
            *(
                lambda name=name, location=location: post_warehouse(name, **location)
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
    assert post_warehouse("late", **location).refused(400, "CreateWarehouseStorageProfileOverlap")
    assert not (storage_root / "late").exists()
