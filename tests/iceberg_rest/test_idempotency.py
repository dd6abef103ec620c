"""Idempotency-Key: a repeated request is not executed again and gets the same response."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings

from catalog.api import tables
from catalog.models import IdempotencyRecord, Namespace, Tabular
from catalog.services import idempotency
from catalog.services.commit.service import commit_table
from catalog.services.idempotency import delete_expired_idempotency_records
from catalog.services.tables import create as creation
from icekeeper.conf.environment import SettingsError, read_settings
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import CommitContended
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json.strict import read_json_object, write_json
from tenancy.actor import INTERNAL
from tests.catalog_fixtures import SCHEMA
from tests.harness.wsgi_client import ApiClient, Response, call

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
Files = Callable[[], list[str]]
SET_A = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "1"}}]}
SET_B = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "2"}}]}
T = "/namespaces/ns/tables/t"


@pytest.fixture
def key() -> str:
    return str(new_id())


def same(first: Response, second: Response) -> bool:
    assert (first.status, first.body) == (second.status, second.body)
    assert first.headers.get("ETag") == second.headers.get("ETag")
    return True


def operations() -> dict[str, Callable[[ApiClient, str], Response]]:
    """Return every writing operation by name; each works once in a catalog with the table `t`."""
    here = {"namespace": ["ns"], "name": "t"}
    return {
        "createNamespace": lambda c, k: c.post("/namespaces", {"namespace": ["n"]}, idempotency_key=k),
        "updateProperties": lambda c, k: c.post(
            "/namespaces/ns/properties", {"updates": {"a": "b"}, "removals": ["c"]}, idempotency_key=k
        ),
        "dropNamespace": lambda c, k: c.delete("/namespaces/empty", idempotency_key=k),
        "createTable": lambda c, k: c.post("/namespaces/ns/tables", {"name": "u", "schema": SCHEMA}, idempotency_key=k),
        "stageTable": lambda c, k: c.post(
            "/namespaces/ns/tables", {"name": "u", "schema": SCHEMA, "stage-create": True}, idempotency_key=k
        ),
        "updateTable": lambda c, k: c.post(T, SET_A, idempotency_key=k),
        "updateTableWithNothing": lambda c, k: c.post(T, {"requirements": [], "updates": []}, idempotency_key=k),
        "commitTransaction": lambda c, k: c.post(
            "/transactions/commit", {"table-changes": [{"identifier": here, **SET_A}]}, idempotency_key=k
        ),
        "renameTable": lambda c, k: c.post(
            "/tables/rename", {"source": here, "destination": here | {"name": "w"}}, idempotency_key=k
        ),
        "unregisterTable": lambda c, k: c.post(f"{T}/unregister", idempotency_key=k),
        "dropTable": lambda c, k: c.delete(T, idempotency_key=k),
    }


@pytest.mark.parametrize("name", operations())
def test_sent_again_it_is_not_done_again(
    name: str, catalog: ApiClient, create_table: CreateTable, files: Files, key: str
) -> None:
    create_table()
    catalog.post("/namespaces", {"namespace": ["empty"]})
    operate = operations()[name]
    first = operate(catalog, key)
    assert first.status in {200, 204}, first.body
    rows, stored = set(Tabular.objects.values_list("pk", "metadata_location")), files()
    assert same(first, operate(catalog, key))
    assert set(Tabular.objects.values_list("pk", "metadata_location")) == rows
    assert files() == stored
    assert IdempotencyRecord.objects.count() == 1


def test_a_registered_table_is_not_registered_again(catalog: ApiClient, create_table: CreateTable, key: str) -> None:
    location = create_table()["metadata-location"]
    catalog.delete(T)
    body = {"name": "r", "metadata-location": location}
    first = catalog.post("/namespaces/ns/register", body, idempotency_key=key)
    assert first.status == 200
    assert same(first, catalog.post("/namespaces/ns/register", body, idempotency_key=key))
    assert Tabular.objects.count() == 1


def test_changes_of_other_requests_in_between_are_kept(catalog: ApiClient, create_table: CreateTable, key: str) -> None:
    create_table()
    first = catalog.post(T, SET_A, idempotency_key=key)
    later = catalog.post(T, SET_B)
    assert later.status == 200
    assert same(first, catalog.post(T, SET_A, idempotency_key=key))
    assert catalog.get(T).json()["metadata"]["properties"]["a"] == "2"


def test_the_response_is_the_newest_version_when_that_file_is_missing(
    catalog: ApiClient, create_table: CreateTable, key: str, storage_root: Any
) -> None:
    create_table()
    first = catalog.post(T, SET_A, idempotency_key=key).json()
    later = catalog.post(T, SET_B).json()
    (storage_root.parent / first["metadata-location"].removeprefix("file://")).unlink()
    assert catalog.post(T, SET_A, idempotency_key=key).json() == later


def test_a_dropped_and_recreated_table_is_not_dropped_again(
    catalog: ApiClient, create_table: CreateTable, key: str
) -> None:
    create_table()
    assert catalog.delete(T, idempotency_key=key).status == 204
    create_table()
    assert catalog.delete(T, idempotency_key=key).status == 204
    assert catalog.head(T).status == 204


def test_an_error_is_returned_again(catalog: ApiClient, create_table: CreateTable, key: str) -> None:
    create_table()
    body = {"requirements": [{"type": "assert-ref-snapshot-id", "ref": "b", "snapshot-id": 1}], "updates": []}
    error = (409, "CommitFailedException", "Requirement failed: branch or tag b is missing, expected 1")
    assert catalog.post(T, body, idempotency_key=key).refused(*error)
    assert IdempotencyRecord.objects.get().status == 409
    assert catalog.post(T, body, idempotency_key=key).refused(*error)
    missing = str(new_id())
    assert catalog.delete("/namespaces/ns/tables/no", idempotency_key=missing).refused(404, "NoSuchTableException")
    create_table("no")
    assert catalog.delete("/namespaces/ns/tables/no", idempotency_key=missing).refused(404, "NoSuchTableException")
    assert catalog.head("/namespaces/ns/tables/no").status == 204


@pytest.mark.parametrize(
    "other",
    [
        lambda c, k: c.post(T, SET_B, idempotency_key=k),
        lambda c, k: c.post("/namespaces/ns/tables/other", SET_A, idempotency_key=k),
        lambda c, k: c.delete(T, idempotency_key=k),
        lambda c, k: c.post("/namespaces", {"namespace": ["n"]}, idempotency_key=k),
        lambda c, k: c.delete("/namespaces/ns/tables/other?purgeRequested=true", idempotency_key=k),
    ],
)
def test_a_key_identifies_one_request(other: Any, catalog: ApiClient, create_table: CreateTable, key: str) -> None:
    create_table()
    create_table("other")
    assert catalog.post(T, SET_A, idempotency_key=key).status == 200
    before = set(Tabular.objects.values_list("pk", "metadata_location"))
    assert other(catalog, key).refused(400, "IdempotencyKeyReused")
    assert set(Tabular.objects.values_list("pk", "metadata_location")) == before
    assert Namespace.objects.count() == 1


@pytest.mark.parametrize(
    ("given", "wire_type"),
    [
        ("", "InvalidIdempotencyKey"),
        ("1", "InvalidIdempotencyKey"),
        ("x" * 36, "InvalidIdempotencyKey"),
        ("{01a1ff95-e3cc-7831-a59b-b91c90243b4f}", "InvalidIdempotencyKey"),
        ("01a1ff95-e3cc-7831-a59b-b91c90243b4f,01a1ff95-e3cc-7831-a59b-b91c90243b4f", "DuplicateIdempotencyKey"),
    ],
)
def test_a_malformed_key_does_nothing(
    given: str, wire_type: str, catalog: ApiClient, create_table: CreateTable
) -> None:
    before = create_table()
    assert catalog.post(T, SET_A, idempotency_key=given).refused(400, wire_type)
    assert catalog.get(T).json() == before


def test_any_uuid_is_a_key_and_case_does_not_matter(catalog: ApiClient, create_table: CreateTable) -> None:
    create_table()
    given = str(uuid4())
    first = catalog.post(T, SET_A, idempotency_key=given)
    assert same(first, catalog.post(T, SET_A, idempotency_key=given.upper()))


def test_the_slower_of_two_equal_requests_is_rolled_back(
    catalog: ApiClient, create_table: CreateTable, files: Files, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both look for a record before either exists: the unique key decides, in the transaction itself."""
    create_table()
    first = catalog.post(T, SET_A, idempotency_key=key)
    other = catalog.post("/namespaces/ns/tables", {"name": "u", "schema": SCHEMA}, idempotency_key=str(new_id()))
    assert other.status == 200
    stored = files()
    find, looks = idempotency._find_replay, iter([None])
    monkeypatch.setattr(idempotency, "_find_replay", lambda *args: next(looks, find(*args)))
    assert same(first, catalog.post(T, SET_A, idempotency_key=key))
    assert files() == stored, "the files of the slower request are deleted"


