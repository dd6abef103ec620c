"""Endpoint statistics of real server processes: written while they run and when they stop."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import requests

from tests.harness.run_environment import RunEnvironment
from tests.parts.server import CatalogServer

CALLS = 40
CONFIG = "GET /catalog/v1/config"


def server(home: Path, run_environment: RunEnvironment, name: str, interval: str) -> CatalogServer:
    database_url = run_environment.own_database(name)
    settings = {"LAKEKEEPER__ENDPOINT_STAT_FLUSH_INTERVAL": interval}
    return CatalogServer(home, database_url=database_url, workers=2, settings=settings)


def calls_of(catalog: CatalogServer, endpoint: str) -> dict[Any, int]:
    """Return the sums of the last day by warehouse and status code."""
    address = f"{catalog.base_url}/management/v1/endpoint-statistics"
    response = requests.post(address, json={"warehouse": {"type": "all"}}, timeout=30)
    found: dict[Any, int] = {}
    for hour in response.json()["called-endpoints"]:
        for entry in hour:
            if entry["http-route"] == endpoint:
                key = (entry["warehouse-name"], entry["status-code"])
                found[key] = found.get(key, 0) + entry["count"]
    return found


def ask_for_config(catalog: CatalogServer) -> None:
    """Use a new connection each time, so that both processes get requests."""
    for number in range(CALLS):
        warehouse = "counted" if number % 4 else "no-such"
        requests.get(f"{catalog.uri}/v1/config", params={"warehouse": warehouse}, timeout=30)


EXPECTED = {("counted", 200): CALLS * 3 // 4, (None, 404): CALLS // 4}


def test_counts_are_written_while_the_server_runs(tmp_path: Path, run_environment: RunEnvironment) -> None:
    with server(tmp_path, run_environment, "statistics_running", "100ms") as catalog:
        catalog.create_warehouse("counted")
        ask_for_config(catalog)
        give_up = time.monotonic() + 60
        while calls_of(catalog, CONFIG) != EXPECTED:
            assert time.monotonic() < give_up, calls_of(catalog, CONFIG)
            time.sleep(0.1)


def test_a_stop_writes_pending_counts(tmp_path: Path, run_environment: RunEnvironment) -> None:
    with server(tmp_path, run_environment, "statistics_stopped", "1h") as catalog:
        catalog.create_warehouse("counted")
        ask_for_config(catalog)
        assert calls_of(catalog, CONFIG) == {}
        catalog.restart()
        assert calls_of(catalog, CONFIG) == EXPECTED
        assert sum(calls_of(catalog, "POST /management/v1/endpoint-statistics").values()) == 1
