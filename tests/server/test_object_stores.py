"""The real server with a warehouse on a real object store: several processes forked from one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.catalog_fixtures import SCHEMA
from tests.parts.minio import Minio
from tests.parts.server import CatalogServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CatalogServer]:
    settings = {"LAKEKEEPER__TASK_POLL_INTERVAL": "1s", "ICEKEEPER__STORAGE__RETRIES": "0"}
    with CatalogServer(tmp_path.resolve() / "home", workers=2, threads=4, settings=settings) as server:
        yield server


def test_all_processes_write_to_an_object_store(server: CatalogServer, minio: Minio, bucket: str) -> None:
    profile = minio.profile(bucket, "wh", **{"sts-enabled": False})
    prefix = server.create_warehouse_on("lake", {"storage-profile": profile, "storage-credential": minio.credential})
    at = f"{server.uri}/v1/{prefix}/namespaces"
    assert requests.post(at, json={"namespace": ["ns"]}, timeout=30).status_code == 200

    def create_and_commit(number: int) -> tuple[int, int]:
        with requests.Session() as session:
            new: dict[str, Any] = {"name": f"t{number}", "schema": SCHEMA}
            created = session.post(f"{at}/ns/tables", json=new, timeout=60).status_code
            change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
            return created, session.post(f"{at}/ns/tables/t{number}", json=change, timeout=60).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(create_and_commit, range(24))) == {(200, 200)}
    assert len(minio.keys(bucket)) == 48
    with minio.relay.refusing():
        change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"c": "d"}}]}
        refused = requests.post(f"{at}/ns/tables/t1", json=change, timeout=60)
        assert (refused.status_code, refused.json()["error"]["type"]) == (503, "StorageUnavailableException")
        assert requests.get(f"{at}/ns/tables/t1", timeout=30).status_code == 200, "loads need no store"
    server.restart()
    assert create_and_commit(100) == (200, 200)
    log = server.log_path.read_text()
    assert "panicked" not in log
    assert minio.credential["secret-access-key"] not in log
