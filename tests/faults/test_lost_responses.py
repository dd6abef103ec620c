"""The database commits, but its response is lost: no response reports a failure, and no file is deleted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection

from catalog.models import Namespace, Tabular
from icekeeper.kernel.db.connections import install_statement_limits
from storage.io.local import LocalStore
from tests.catalog_fixtures import SCHEMA
from tests.faults.lost_database_fixtures import lost
from tests.harness.wsgi_client import ApiClient, Response

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@pytest.fixture
def lose_the_response(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Carry out each COMMIT and then report it as lost."""

    def arm() -> None:
        def commit_and_lose() -> None:
            commit()
            raise lost()

        commit: Callable[[], None] = connection._commit  # type: ignore[attr-defined]  # of `connections`
        monkeypatch.setattr(connection, "_commit", commit_and_lose)

    return arm


def in_doubt(response: Response) -> bool:
    assert "Retry-After" not in response.headers
    return response.refused(500, "CommitStateUnknownException")


def test_writes_of_namespaces(catalog: ApiClient, lose_the_response: Callable[[], None]) -> None:
    lose_the_response()
    assert in_doubt(catalog.post("/namespaces", {"namespace": ["a"]}))
    assert Namespace.objects.get().path == "a"
    assert in_doubt(catalog.post("/namespaces/a/properties", {"updates": {"k": "v"}}))
    assert Namespace.objects.get().properties == {"k": "v"}
    assert in_doubt(catalog.delete("/namespaces/a"))
    assert not Namespace.objects.exists()


def test_writes_of_tables(
    catalog: ApiClient, namespace: str, files: Callable[[], list[str]], lose_the_response: Callable[[], None]
) -> None:
    lose_the_response()
    assert in_doubt(catalog.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}))
    assert len(files()) == 1, "the table's file must stay"
    assert catalog.get("/namespaces/ns/tables/t").status == 200
    location = catalog.get("/namespaces/ns/tables/t").json()["metadata"]["location"]
    moved: list[Any] = [{"action": "set-location", "location": f"{location}-2"}]
    assert in_doubt(catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": moved}))
    assert Path(Tabular.objects.get().metadata_location.removeprefix("file://")).exists()
    source, destination = {"namespace": ["ns"], "name": "t"}, {"namespace": ["ns"], "name": "u"}
    assert in_doubt(catalog.post("/tables/rename", {"source": source, "destination": destination}))
    assert Tabular.objects.get().name == "u"
    assert in_doubt(catalog.delete("/namespaces/ns/tables/u"))
    assert not Tabular.objects.exists()


def test_a_failure_before_the_commit_is_certain(
    catalog: ApiClient, namespace: str, files: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from catalog.services.tables import create

    def lose(**_: Any) -> None:
        raise OperationalError("lost") from psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(create, "take_location", lose)
    response = catalog.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA})
    assert response.refused(503, "SlowDownException", "nothing was changed")
    assert "Retry-After" in response.headers
    assert files() == []
    assert not Tabular.objects.exists()


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no pool: each thread has its connection")
@pytest.mark.parametrize("change", ["set a property", "move"])
def test_a_commit_that_gets_no_connection_was_certainly_not_done(
    catalog: ApiClient,
    create_table: Callable[..., dict[str, Any]],
    files: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    """The pool is exhausted after the file was written: nothing was sent, and the file is deleted again."""
    created = create_table()
    written = files()
    put, held = LocalStore.put_new, list[Any]()
    pool: Any = connection.pool  # type: ignore[attr-defined]  # of PostgreSQL

    def put_and_hold_all(*args: Any) -> None:
        put(*args)
        connection.close()
        while len(held) < pool.max_size:
            held.append(pool.getconn())
        monkeypatch.setattr(pool, "timeout", 0.1)

    install_statement_limits()
    monkeypatch.setattr(LocalStore, "put_new", put_and_hold_all)
    update = {"action": "set-properties", "updates": {"a": "b"}}
    if change == "move":
        update = {"action": "set-location", "location": created["metadata"]["location"] + "-2"}
    try:
        response = catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": [update]})
    finally:
        for session in held:
            pool.putconn(session)
    assert response.refused(409, "CommitFailedException", "nothing was committed")
    assert files() == written
    monkeypatch.undo()
    assert catalog.get("/namespaces/ns/tables/t").json() == created | {"config": {}}
