"""`/metrics` of the whole product with a warehouse on a real object store: metrics of caches and pools."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from tests.catalog_fixtures import SCHEMA
from tests.harness.run_environment import RunEnvironment
from tests.parts import process
from tests.parts.minio import Minio
from tests.parts.server import CatalogServer
from tests.workers.wait_fixtures import until

CACHES = ("lakekeeper_cache_size", "lakekeeper_cache_hits_total", "lakekeeper_cache_misses_total")
POOL = "lakekeeper_catalog_pg_pool"


class MeasuredCatalog(CatalogServer):
    def __init__(self, home: Path, database_url: str | None) -> None:
        self.metrics_port = process.free_port()
        settings = {"LAKEKEEPER__METRICS__PORT": str(self.metrics_port), "LAKEKEEPER__PG_ENCRYPTION_KEY": "k" * 40}
        super().__init__(home, database_url=database_url, workers=2, threads=4, settings=settings)

    def page(self) -> str:
        time.sleep(1.5)  # processes write every second
        return requests.get(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30).text

    def numbers(self) -> dict[str, float]:
        lines = self.page().splitlines()
        return {name: float(number) for name, number in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory, run_environment: RunEnvironment) -> Iterator[MeasuredCatalog]:
    url = run_environment.own_database("metrics")
    with MeasuredCatalog(tmp_path_factory.mktemp("metrics").resolve() / "home", url) as catalog:
        assert isinstance(catalog, MeasuredCatalog)
        yield catalog


def _credential(session: requests.Session, at: str) -> str:
    asked = {"X-Iceberg-Access-Delegation": "vended-credentials"}
    response = session.get(f"{at}/ns/tables/secret_plans", headers=asked, timeout=30)
    assert response.status_code == 200
    key: str = response.json()["config"]["s3.access-key-id"]
    return key


def test_vended_credentials_are_counted_by_cloud(catalog: MeasuredCatalog, minio: Minio, bucket: str) -> None:
    storage = {"storage-profile": minio.profile(bucket, "wh"), "storage-credential": minio.credential}
    prefix = catalog.create_warehouse_on("tenant_of_mine", storage)
    at = f"{catalog.uri}/v1/{prefix}/namespaces"
    assert requests.post(at, json={"namespace": ["ns"]}, timeout=30).status_code == 200
    new = {"name": "secret_plans", "schema": SCHEMA}
    assert requests.post(f"{at}/ns/tables", json=new, timeout=60).status_code == 200
    with ExitStack() as stack:
        sessions = [stack.enter_context(requests.Session()) for _ in range(4)]  # connections that two processes serve
        keys = {_credential(session, at) for _ in range(2) for session in sessions}
    assert len(keys) == 2, "each process has a memory of its own"
    page = catalog.page()  # a create vends a credential, too
    for cloud, expected in {"s3": (2, 7, 2), "azure": (0, 0, 0), "gcs": (0, 0, 0)}.items():
        for name, number in zip(CACHES, expected, strict=True):
            assert f'{name}{{cache_type="stc",cloud="{cloud}"}} {number}.0\n' in page
    for secret in ("tenant_of_mine", "secret_plans", prefix, bucket, *keys, *minio.credential.values()):
        assert secret not in page.replace('"s3"', "")


def test_pools_of_postgresql(catalog: MeasuredCatalog, run_environment: RunEnvironment) -> None:
    assert requests.get(f"{catalog.base_url}/management/v1/info", timeout=30).status_code == 200
    reported = {name: number for name, number in catalog.numbers().items() if name.startswith(POOL)}
    if run_environment.postgres is None:
        assert reported == {}
        return
    assert reported[f'{POOL}_max_connections{{pool="write"}}'] == 2 * 5
    assert reported[f'{POOL}_max_connections{{pool="read"}}'] == 2 * 10
    assert reported[f'{POOL}_acquire_timeouts_total{{pool="read"}}'] == 0
    connected = reported[f'{POOL}_connections{{pool="read",state="idle"}}']
    connected += reported[f'{POOL}_connections{{pool="read",state="in_use"}}']
    assert 1 <= connected <= 20
    assert len(reported) == 8


def test_periodic_jobs_are_counted_and_listed(catalog: MeasuredCatalog) -> None:
    """Those of both server processes and of the worker, which `serve` starts."""
    by_worker = 'icekeeper_job_runs_total{job="old-tokens",result="ok"}'
    until(lambda: by_worker in catalog.page())
    numbers = catalog.numbers()
    assert numbers[by_worker] == 1
    polls = numbers['icekeeper_job_runs_total{job="permission-epoch",result="ok"}']
    assert polls > 2
    assert numbers['icekeeper_job_duration_seconds_count{job="permission-epoch"}'] == polls
    oldest = numbers['icekeeper_job_last_success_timestamp_seconds{job="permission-epoch"}']
    assert abs(oldest - time.time()) < 60
    assert not [name for name in numbers if "icekeeper_job" in name and ("error" in name or "openfga" in name)]
    headers = {"x-icekeeper-extensions": "true"}
    health = requests.get(f"{catalog.base_url}/health", headers=headers, timeout=30).json()
    jobs = {job["name"]: job for job in health["jobs"]}
    for name in ("permission-epoch", "maintenance-switch", "old-tokens", "project-tasks"):
        assert (jobs[name]["status"], jobs[name]["lastError"]) == ("ok", None)
        assert abs(jobs[name]["lastRun"] / 1000 - time.time()) < 600
        assert jobs[name]["durationMs"] >= 0
    assert "jobs" not in requests.get(f"{catalog.base_url}/health", timeout=30).json()
