"""Layouts, alternative spellings, expired metadata files and purges on a real MinIO, whose keys are bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from catalog.models import LocationClaim, Tabular
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tasks.models import Task
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project
from tests.catalog_fixtures import SCHEMA
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import keep_secrets
from tests.parts.minio import Minio
from tests.parts.recorder import Recorded, Recorder, Reply

pytestmark = pytest.mark.django_db

BY_NAME = {"type": "full-hierarchy", "namespace": "{name}", "tabular": "{name}"}
READABLE = {"type": "full-hierarchy", "namespace": "{name}", "tabular": "{name}-{uuid}"}
KEPT, DELETE = "write.metadata.previous-versions-max", "write.metadata.delete-after-commit.enabled"
T = "/namespaces/ns/tables/t"


class Lake:
    """A warehouse in `bucket`, its catalog client and the keys in the bucket."""

    def __init__(self, minio: Minio, bucket: str, **members: Any) -> None:
        profile = minio.profile(bucket, "wh", **members)
        self.minio, self.bucket = minio, bucket
        self.warehouse = create_warehouse(
            actor=INTERNAL,
            project=get_project(None),
            name="lake",
            storage_profile=profile,
            storage_credential=minio.credential,
        )
        self.base = f"s3://{bucket}/wh"
        self.catalog = ApiClient(f"/catalog/v1/{self.warehouse.pk}")

    def namespace(self, *levels: str) -> str:
        response = self.catalog.post("/namespaces", {"namespace": levels or ["ns"]})
        assert response.status == 200, response.body
        location: str = response.json()["properties"]["location"]
        return location

    def create(self, name: str = "t", **more: Any) -> Response:
        return self.catalog.post("/namespaces/ns/tables", {"name": name, "schema": SCHEMA, **more})

    def commit(self, update: dict[str, Any]) -> Response:
        return self.catalog.post(T, {"requirements": [], "updates": [update]})

    def set(self, **properties: str) -> Response:
        return self.commit({"action": "set-properties", "updates": properties})

    def put(self, key: str, body: bytes = b"x") -> None:
        self.minio.client().put_object(Bucket=self.bucket, Key=key, Body=body)

    def keys(self) -> list[str]:
        return self.minio.keys(self.bucket)


@pytest.fixture
def lake(minio: Minio, bucket: str, bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Lake]:
    keep_secrets(monkeypatch)
    return lambda **members: Lake(minio, bucket, **members)


def key_of(location: str) -> str:
    return location.split("/", 3)[3]


def test_names_become_keys_byte_by_byte(lake: Any, do_tasks: Callable[[], int]) -> None:
    created = lake(**{"storage-layout": READABLE})
    assert created.namespace() == f"{created.base}/ns/"
    assert created.namespace("ns", "a/b ü%") == f"{created.base}/ns/a%2Fb%20%C3%BC%25/"
    response = created.catalog.post("/namespaces/ns%1Fa%2Fb%20%C3%BC%25/tables", {"name": "*?", "schema": SCHEMA})
    location = response.json()["metadata"]["location"]
    assert location == f"{created.base}/ns/a%2Fb%20%C3%BC%25/%2A%3F-{Tabular.objects.get().uuid}"
    assert created.keys() == [key_of(response.json()["metadata-location"])]
    assert created.keys()[0].startswith("wh/ns/a%2Fb%20%C3%BC%25/%2A%3F-")
    folder = key_of(location)
    neighbours = [f"{folder.replace('%2A', '*')}/x", f"{folder}x/x", folder, f"{folder.replace('%2F', '/')}/x"]
    for key in (*neighbours, f"{folder}/data/x.parquet"):
        created.put(key)
    target = "/namespaces/ns%1Fa%2Fb%20%C3%BC%25/tables/%2A%3F"
    assert created.catalog.get(target).json()["metadata"] == response.json()["metadata"]
    assert created.catalog.delete(f"{target}?purgeRequested=true").status == 204
    assert do_tasks() == 1
    assert created.keys() == sorted(neighbours)


@pytest.mark.parametrize("name", ["..", "n" * 255 + "x", "ü" * 50])
def test_names_that_are_no_folder(lake: Any, name: str) -> None:
    created = lake(**{"storage-layout": BY_NAME})
    created.namespace()
    response = created.create(name)
    assert response.status == 400
    assert created.keys() == []
    assert not Tabular.objects.exists()


def test_the_same_name_again(lake: Any) -> None:
    created = lake(**{"storage-layout": BY_NAME})
    created.namespace()
    for _ in range(3):
        response = created.create()
        assert response.json()["metadata"]["location"] == f"{created.base}/ns/t"
        created.put("wh/ns/t/data/x.parquet")
        assert created.catalog.delete(f"{T}?purgeRequested=true").status == 204
    assert created.create().status == 200
    assert not Task.objects.live().exists()
    assert len(created.keys()) == 1
    assert created.catalog.delete(T).status == 204
    assert created.create().refused(400, "InvalidLocation", "Unexpected files")


def test_a_table_may_be_spelled_s3a_where_that_is_allowed(lake: Any, do_tasks: Callable[[], int]) -> None:
    created = lake(**{"allow-alternative-protocols": True})
    created.namespace()
    spelled = f"s3a://{created.bucket}/wh/t"
    response = created.create(location=f"{spelled}/", properties={KEPT: "1", DELETE: "true"})
    assert response.json()["metadata"]["location"] == spelled
    assert response.json()["metadata-location"].startswith(f"{spelled}/metadata/")
    assert Tabular.objects.get().location == f"{created.base}/t"
    for taken in (f"{created.base}/t", f"s3n://{created.bucket}/wh/t/in", f"{created.base}/t/"):
        assert created.create("u", location=taken).refused(409, "LocationAlreadyTaken")
    for number in range(3):
        assert created.set(n=str(number)).status == 200
    assert len(created.keys()) == 2, "the metadata log keeps one"
    Warehouse.objects.update(storage_profile=created.warehouse.storage_profile | {"allow-alternative-protocols": False})
    last = created.set(n="last")
    assert last.json()["metadata-location"].startswith(f"{spelled}/metadata/")
    for path in (f"{spelled}2", f"s3n://{created.bucket}/wh/t"):
        assert created.commit({"action": "set-location", "location": path}).refused(400, "InvalidLocation", "s3:")
    assert created.set(**{"write.metadata.path": f"{spelled}/md"}).refused(400, "InvalidLocation", "s3:")
    assert created.create("u", location=f"{spelled}2").refused(400, "InvalidLocation", "s3:")
    assert created.catalog.delete(T).status == 204
    register = {"name": "t", "metadata-location": last.json()["metadata-location"]}
    assert created.catalog.post("/namespaces/ns/register", register).refused(400, "InvalidLocation", "s3:")
    same_file = register | {"metadata-location": register["metadata-location"].replace("s3a:", "s3:")}
    assert created.catalog.post("/namespaces/ns/register", same_file).refused(400, "InvalidLocation", "s3:")
    Warehouse.objects.update(storage_profile=created.warehouse.storage_profile)
    assert created.catalog.post("/namespaces/ns/register", register).status == 200
    assert created.commit({"action": "set-location", "location": f"{created.base}/t"}).status == 200
    assert not LocationClaim.objects.exists(), "it has not moved"
    assert created.catalog.delete(f"{T}?purgeRequested=true").status == 204
    assert do_tasks() == 1
    assert created.keys() == []


@pytest.mark.parametrize(
    "path",
    ["s3://{upper}/wh/t", "s3://{bucket}/wh/../t", "s3://{bucket}/WH/t", "s3://{bucket}//wh/t", "s3:/{bucket}/t"],
)
def test_locations_that_only_look_like_those_of_the_warehouse(lake: Any, path: str) -> None:
    created = lake()
    created.namespace()
    assert created.create().status == 200
    before = created.keys()
    location = path.format(bucket=created.bucket, upper=created.bucket.upper())
    for response in (
        created.create("u", location=location),
        created.create("u", properties={"write.metadata.path": location}),
        created.commit({"action": "set-location", "location": location}),
        created.set(**{"write.metadata.path": location}),
    ):
        assert response.refused(400, "InvalidLocation")
    assert created.keys() == before


def test_one_request_deletes_expired_files_and_none_is_sent_without_any(lake: Any, recorder: Recorder) -> None:
    created = lake(endpoint=recorder.endpoint)
    created.namespace()
    assert created.create(properties={DELETE: "true"}).status == 200
    recorder.requests.clear()
    for number in range(6):
        assert created.set(n=str(number)).status == 200
    assert recorder.asked == ["PUT"] * 6
    assert created.set(**{KEPT: "2"}).status == 200
    assert recorder.asked[6:] == ["PUT", "POST"]
    assert recorder.requests[-1].body.count(b"<Key>") == 5
    assert len(created.keys()) == 3


def test_a_metadata_log_with_paths_outside_the_table_deletes_no_other_files(lake: Any) -> None:
    """Keys are bytes, so `t/../u` is a key of its own; the store gets no request for it."""
    created = lake()
    created.namespace()
    own = created.create(properties={KEPT: "1", DELETE: "true"}).json()
    victim = created.create("u").json()["metadata-location"]
    assert created.catalog.delete(T).status == 204
    location = own["metadata"]["location"]
    way = victim.removeprefix(created.base)
    log = [
        victim, f"{location}/..{way}", f"{location}/%2e%2e{way}", f"{location}//{way}", f"{location}2/a.metadata.json",
        victim.replace("s3:", "s3a:"), victim.replace("s3:", "S3:"), f"s3://{created.bucket}/a.metadata.json",
        f"{location}/data/x.parquet", own["metadata-location"], own["metadata-location"].replace("s3:", "s3n:"),
        f"{location}/metadata/mine.metadata.json",
    ]  # fmt: skip
    at = own["metadata"]["last-updated-ms"]
    metadata = own["metadata"] | {"metadata-log": [{"metadata-file": each, "timestamp-ms": at} for each in log]}
    folder = key_of(location)
    kept = ["a.metadata.json", f"{folder}/data/x.parquet", f"{folder}2/a.metadata.json", key_of(victim)]
    for key in (*kept[:3], f"{folder}/metadata/mine.metadata.json"):
        created.put(key)
    created.put(key_of(own["metadata-location"]), json.dumps(metadata).encode())
    register = {"name": "t", "metadata-location": own["metadata-location"]}
    assert created.catalog.post("/namespaces/ns/register", register).status == 200
    committed = created.set(a="b")
    now_there = [key_of(committed.json()["metadata-location"]), key_of(own["metadata-location"])]
    assert created.keys() == sorted([*kept, *now_there]), "only the file named mine is deleted"


def test_expired_files_that_cannot_be_deleted_do_not_fail_the_commit(lake: Any, recorder: Recorder) -> None:
    created = lake(endpoint=recorder.endpoint)
    created.namespace()
    assert created.create(properties={DELETE: "true", KEPT: "1"}).status == 200
    assert created.set(n="1").status == 200

    def deny(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        return (
            ask()
            if request.method not in {"POST", "DELETE"}
            else Reply(403, {}, b"<Error><Code>AccessDenied</Code></Error>")
        )

    recorder.answerer = deny
    assert created.set(n="2").status == 200
    assert len(created.keys()) == 3
    assert created.catalog.get(T).json()["metadata"]["properties"]["n"] == "2"
