"""A real server with a real OpenFGA: set up by its commands, killed during a delivery, and recovered without an
operator.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.harness.run_environment import RunEnvironment
from tests.parts.openfga import OpenFga
from tests.parts.server import CatalogServer

SECONDS = 20
UNTIL_REPAIRED = 60
"""What died held its tuples for 30 s."""


@pytest.mark.timeout(300)
def test_a_server_that_is_killed_in_mid_delivery(
    openfga: OpenFga, run_environment: RunEnvironment, tmp_path: Path
) -> None:
    server = CatalogServer(
        tmp_path,
        database_url=run_environment.own_database("by_openfga"),
        settings={
            "LAKEKEEPER__AUTHZ_BACKEND": "openfga",
            "LAKEKEEPER__OPENFGA__ENDPOINT": openfga.url,
            "LAKEKEEPER__OPENFGA__STORE_NAME": "of a server",
            "ICEKEEPER__ACCESS_TOKENS": "true",
            "LAKEKEEPER__HEALTH_CHECK_FREQUENCY_SECONDS": "1",
        },
    )
    server.prepare()
    server.manage("migrate")
    with contextlib.ExitStack() as ending:
        ending.callback(server.stop)
        server.start()
        token = server.manage("create_token", "--user", "local~admin", "--create-user").strip()
        server.manage("bootstrap", "--admin", "local~admin", "--operator")
        warehouse_id = server.create_warehouse("wh", token=token)

        def ask(method: str, path: str, **more: Any) -> requests.Response:
            headers = {"Authorization": f"Bearer {token}"}
            return requests.request(
                method, f"{server.base_url}/catalog/v1/{warehouse_id}{path}", headers=headers, timeout=SECONDS, **more
            )

        assert ask("POST", "/namespaces", json={"namespace": ["a"]}).status_code == 200
        assert ask("GET", "/namespaces/a").status_code == 200

        def create() -> None:
            with pytest.raises(requests.ConnectionError):
                ask("POST", "/namespaces", json={"namespace": ["b"]})

        maker = threading.Thread(target=create)
        with openfga.relay.withholding(b"/write ") as is_pending_delivery:
            maker.start()
            assert is_pending_delivery.wait(SECONDS)
            server.kill()
            maker.join()
        server.restart()
        assert ask("GET", "/namespaces/b").status_code == 404
        assert ask("POST", "/namespaces", json={"namespace": ["b"]}).status_code == 409
        wait_until(lambda: ask("GET", "/namespaces/b").status_code == 200, UNTIL_REPAIRED)
        with openfga.relay.refusing():
            response = ask("GET", "/namespaces/a")
            assert (response.status_code, response.headers["Retry-After"]) == (503, "5")
            wait_until(lambda: requests.get(f"{server.base_url}/health", timeout=SECONDS).status_code == 503, SECONDS)
        wait_until(lambda: ask("GET", "/namespaces/a").status_code == 200, SECONDS)


def wait_until(is_so: Callable[[], bool], seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < ends_at
        time.sleep(0.2)
