from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.bare_server_fixtures import BareServer
from tests.server.raw_client_fixtures import RawClient


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareServer]:
    """A server with small limits: bodies up to 100,000 bytes, 1 s timeout for slow clients, 3 s per request."""
    with BareServer(
        tmp_path_factory.mktemp("server"),
        LAKEKEEPER__MAX_REQUEST_BODY_SIZE="100000",
        LAKEKEEPER__MAX_REQUEST_TIME="3s",
        LAKEKEEPER__ALLOW_ORIGIN="https://console.example.com",
        ICEKEEPER__SERVER__READ_TIMEOUT="1s",
    ) as running:
        yield running


@pytest.fixture
def client(server: BareServer) -> Iterator[RawClient]:
    """A new connection to `server`."""
    with server.client() as connection:
        yield connection
