"""Warehouses with the server's own identity share no files with other warehouses of any project."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from storage.credentials import SYSTEM_IDENTITY_TYPES
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.services.projects import create_project
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import S3, keep_secrets, use_settings
from tests.storage import test_profiles_azure, test_profiles_gcs, test_profiles_s3

pytestmark = pytest.mark.django_db

Document = dict[str, Any]

api = ApiClient("/management/v1")
ROLE = "arn:aws:iam::123456789012:role/lake"
OVERLAP = 400, "CreateWarehouseStorageProfileOverlap"
KINDS: dict[str, tuple[Document, Document, Document]] = {
    "s3": (S3 | {"assume-role-arn": ROLE}, test_profiles_s3.SYSTEM, test_profiles_s3.KEY),
    "adls": (test_profiles_azure.ADLS, test_profiles_azure.SYSTEM, test_profiles_azure.SHARED),
    "onelake": (test_profiles_azure.ONELAKE, test_profiles_azure.SYSTEM, test_profiles_azure.CLIENT),
    "gcs": (test_profiles_gcs.GCS, test_profiles_gcs.SYSTEM, test_profiles_gcs.ACCOUNT),
}
"""A profile, the server's identity for it, and a credential of a user."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> tuple[Document, Document, Document]:
    return KINDS[request.param]


@pytest.fixture(autouse=True)
def two_projects(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_secrets(monkeypatch)
    switched_on = dict.fromkeys((f"enable_{cloud}_system_credentials" for cloud in ("aws", "azure", "gcp")), True)
    use_settings(monkeypatch, skip_storage_validation=True, **switched_on)
    create_project(actor=INTERNAL, name="other", project_id="other")


def create(
    name: str, profile: Document, credential: Document, *, route: str = "/warehouse", **headers: str
) -> Response:
    body = {"warehouse-name": name, "storage-profile": profile, "storage-credential": credential}
    return api.post(route, body, **headers)


def own(created: Response) -> ApiClient:
    assert created.status == 201, created.body
    return ApiClient(f"/management/v1/warehouse/{created.json()['id']}")


def location_check(response: Response) -> str:
    (status,) = [each["status"] for each in response.json()["checks"] if each["name"] == "location-exclusive"]
    return str(status)


def test_each_cloud_has_one_here() -> None:
    assert sorted({system["credential-type"] for _, system, _ in KINDS.values()}) == sorted(SYSTEM_IDENTITY_TYPES)


def test_no_user_reaches_files_of_another_project_with_it(
    kind: tuple[Document, Document, Document], everything: Callable[[], Fingerprint]
) -> None:
    profile, system, key = kind
    for first in (key, system):
        there = own(create("payroll", profile, first))
        before = everything()
        refused = create("mine", profile, system, **{"x-project-id": "other"})
        assert refused.refused(*OVERLAP)
        assert "payroll" not in refused.body.decode()
        validated = create("m", profile, system, route="/warehouse-creation-validation", **{"x-project-id": "other"})
        assert location_check(validated) == "failed"
        assert everything() == before
        assert there.delete("?force=true").status == 204


def test_no_user_puts_files_where_another_project_reads_with_it(kind: tuple[Document, Document, Document]) -> None:
    profile, system, key = kind
    there = own(create("early", profile, system))
    assert create("mine", profile, key, **{"x-project-id": "other"}).refused(*OVERLAP)
    assert there.post("/deactivate").status == 200
    assert create("mine", profile, key, **{"x-project-id": "other"}).refused(*OVERLAP)
    assert there.post("/activate").status == 200
    assert there.post("/storage-credential", {"new-storage-credential": key}).status == 200
    assert create("mine", profile, key, **{"x-project-id": "other"}).status == 201


def test_no_warehouse_changes_to_it_at_a_location_of_another_project(
    kind: tuple[Document, Document, Document], everything: Callable[[], Fingerprint]
) -> None:
    profile, system, key = kind
    create("payroll", profile, key)
    mine = own(create("mine", profile, key, **{"x-project-id": "other"}))
    before = everything()
    for route, body in (
        ("/storage-credential", {"new-storage-credential": system}),
        ("/storage", {"storage-profile": profile, "storage-credential": system}),
    ):
        refused = mine.post(route, body)
        assert refused.refused(*OVERLAP)
        assert "payroll" not in refused.body.decode()
    validated = mine.post("/storage/validate-profile", {"storage-profile": profile, "storage-credential": system})
    assert location_check(validated) == "failed"
    assert everything() == before


def test_nor_moves_with_it_to_where_another_project_is() -> None:
    profile, system, key = KINDS["s3"]
    far = S3 | {"endpoint": "https://minio.example.com"}
    create("payroll", profile, key)
    mine = own(create("mine", far, key, **{"x-project-id": "other"}))
    assert mine.post("/storage", {"storage-profile": profile, "storage-credential": system}).refused(*OVERLAP)
    assert mine.post("/storage", {"storage-profile": profile, "storage-credential": key}).status == 200


def test_warehouses_that_share_files_keep_working_and_can_be_separated(
    kind: tuple[Document, Document, Document],
) -> None:
    profile, system, key = kind
    one, other = own(create("one", profile, key)), own(create("two", profile, key, **{"x-project-id": "other"}))
    Warehouse.objects.update(credential_type=system["credential-type"])  # as an earlier version allowed
    assert one.post("/storage", {"storage-profile": profile, "storage-credential": system}).status == 200
    assert one.post("/storage-credential", {"new-storage-credential": key}).status == 200
    assert one.post("/storage-credential", {"new-storage-credential": key}).status == 200
    assert one.post("/storage-credential", {"new-storage-credential": system}).refused(*OVERLAP)
    assert other.post("/storage-credential", {"new-storage-credential": key}).status == 200


def test_sibling_locations_are_free() -> None:
    profile, system, _ = KINDS["gcs"]
    assert create("one", profile | {"key-prefix": "a"}, system).status == 201
    assert create("two", profile | {"key-prefix": "ab"}, system, **{"x-project-id": "other"}).status == 201
    for prefix in (None, "a", "a/b"):
        around = create("three", profile | {"key-prefix": prefix}, system, **{"x-project-id": "other"})
        assert around.refused(*OVERLAP), prefix
