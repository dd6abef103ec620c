"""Validation of storage before it is saved: each check, on a real MinIO, without leaving files behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from storage.models import Secret, Warehouse
from storage.signing.enforcement import Enforcement
from storage.validation.access import ENFORCEMENT_FINDINGS, NO_VENDING, VALIDATION_DISABLED
from storage.validation.checks import NOT_APPLICABLE, NOT_ATTEMPTED, CheckName
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import keep_secrets, use_settings
from tests.parts.minio import Minio

pytestmark = pytest.mark.django_db

api = ApiClient("/management/v1")
NAMES = [claim.value for claim in CheckName if claim is not CheckName.REMOTE_SIGNING]
"""Without the one that is listed on request alone."""
STORE = NAMES[7:]
VENDING = [claim.value for claim in CheckName if claim.value.startswith("vended")]


@pytest.fixture(autouse=True)
def _stores_are_asked(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_secrets(monkeypatch)
    use_settings(monkeypatch, skip_storage_validation=False)


def results(response: Response) -> dict[str, str]:
    """Return the result of each check in order; all of them are reported."""
    assert response.status == 200, response.body
    reported = response.json()
    assert [each["name"] for each in reported["checks"]] == NAMES
    assert reported["valid"] is all(each["status"] != "failed" for each in reported["checks"])
    for each in reported["checks"]:
        extra = {"passed": {"duration-ms"}, "failed": {"duration-ms", "error"}, "skipped": {"reason"}}[each["status"]]
        assert set(each) == {"name", "status", *extra}
    return {each["name"]: each.get("reason") or each["status"] for each in reported["checks"]}


def error_of(response: Response, name: str) -> dict[str, Any]:
    (error,) = [each["error"] for each in response.json()["checks"] if each["name"] == name]
    return dict(error)


def asked(minio: Minio, bucket: str, **members: Any) -> dict[str, Any]:
    return {"warehouse-name": "wh", **minio.storage(bucket, "a/b", **members)}


def validate(body: dict[str, Any]) -> Response:
    return api.post("/warehouse-creation-validation", body)


def test_working_storage_is_valid_and_no_file_remains(
    minio: Minio, bucket: str, everything: Callable[[], Fingerprint]
) -> None:
    before = everything()
    found = results(validate(asked(minio, bucket)))
    not_concerned = {"profile-compatible": NOT_APPLICABLE, "spec-mutable": NOT_APPLICABLE}
    assert found == dict.fromkeys(found, "passed") | not_concerned
    assert minio.keys(bucket) == []
    assert everything() == before


def test_a_warehouse_is_created_on_working_storage(minio: Minio, bucket: str) -> None:
    created = api.post("/warehouse", asked(minio, bucket))
    assert created.status == 201, created.body
    assert minio.keys(bucket) == []
    own = f"/warehouse/{created.json()['id']}/storage"
    for response in (
        api.post(f"{own}/validate-access"),
        api.post(f"{own}/validate-profile", minio.storage(bucket, "a/b")),
        api.post(f"{own}/validate-credential", {"new-storage-credential": minio.credential}),
    ):
        found = results(response)
        assert {found[name] for name in STORE} == {"passed"}
    assert minio.keys(bucket) == []


def test_without_vending_its_checks_are_skipped(minio: Minio, bucket: str) -> None:
    found = results(validate(asked(minio, bucket, **{"sts-enabled": False})))
    shown = f"{NO_VENDING} {ENFORCEMENT_FINDINGS[Enforcement.NONE]}"
    assert [found[name] for name in VENDING] == [NO_VENDING, NO_VENDING, shown]
    assert found["lakekeeper-read-write"] == found["cleanup"] == "passed"


def test_all_problems_are_reported_at_once(minio: Minio, bucket: str, storage_root: Path) -> None:
    assert api.post("/warehouse", asked(minio, bucket)).status == 201
    body = asked(minio, bucket) | {"allowed-format-versions": [1], "default-format-version": 2}
    response = validate(body | {"managed-by": "instance-admin"})
    failed = {name for name, result in results(response).items() if result == "failed"}
    assert failed == {
        "warehouse-name-valid",
        "location-exclusive",
        "format-version-policy-consistent",
        "managed-by-allowed",
    }
    assert error_of(response, "warehouse-name-valid")["type"] == "WarehouseAlreadyExists"
    assert error_of(response, "location-exclusive")["code"] == 400
    assert api.post("/warehouse", body).refused(409, "WarehouseAlreadyExists")


def test_checks_that_need_a_valid_profile_are_not_attempted(minio: Minio, bucket: str) -> None:
    body = asked(minio, bucket)
    body["storage-profile"]["bucket"] = "NO"
    response = validate(body)
    found = results(response)
    assert error_of(response, "profile-well-formed")["type"] == "Invalidbucket"
    assert {found[name] for name in ("location-exclusive", *STORE)} == {NOT_ATTEMPTED}
    assert found["warehouse-name-valid"] == "passed"


@pytest.mark.parametrize(
    ("wrong", "status", "wire_type"),
    [
        ({"secret-access-key": "wrong-secret"}, 412, "PermissionDenied"),
        ({"access-key-id": "unknown"}, 412, "PermissionDenied"),
    ],
)
def test_a_wrong_key_is_refused(
    minio: Minio, bucket: str, wrong: dict[str, str], status: int, wire_type: str, everything: Callable[[], Fingerprint]
) -> None:
    body = asked(minio, bucket)
    body["storage-credential"] |= wrong
    before = everything()
    response = validate(body)
    assert results(response)["lakekeeper-read-write"] == "failed"
    assert error_of(response, "lakekeeper-read-write")["type"] == wire_type
    assert api.post("/warehouse", body).refused(
        status, wire_type, "Storage validation failed [lakekeeper-read-write]: "
    )
    assert b"wrong-secret" not in response.body
    assert everything() == before
    assert not Secret.objects.exists()


def test_a_missing_bucket_is_rejected(minio: Minio) -> None:
    body = asked(minio, "there-is-none")
    assert results(validate(body))["lakekeeper-read-write"] == "failed"
    response = api.post("/warehouse", body)
    assert response.status == 412
    assert "[lakekeeper-read-write]: The bucket of" in response.json()["error"]["message"]
    assert not Warehouse.objects.exists()


def test_an_unreachable_store_is_reported_and_the_request_can_be_repeated(minio: Minio, bucket: str) -> None:
    with minio.relay.refusing():
        response = api.post("/warehouse", asked(minio, bucket))
        assert response.refused(503, "StorageUnavailableException", "Storage validation failed [")
        assert response.headers["Retry-After"]
    assert api.post("/warehouse", asked(minio, bucket)).status == 201


def test_an_update_is_validated(minio: Minio, bucket: str) -> None:
    created = api.post("/warehouse", asked(minio, bucket)).json()
    own = f"/warehouse/{created['id']}"
    wrong = minio.credential | {"secret-access-key": "wrong"}
    refused = api.post(f"{own}/storage-credential", {"new-storage-credential": wrong})
    assert refused.refused(412, "PermissionDenied", "Storage validation failed [lakekeeper-read-write]: ")
    storage = minio.storage(bucket, "a/b") | {"storage-credential": wrong}
    assert api.post(f"{own}/storage", storage).refused(412, "PermissionDenied")
    moved = api.post(f"{own}/storage/validate-profile", minio.storage(bucket, "a/c"))
    found = results(moved)
    assert found["profile-compatible"] == "failed"
    assert {found[name] for name in ("location-exclusive", *STORE)} == {NOT_ATTEMPTED}
    assert Warehouse.objects.get().version == 1
    assert api.post(f"{own}/storage", minio.storage(bucket, "a/b")).status == 200


def test_a_client_with_retry_after_does_not_retry_early(
    minio: Minio, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings(monkeypatch, skip_storage_validation=True)
    with minio.relay.refusing():
        found = results(validate(asked(minio, bucket)))
        assert {found[name] for name in STORE} == {VALIDATION_DISABLED}
        assert api.post("/warehouse", asked(minio, bucket)).status == 201


def test_a_local_folder_is_validated_and_removed(storage_root: Path) -> None:
    body = {"warehouse-name": "wh", "storage-profile": {"type": "local", "path": str(storage_root / "new")}}
    found = results(validate(body))
    assert [found[name] for name in STORE] == ["passed", "passed", NO_VENDING, NO_VENDING, NO_VENDING, "passed"]
    assert not (storage_root / "new").exists()
    assert api.post("/warehouse", body).status == 201
    assert list((storage_root / "new").iterdir()) == []


def test_validation_needs_a_warehouse(minio: Minio) -> None:
    own = "/warehouse/00000000-0000-0000-0000-000000000009/storage"
    assert api.post(f"{own}/validate-access").refused(404, "NoSuchWarehouseException")
    assert settings.ICEKEEPER.skip_storage_validation is False
