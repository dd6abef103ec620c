"""Life cycle of tables, views and generic tables on real object stores: create, commit, load, drop, purge."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from catalog.models import Tabular
from catalog.selectors.tables import load, metadata_cache, targets
from catalog.selectors.tables.metadata_cache import MetadataCache
from catalog.services import metrics_reports
from storage.io.object_store import RemoteStore
from storage.io.stores import store_for
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tasks.models import Task
from tasks.workers.worker import Worker
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project
from tests.catalog_fixtures import SCHEMA
from tests.harness.statement_counts import counting
from tests.harness.wsgi_client import ApiClient, Response
from tests.iceberg_rest.test_query_counts import operations
from tests.management.warehouse_request_fixtures import keep_secrets, use_settings
from tests.parts.minio import Minio
from tests.parts.recorder import Recorded, Recorder, Reply
from tests.storage.cloud_fixtures import azure, gcs

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


NOTHING_VENDED = {"sts-enabled": False, "sas-enabled": False}
"""Neither the emulator of Azure nor that of Google Cloud takes credentials for folders."""


@dataclass(frozen=True)
class Remote:
    """A warehouse on a real store, and the names in the store below it."""

    warehouse: Warehouse
    list_names: Callable[[], list[str]]

    def names(self) -> list[str]:
        """Return the names relative to the warehouse's folder."""
        return [name.removeprefix("wh/") for name in self.list_names()]

    def read(self, location: str) -> bytes:
        data = store_for(self.warehouse.storage).get(location, limit=10_000_000)
        return gzip.decompress(data) if location.endswith(".gz.metadata.json") else data

    def put(self, name: str, data: bytes = b"x") -> str:
        location = f"{self.warehouse.location}/{name}"
        store_for(self.warehouse.storage).put_new(location, data)
        return location


def new_warehouse(profile: dict[str, Any], credential: dict[str, Any], **more: Any) -> Warehouse:
    return create_warehouse(
        actor=INTERNAL,
        project=get_project(None),
        name="wh",
        storage_profile=profile,
        storage_credential=credential,
        **more,
    )