def test_contention_is_not_cached(
    catalog: ApiClient, create_table: CreateTable, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from catalog.services.commit import queue, service

    create_table()
    with monkeypatch.context() as contended:
        contended.setattr(queue, "MAX_ATTEMPTS", 2)
        contended.setattr(service, "write_revisions", lambda *args, **options: False)
        assert catalog.post(T, SET_A, idempotency_key=key).refused(409, "CommitFailedException", "try again")
    assert not IdempotencyRecord.objects.exists()
    assert catalog.post(T, SET_A, idempotency_key=key).status == 200


def test_contention_is_not_reported_when_an_equal_request_was_faster(
    catalog: ApiClient, create_table: CreateTable, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For "certainly not committed" a client would append a second time."""
    create_table()
    commit = commit_table

    def slow(*_: Any, **__: Any) -> Any:
        monkeypatch.setattr(tables, "commit_table", commit)
        assert catalog.post(T, SET_A, idempotency_key=key).status == 200
        raise CommitContended("planted")

    monkeypatch.setattr(tables, "commit_table", slow)
    response = catalog.post(T, SET_A, idempotency_key=key)
    assert response.status == 200
    assert len(response.json()["metadata"]["metadata-log"]) == 1


def test_the_file_of_a_concurrent_equal_request_does_not_fail_the_request(
    catalog: ApiClient, namespace: str, warehouse: Any, key: str, files: Callable[[], list[str]], monkeypatch: Any
) -> None:
    """The duplicate finds the file that the first request has written, and one of them creates the table."""
    body = {"name": "u", "schema": SCHEMA, "location": f"{warehouse.location}/chosen"}
    insert = creation.insert_tabular

    def overtaken(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(creation, "insert_tabular", insert)
        duplicate = catalog.post("/namespaces/ns/tables", body, idempotency_key=key)
        assert duplicate.status == 200
        responses.append(duplicate)
        return insert(*args, **options)

    responses: list[Response] = []
    monkeypatch.setattr(creation, "insert_tabular", overtaken)
    first = catalog.post("/namespaces/ns/tables", body, idempotency_key=key)
    assert first.status == 200
    assert same(first, responses[0])
    assert same(first, catalog.post("/namespaces/ns/tables", body, idempotency_key=key))
    assert len(files()) == 1


def test_the_file_of_an_interrupted_equal_request_does_not_fail_the_retry(
    catalog: ApiClient, namespace: str, warehouse: Any, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request was killed after writing its file: only a retry may create its table at that location."""
    body = {"name": "u", "schema": SCHEMA, "location": f"{warehouse.location}/chosen"}

    class Killed(BaseException):
        pass

    def die(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(creation, "insert_tabular", die)
        with pytest.raises(Killed):
            catalog.post("/namespaces/ns/tables", body, idempotency_key=key)
    for others in (str(uuid4()), None):
        headers = {} if others is None else {"idempotency_key": others}
        response = catalog.post("/namespaces/ns/tables", body, **headers)
        assert response.refused(400, "InvalidLocation", "Unexpected files")
    assert catalog.post("/namespaces/ns/tables", body, idempotency_key=key).status == 200


def test_a_location_in_use_is_not_cached(
    catalog: ApiClient, create_table: CreateTable, warehouse: Any, key: str, do_tasks: Callable[[], int]
) -> None:
    """The purge that reserves the location ends at some time."""
    location = create_table()["metadata"]["location"]
    assert catalog.delete(f"{T}?purgeRequested=true").status == 204
    create_table()
    move = {"requirements": [], "updates": [{"action": "set-location", "location": location}]}
    assert catalog.post(T, move, idempotency_key=key).refused(409, "LocationAlreadyTaken")
    assert do_tasks() == 1
    assert catalog.post(T, move, idempotency_key=key).status == 200


def test_a_registration_of_a_version_1_file_is_replayed(
    catalog: ApiClient, create_table: CreateTable, key: str, storage_root: Any
) -> None:
    """Format version 1 needs no UUID; the replay returns the UUID of the first response."""
    location = create_table(properties={"format-version": "1"})["metadata-location"]
    catalog.delete(T)
    file = storage_root.parent / location.removeprefix("file://")
    document = read_json_object(file.read_bytes())
    del document["table-uuid"]
    file.write_bytes(write_json(document))
    body = {"name": "t", "metadata-location": location}
    first = catalog.post("/namespaces/ns/register", body, idempotency_key=key)
    assert first.status == 200
    assert catalog.post(T, SET_A).status == 200
    assert same(first, catalog.post("/namespaces/ns/register", body, idempotency_key=key))


def test_results_are_deleted_after_their_lifetime(catalog: ApiClient, create_table: CreateTable, key: str) -> None:
    create_table()
    catalog.post(T, SET_A, idempotency_key=key)
    catalog.post(T, SET_B, idempotency_key=str(new_id()))
    conf = settings.ICEKEEPER.idempotency
    old = now() - timedelta(seconds=conf.lifetime + conf.grace_period + 1)
    IdempotencyRecord.objects.filter(key=key).update(created_at=old)
    assert delete_expired_idempotency_records(actor=INTERNAL) == 1
    assert IdempotencyRecord.objects.count() == 1
    assert delete_expired_idempotency_records(actor=INTERNAL) == 0


def test_switched_off_the_header_means_nothing(
    catalog: ApiClient, create_table: CreateTable, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_table()
    off = settings.ICEKEEPER.idempotency.model_copy(update={"enabled": False})
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"idempotency": off}))
    assert catalog.post(T, SET_A, idempotency_key=key).status == 200
    assert not IdempotencyRecord.objects.exists()
    assert "idempotency-key-lifetime" not in call("GET", "/catalog/v1/config?warehouse=wh").json()


@pytest.mark.parametrize(
    ("lifetime", "reported"),
    [
        ("1800", "PT30M"), ("90s", "PT90S"), ("59", "PT59S"), ("60", "PT1M"), ("14d", "PT20160M"),
        ("1209601", "PT1209601S"), ("36500d", "PT52560000M"), ("1234567m", "PT1234567M"),
        ("3153599999s", "PT3153599999S"), ("500ms", "PT0.5S"), ("1.25s", "PT1.25S"),
        ("1209601.001s", "PT1209601.001S"), ("4.35m", "PT261S"),
    ],
)  # fmt: skip
def test_the_lifetime_is_advertised(
    catalog: ApiClient, monkeypatch: pytest.MonkeyPatch, lifetime: str, reported: str
) -> None:
    read, _ = read_settings({"LAKEKEEPER__IDEMPOTENCY__LIFETIME": lifetime})
    changed = settings.ICEKEEPER.model_copy(update={"idempotency": read.idempotency})
    monkeypatch.setattr(settings, "ICEKEEPER", changed)
    assert call("GET", "/catalog/v1/config?warehouse=wh").json()["idempotency-key-lifetime"] == reported


def test_the_longest_lifetime_can_be_counted_back_by(
    catalog: ApiClient, create_table: CreateTable, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_table()
    assert catalog.post(T, SET_A, idempotency_key=key).status == 200
    longest = {f"LAKEKEEPER__IDEMPOTENCY__{name}": "36500d" for name in ("LIFETIME", "GRACE_PERIOD")}
    for variable in longest:
        with pytest.raises(SettingsError, match=f"{variable} got '36501d'"):
            read_settings(longest | {variable: "36501d"})
    changed = settings.ICEKEEPER.model_copy(update={"idempotency": read_settings(longest)[0].idempotency})
    monkeypatch.setattr(settings, "ICEKEEPER", changed)
    assert delete_expired_idempotency_records(actor=INTERNAL) == 0
    assert IdempotencyRecord.objects.count() == 1
