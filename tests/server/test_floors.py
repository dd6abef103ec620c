"""The floor programs that the benchmark compares the server with."""

from __future__ import annotations

import pytest
import requests

from tests.harness.run_environment import RunEnvironment
from tests.parts.server import CatalogServer
from tests.perf import floors
from tests.perf.floor_server import FloorServer


def test_the_floors_of_the_benchmark_start(live_catalog: CatalogServer, run_environment: RunEnvironment) -> None:
    if run_environment.postgres is None:
        pytest.skip("the PostgreSQL run has this")
    database_url = run_environment.postgres.create_database("floors")
    floors.fill(database_url, {"three": 3})
    with FloorServer(live_catalog, database_url=database_url) as server:
        for kind, body in (
            ("bytes", 3),
            ("pointer", len("file:///warehouse/bench/hot/metadata/00010-three.metadata.json")),
        ):
            response = requests.get(f"http://127.0.0.1:{server.port}/{kind}/three", timeout=10)
            assert (response.status_code, len(response.content)) == (200, body)
