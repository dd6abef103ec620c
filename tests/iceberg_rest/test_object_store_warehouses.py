"""Warehouses on every type of object store: namespaces get their locations without a request to the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catalog.models import Namespace
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project
from tests.harness.fingerprint import take_fingerprint
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import keep_secrets
from tests.storage.test_credentials import ALL
from tests.storage.test_profiles_azure import ADLS, LAKEHOUSE, ONELAKE, WORKSPACE
from tests.storage.test_profiles_gcs import GCS

pytestmark = pytest.mark.django_db

KEYS = {(each["type"], each["credential-type"]): each for each in ALL}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "s3": (
        {"type": "s3", "bucket": "my-bucket", "key-prefix": "wh", "region": "eu-1"},
        KEYS["s3", "access-key"],
        "s3://my-bucket/wh",
    ),
    "bucket": ({"type": "s3", "bucket": "my-bucket", "region": "eu-1"}, KEYS["s3", "access-key"], "s3://my-bucket"),
    "adls": (
        ADLS | {"key-prefix": "wh"},
        KEYS["az", "shared-access-key"],
        "abfss://my-files@account1.dfs.core.windows.net/wh",
    ),
    "onelake": (
        ONELAKE,
        KEYS["az", "client-credentials"],
        f"abfss://{WORKSPACE}@onelake.dfs.fabric.microsoft.com/{LAKEHOUSE}/Files",
    ),
    "gcs": (GCS | {"key-prefix": "wh"}, KEYS["gcs", "service-account-key"], "gs://my-bucket/wh"),
}


@pytest.fixture(params=KINDS)
def stored(request: pytest.FixtureRequest, bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    keep_secrets(monkeypatch)
    profile, credential, _ = KINDS[request.param]
    created = create_warehouse(
        actor=INTERNAL, project=get_project(None), name="wh", storage_profile=profile, storage_credential=credential
    )
    assert created.location == KINDS[request.param][2]
    return created


@pytest.fixture
def catalog(stored: Warehouse) -> ApiClient:
    return ApiClient(f"/catalog/v1/{stored.pk}")


def create(catalog: ApiClient, name: str, location: str | None = None) -> Any:
    properties = {} if location is None else {"location": location}
    return catalog.post("/namespaces", {"namespace": [name], "properties": properties})


def test_the_catalog_has_the_warehouse(stored: Warehouse) -> None:
    config = ApiClient("/catalog/v1").get("/config?warehouse=wh")
    assert config.json()["defaults"]["prefix"] == str(stored.pk)


def test_namespaces_have_their_locations_in_the_store(stored: Warehouse, catalog: ApiClient) -> None:
    own = create(catalog, "own").json()["properties"]
    assert own["location"] == f"{stored.location}/"
    assert create(catalog, "chosen", f"{stored.location}/a b/ü/").json()["properties"]["location"].endswith("/a b/ü/")
    assert catalog.get("/namespaces/chosen").json()["properties"]["location"] == f"{stored.location}/a b/ü/"
    kept = {"updates": {"location": f"{stored.location}/a b/ü", "a": "b"}}
    assert catalog.post("/namespaces/chosen/properties", kept).status == 200
    moved = {"updates": {"location": f"{stored.location}/other"}}
    assert catalog.post("/namespaces/chosen/properties", moved).refused(400, "LocationCannotBeUpdated")
    assert catalog.delete("/namespaces/own").status == 204
    assert [row.path for row in Namespace.objects.all()] == ["chosen"]


def test_namespaces_stay_in_the_warehouse(stored: Warehouse, catalog: ApiClient, storage_root: Path) -> None:
    before = take_fingerprint(storage_root)
    for location in (
        stored.location, f"{stored.location}/", f"{stored.location}2/a", f"{stored.location}/../a", "file:///tmp/a",
        f"{stored.location}/a//b", f"{stored.location}/a?b", "s3://other/wh/a", f"{stored.location}/{'x' * 2000}",
        stored.location.replace("s3:", "s3a:").replace("abfss:", "wasbs:").replace("gs:", "gcs:") + "/a", "", "\x01",
    ):  # fmt: skip
        assert create(catalog, "ns", location).refused(400, "InvalidLocation"), location
    assert take_fingerprint(storage_root) == before


def test_other_spellings_of_the_scheme_need_leave(bootstrapped: None) -> None:
    profile = KINDS["s3"][0]
    project = get_project(None)
    for allowed, name in ((True, "a"), (False, "b")):
        own = profile | {"key-prefix": name, "allow-alternative-protocols": allowed}
        created = create_warehouse(actor=INTERNAL, project=project, name=name, storage_profile=own)
        response = create(ApiClient(f"/catalog/v1/{created.pk}"), "ns", f"s3a://my-bucket/{name}/x")
        if allowed:
            assert response.json()["properties"]["location"] == "s3://my-bucket/a/x/"
        else:
            assert response.refused(400, "InvalidLocation", "must begin with s3:")
