"""Servers of one PostgreSQL without a configured signing key create one key and keep it secret."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier
from typing import Any

import psycopg
import pytest
import requests
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, transaction
from pydantic import SecretStr

from icekeeper.conf.environment import read_settings
from icekeeper.settings import _secret_keys
from tenancy.models import SigningSecret
from tenancy.signing_keys import SigningKeyUnavailable, require_signing_keys, shared_signing_key
from tests.catalog_fixtures import SCHEMA
from tests.harness.run_environment import RunEnvironment
from tests.parts.server import CatalogServer
from tests.workers.wait_fixtures import until

pytestmark = pytest.mark.both_databases

ENCRYPTION_KEY = "canary-of-the-encryption-key-0123456789"
CANARY = SecretStr(ENCRYPTION_KEY)


@pytest.fixture
def on_postgres(run_environment: RunEnvironment) -> None:
    if run_environment.postgres is None:
        pytest.skip("SQLite has one server, whose key is in its data folder: the PostgreSQL run has this")


# --- two servers -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=[None, ENCRYPTION_KEY])
def servers(
    request: pytest.FixtureRequest, run_environment: RunEnvironment, on_postgres: None, tmp_path: Path
) -> Iterator[list[CatalogServer]]:
    """Two servers, started concurrently on a database without a key; each runs a worker."""
    url = run_environment.own_database(f"signing_key_{time.monotonic_ns()}")
    own = {"ICEKEEPER__ACCESS_TOKENS": "true", "LAKEKEEPER__TASK_POLL_INTERVAL": "100ms"}
    own["ICEKEEPER__LOCAL_STORAGE_ROOT"] = str(tmp_path / "storage")
    if request.param:
        own["LAKEKEEPER__PG_ENCRYPTION_KEY"] = request.param
    created = [CatalogServer(tmp_path / name, database_url=url, settings=own) for name in ("first", "second")]
    for each in created:
        each.home.mkdir()
        each.storage_root = tmp_path / "storage"
    created[0].prepare()
    with ExitStack() as ending, ThreadPoolExecutor() as pool:
        for each in created:
            ending.callback(each.stop)
        list(pool.map(CatalogServer.start, created))
        yield created


@pytest.mark.timeout(300)
def test_tokens_of_one_server_are_valid_at_the_other(servers: list[CatalogServer]) -> None:
    first, second = servers
    secret = first.manage("create_token", "--user", "local~ann", "--create-user").strip()
    form = {"grant_type": "client_credentials", "client_id": "local~ann", "client_secret": secret}
    token = ""
    for server, other in ((first, second), (second, first)):
        issued = requests.post(f"{server.uri}/v1/oauth/tokens", data=form, timeout=30)
        assert issued.status_code == 200, issued.text
        token = issued.json()["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        assert requests.get(f"{other.base_url}/management/v1/whoami", headers=headers, timeout=30).status_code == 200
    headers = {"Authorization": f"Bearer {token}"}
    dropped = _drop_tables(first, token)
    found: list[str] = []
    page: dict[str, Any] = {"pageSize": 1}
    for server in (first, second, first):
        at = f"{server.base_url}/management/v1/warehouse/{first.warehouse_id}/deleted-tabulars"
        response = requests.get(at, params=page, headers=headers, timeout=30)
        assert response.status_code == 200, response.text
        found += [each["name"] for each in response.json()["tabulars"]]
        page["pageToken"] = response.json().get("next-page-token")
    assert sorted(found) == dropped
    _assert_worked_once(servers, token)
    _assert_kept_to_itself(servers)


def _drop_tables(server: CatalogServer, token: str) -> list[str]:
    """Drop tables softly and return their names."""
    rules = {"delete-profile": {"type": "soft", "expiration-seconds": 3600}}
    profile = {"type": "local", "path": str(server.storage_root / "kept")}
    server.create_warehouse_on("kept", {"storage-profile": profile, **rules}, token=token)
    return _create_and_drop(server, token, purge=False)


def _create_and_drop(server: CatalogServer, token: str, *, purge: bool) -> list[str]:
    headers = {"Authorization": f"Bearer {token}"}
    at = f"{server.uri}/v1/{server.warehouse_id}/namespaces"
    requests.post(at, json={"namespace": ["ns"]}, headers=headers, timeout=30).raise_for_status()
    names = ["a", "b", "c"]
    for name in names:
        body = {"name": name, "schema": SCHEMA}
        requests.post(f"{at}/ns/tables", json=body, headers=headers, timeout=30).raise_for_status()
    for name in names:
        what = f"{at}/ns/tables/{name}?purgeRequested={str(purge).lower()}"
        requests.delete(what, headers=headers, timeout=30).raise_for_status()
    return names


def _assert_worked_once(servers: list[CatalogServer], token: str) -> None:
    """Check that both run a worker, and that one of them executes each task."""
    first = servers[0]
    first.create_warehouse("purged", token=token)
    _create_and_drop(first, token, purge=True)
    until(lambda: len(_purges_done(servers)) >= 3)
    assert not list((first.storage_root / "purged").rglob("*.metadata.json"))
    done = _purges_done(servers)
    assert len(done) == len(set(done)) == 3
    for each in servers:
        lines = each.log_lines("icekeeper.tasks")
        assert [line["message"] for line in lines].count("worker started") == 1
        assert {line["level"] for line in lines} == {"INFO"}


def _purges_done(servers: list[CatalogServer]) -> list[str]:
    lines = [line for each in servers for line in each.log_lines("icekeeper.tasks")]
    return [line["task"] for line in lines if line["message"] == "task done" and line["queue"] == "tabular_purge"]


def _assert_kept_to_itself(servers: list[CatalogServer]) -> None:
    """Check that the data folder is empty, and that no log and no list of settings has the secret."""
    with psycopg.connect(servers[0].environment["LAKEKEEPER__PG_DATABASE_URL_WRITE"]) as database:
        rows = database.execute("SELECT text FROM tenancy_signingsecret").fetchall()
    assert len(rows) == 1
    for each in servers:
        assert not (each.home / "state").exists()
        written = each.log_path.read_text() + each.manage("show_config")
        assert rows[0][0] not in written
        assert ENCRYPTION_KEY not in written


# --- the key ---------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_concurrent_servers_get_one_key(on_postgres: None) -> None:
    SigningSecret.objects.all().delete()
    together = Barrier(4)

    def come(_number: int) -> str:
        together.wait(30)
        try:
            return shared_signing_key(CANARY)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        keys = set(pool.map(come, range(4)))
    assert len(keys) == 1
    assert len(keys.pop()) == 64
    assert SigningSecret.objects.count() == 1


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_it_stays_when_the_transaction_that_asked_for_it_is_rolled_back(on_postgres: None) -> None:
    SigningSecret.objects.all().delete()
    with transaction.atomic():
        key = shared_signing_key(None)
        transaction.set_rollback(True)
    assert shared_signing_key(None) == key


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_it_takes_both_the_database_and_the_encryption_key(on_postgres: None) -> None:
    keys = [shared_signing_key(each) for each in (None, CANARY, SecretStr("another"))]
    SigningSecret.objects.all().delete()
    keys += [shared_signing_key(each) for each in (None, CANARY, SecretStr("another"))]
    assert len(set(keys)) == 6
    assert SigningSecret.objects.get().text not in "".join(keys)
    assert str(SigningSecret.objects.get()) == "signing secret"


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_without_the_table_there_is_no_key_and_a_cure(on_postgres: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE tenancy_signingsecret RENAME TO elsewhere")
    try:
        with pytest.raises(
            SigningKeyUnavailable, match=r"run manage\.py migrate, or set ICEKEEPER__SECRET_KEY"
        ) as reported:
            shared_signing_key(CANARY)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE elsewhere RENAME TO tenancy_signingsecret")
    assert reported.value.status == 503
    assert isinstance(reported.value, ImproperlyConfigured), (
        "the error that Django's own checks expect of a missing key"
    )


# --- the settings ----------------------------------------------------------------------------------------------------


def keys_of(*, is_embedded: bool = False, **variables: str) -> tuple[Any, list[Any]]:
    return _secret_keys(read_settings(variables)[0], is_embedded=is_embedded)


def test_a_key_that_is_set_wins() -> None:
    own, former = "0123456789" * 4, "abcdefghij" * 4
    key, older = keys_of(
        LAKEKEEPER__PG_ENCRYPTION_KEY=ENCRYPTION_KEY,
        ICEKEEPER__SECRET_KEY=own,
        ICEKEEPER__SECRET_KEY_FALLBACKS=f"[{former}]",
    )
    assert (key, older) == (own, [former])


def test_a_former_encryption_key_is_a_former_signing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []

    def noted(key: SecretStr | None) -> str:
        asked.append(key and key.get_secret_value())
        return f"of {asked[-1]}"

    monkeypatch.setattr("tenancy.signing_keys.shared_signing_key", noted)
    key, older = keys_of(LAKEKEEPER__PG_ENCRYPTION_KEY=ENCRYPTION_KEY, ICEKEEPER__PG_ENCRYPTION_OLD_KEYS="[a, b]")
    assert ENCRYPTION_KEY not in repr((key, older))
    assert asked == [], "it is not needed yet"
    assert [str(each) for each in (key, *older)] == [f"of {ENCRYPTION_KEY}", "of a", "of b"]
    assert [str(each) for each in (key, *older)] == [f"of {ENCRYPTION_KEY}", "of a", "of b"]
    assert asked == [ENCRYPTION_KEY, "a", "b"], "once per process"


def test_sqlite_keeps_its_own(tmp_path: Path) -> None:
    key, older = keys_of(is_embedded=True, ICEKEEPER__DATA_DIR=str(tmp_path))
    assert key == (tmp_path / "secret-key").read_text()
    assert older == []


def test_a_server_has_read_them_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def read_key(_key: str) -> str:
        read.append("x")
        return "key"

    monkeypatch.setattr("tenancy.signing_keys.shared_signing_key", read_key)
    key, older = keys_of(LAKEKEEPER__PG_ENCRYPTION_KEY=ENCRYPTION_KEY, ICEKEEPER__PG_ENCRYPTION_OLD_KEYS="[a]")
    monkeypatch.setattr(settings, "SECRET_KEY", key)
    monkeypatch.setattr(settings, "FORMER_SECRET_KEYS", older)
    read.clear()
    require_signing_keys()
    assert len(read) == 2