@pytest.fixture(
    params=[
        pytest.param("s3", marks=pytest.mark.part("minio")),
        pytest.param("azure", marks=pytest.mark.part("azurite")),
        pytest.param("gcs", marks=pytest.mark.part("fake_gcs")),
    ]
)
def remote(request: pytest.FixtureRequest, bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> Remote:
    keep_secrets(monkeypatch)
    if request.param == "s3":
        return on_minio(request.getfixturevalue("minio"), request.getfixturevalue("bucket"))
    if request.param == "azure":
        cloud = azure(request.getfixturevalue("azurite"), monkeypatch)
    else:
        cloud = gcs(request.getfixturevalue("fake_gcs"), request.getfixturevalue("tokens"), monkeypatch)
    return Remote(new_warehouse(cloud.profile | NOTHING_VENDED, cloud.credential), cloud.list_names)


def on_minio(minio: Minio, bucket: str) -> Remote:
    warehouse = new_warehouse(minio.profile(bucket, "wh", **{"sts-enabled": False}), minio.credential)
    return Remote(warehouse, lambda: minio.keys(bucket))


@pytest.fixture
def catalog(remote: Remote) -> ApiClient:
    client = ApiClient(f"/catalog/v1/{remote.warehouse.pk}")
    assert client.post("/namespaces", {"namespace": ["ns"]}).status == 200
    return client


@pytest.fixture
def generic(catalog: ApiClient) -> ApiClient:
    return ApiClient(catalog.base.replace("/catalog/", "/lakekeeper/"))


def create(catalog: ApiClient, name: str = "t", **more: Any) -> Any:
    response = catalog.post("/namespaces/ns/tables", {"name": name, "schema": SCHEMA, **more})
    assert response.status == 200, response.body
    return response.json()


def set_properties(catalog: ApiClient, kind: str = "tables", name: str = "t", **properties: str) -> Response:
    updates = [{"action": "set-properties", "updates": properties}]
    return catalog.post(f"/namespaces/ns/{kind}/{name}", {"requirements": [], "updates": updates})


def view(name: str, **more: Any) -> dict[str, Any]:
    version = {
        "version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": ["ns"],
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    }  # fmt: skip
    return {"name": name, "schema": SCHEMA, "view-version": version, "properties": {}, **more}


def test_a_table_from_its_creation_to_its_purge(
    remote: Remote, catalog: ApiClient, do_tasks: Callable[[], int]
) -> None:
    created = create(catalog)
    location = created["metadata"]["location"]
    assert location.startswith(f"{remote.warehouse.location}/")
    assert json.loads(remote.read(created["metadata-location"])) == created["metadata"]
    committed = set_properties(catalog, a="b").json()
    assert json.loads(remote.read(committed["metadata-location"])) == committed["metadata"]
    loaded = catalog.get("/namespaces/ns/tables/t").json()
    assert (loaded["metadata"]["properties"], loaded["metadata-location"]) == (
        {"a": "b"},
        committed["metadata-location"],
    )
    other = create(catalog, "other")
    files = remote.names()
    assert len(files) == 3
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    assert catalog.get("/namespaces/ns/tables/t").refused(404, "NoSuchTableException")
    assert remote.names() == files, "the worker deletes, not the request"
    assert do_tasks() == 1
    left = other["metadata-location"].removeprefix(f"{remote.warehouse.location}/")
    assert remote.names() == [left]


def test_a_view_and_a_generic_table(
    remote: Remote, catalog: ApiClient, generic: ApiClient, do_tasks: Callable[[], int]
) -> None:
    created = catalog.post("/namespaces/ns/views", view("v")).json()
    assert json.loads(remote.read(created["metadata-location"])) == created["metadata"]
    assert set_properties(catalog, "views", "v", a="b").status == 200
    assert catalog.get("/namespaces/ns/views/v").json()["metadata"]["properties"] == {"a": "b"}
    lance = generic.post("/namespaces/ns/generic-tables", {"name": "g", "format": "lance"}).json()
    remote.put(lance["table"]["base-location"].removeprefix(f"{remote.warehouse.location}/") + "/data/x.lance")
    assert len(remote.names()) == 3
    assert catalog.delete("/namespaces/ns/views/v?purgeRequested=true").status == 204
    assert generic.delete("/namespaces/ns/generic-tables/g?purgeRequested=true").status == 204
    assert do_tasks() == 2
    assert remote.names() == []


def test_a_staged_table_and_a_transaction(remote: Remote, catalog: ApiClient) -> None:
    create(catalog, **{"stage-create": True})
    assert remote.names() == []
    for name in ("a", "b", "c"):
        create(catalog, name)
    changes = [
        {
            "identifier": {"namespace": ["ns"], "name": name},
            "requirements": [],
            "updates": [{"action": "set-properties", "updates": {"a": "b"}}],
        }
        for name in ("a", "b", "c")
    ]
    assert catalog.post("/transactions/commit", {"table-changes": changes}).status == 204
    assert len(remote.names()) == 6
    changes[2]["requirements"] = [{"type": "assert-table-uuid", "uuid": str(uuid4())}]
    assert catalog.post("/transactions/commit", {"table-changes": changes}).status == 409
    assert len(remote.names()) == 6


def test_a_table_at_a_chosen_location(remote: Remote, catalog: ApiClient) -> None:
    base = remote.warehouse.location
    location = f"{base}/a+b/%41 ü"
    created = create(catalog, location=f"{location}/")
    assert created["metadata"]["location"] == location
    assert remote.names() == [created["metadata-location"].removeprefix(f"{base}/")]
    again = {"name": "u", "schema": SCHEMA, "location": f"{location}/inner"}
    assert catalog.post("/namespaces/ns/tables", again).refused(409, "LocationAlreadyTaken")
    remote.put("full/data/x.parquet")
    full = {"name": "u", "schema": SCHEMA, "location": f"{base}/full"}
    assert catalog.post("/namespaces/ns/tables", full).refused(400, "InvalidLocation", "Unexpected files in location")
    assert catalog.post("/namespaces/ns/tables", full | {"location": f"{base}/ful"}).status == 200


def test_a_table_at_the_location_of_a_dropped_one(remote: Remote, catalog: ApiClient) -> None:
    """The request itself runs the queued purge."""
    location = f"{remote.warehouse.location}/chosen"
    create(catalog, location=location)
    remote.put("chosen/data/x.parquet")
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    created = create(catalog, location=location)
    assert remote.names() == [created["metadata-location"].removeprefix(f"{remote.warehouse.location}/")]
    assert not Task.objects.live().exists()


def test_a_table_of_a_file_that_is_there(remote: Remote, catalog: ApiClient) -> None:
    created = create(catalog)
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=false").status == 204
    file = {"name": "r", "metadata-location": created["metadata-location"]}
    registered = catalog.post("/namespaces/ns/register", file)
    assert registered.json()["metadata"] == created["metadata"]
    missing = file | {"name": "s", "metadata-location": f"{remote.warehouse.location}/x/metadata/00000-x.metadata.json"}
    assert catalog.post("/namespaces/ns/register", missing).refused(404, "NotFoundException")


def test_a_table_too_large_for_the_database_is_read_from_the_store(
    remote: Remote, catalog: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings(monkeypatch, metadata_inline_limit=10)
    created = create(catalog)
    assert Tabular.objects.get().metadata_location == created["metadata-location"]
    for module in (load, metadata_cache):
        monkeypatch.setattr(module, "metadata_cache", MetadataCache(max_bytes=1_000_000))
    with counting() as seen:
        assert catalog.get("/namespaces/ns/tables/t").json()["metadata"] == created["metadata"]
    assert seen["store.get"] == 1


# --- object-store calls and failures ----------------------------------------------------------------------------------


@pytest.fixture
def recorded(
    bootstrapped: None, minio: Minio, bucket: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> Remote:
    keep_secrets(monkeypatch)
    profile = minio.profile(bucket, "wh", endpoint=recorder.endpoint, **{"sts-enabled": False})
    return Remote(new_warehouse(profile, minio.credential), lambda: minio.keys(bucket))


@pytest.fixture
def through_recorder(recorded: Remote, recorder: Recorder) -> ApiClient:
    client = ApiClient(f"/catalog/v1/{recorded.warehouse.pk}")
    assert client.post("/namespaces", {"namespace": ["ns"]}).status == 200
    assert recorder.requests == []
    return client


REQUESTS = {
    "tables.create": ["PUT"],
    "tables.create_at_location": ["GET", "PUT"],
    "tables.commit_properties": ["PUT"],
    "tables.commit_snapshot": ["PUT"],
    "tables.commit_once": ["PUT"],
    "tables.transaction_of_two": ["PUT", "PUT"],
    "tables.register": ["GET"],
    "views.create": ["PUT"],
    "views.replace": ["PUT"],
}
"""That the store gets; what is not named here sends none."""


def test_object_store_calls_are_minimal(
    through_recorder: ApiClient, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(through_recorder)
    cold = MetadataCache(max_bytes=1_000_000)
    for module in (load, targets, metadata_cache, metrics_reports):
        monkeypatch.setattr(module, "metadata_cache", cold)
    sent: dict[str, list[str]] = {}
    for name, operate in operations(through_recorder, table).items():
        recorder.requests.clear()
        response = operate()
        assert response.status < 400, (name, response.body)
        if recorder.requests:
            sent[name] = recorder.asked
    assert sent == REQUESTS


def test_a_failing_store_is_reported_and_nothing_is_created(
    through_recorder: ApiClient, recorded: Remote, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = create(through_recorder)
    recorder.answerer = lambda *_: Reply(503, {}, b"<Error><Code>SlowDown</Code></Error>")
    response = set_properties(through_recorder, a="b")
    assert response.refused(503, "StorageUnavailableException", "SlowDown")
    assert response.headers["Retry-After"] == "5"
    new = {"name": "u", "schema": SCHEMA}
    assert through_recorder.post("/namespaces/ns/tables", new).refused(503, "StorageUnavailableException")
    recorder.answerer = lambda *_: Reply(403, {}, b"<Error><Code>AccessDenied</Code></Error>")
    assert set_properties(through_recorder, a="b").refused(412, "PermissionDenied", "AccessDenied")
    assert through_recorder.post("/namespaces/ns/views", view("v")).refused(412, "PermissionDenied")
    recorder.answerer = lambda _, ask: ask()
    assert through_recorder.get("/namespaces/ns/tables/t").json()["metadata"] == created["metadata"]
    assert Tabular.objects.count() == 1
    assert len(recorded.names()) == 1


def test_a_commit_whose_store_response_was_lost(
    through_recorder: ApiClient, recorded: Remote, recorder: Recorder
) -> None:
    create(through_recorder)
    lost: list[Reply] = []

    def lose_first(_: Recorded, ask: Callable[[], Reply]) -> Reply | None:
        reply = ask()
        if lost:
            return reply
        lost.append(reply)
        return None

    recorder.answerer = lose_first
    committed = set_properties(through_recorder, a="b")
    assert committed.status == 200
    assert lost[0].status == 200
    assert json.loads(recorded.read(committed.json()["metadata-location"])) == committed.json()["metadata"]
    assert len(recorded.names()) == 2


def test_a_refused_commit_leaves_no_file(through_recorder: ApiClient, recorded: Remote) -> None:
    created = create(through_recorder)
    files = recorded.names()
    taken = {"name": "u", "schema": SCHEMA, "location": created["metadata"]["location"]}
    assert through_recorder.post("/namespaces/ns/tables", taken).refused(409, "LocationAlreadyTaken")
    assert through_recorder.post("/namespaces/ns/views", view("t")).refused(409, "AlreadyExistsException")
    assert recorded.names() == files


def test_a_purge_that_the_store_refuses_is_tried_again(
    through_recorder: ApiClient, recorded: Remote, recorder: Recorder, do_tasks: Callable[[], int]
) -> None:
    create(through_recorder)
    assert through_recorder.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    refused = Reply(403, {}, b"<Error><Code>AccessDenied</Code></Error>")
    recorder.answerer = lambda request, ask: refused if request.method == "POST" else ask()
    assert Worker(poll_interval=60).work() is True
    assert "The object store denied access" in str(Task.objects.live().get().message)
    assert len(recorded.names()) == 1
    recorder.answerer = lambda _, ask: ask()
    assert do_tasks() == 1
    assert recorded.names() == []


def test_the_store_of_a_changed_warehouse_is_opened_again(
    through_recorder: ApiClient, recorded: Remote, minio: Minio, bucket: str
) -> None:
    create(through_recorder)
    before = store_for(recorded.warehouse.storage)
    credential = minio.credential | {"secret-access-key": "another"}
    changed = ApiClient("/management/v1").post(
        f"/warehouse/{recorded.warehouse.pk}/storage-credential", {"new-storage-credential": credential}
    )
    assert changed.status == 200, changed.body
    after = store_for(Warehouse.objects.get().storage)
    assert isinstance(after, RemoteStore)
    assert after is not before
    assert set_properties(through_recorder, a="b").refused(412, "PermissionDenied", "SignatureDoesNotMatch")
