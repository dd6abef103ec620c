"""OpenFGA configured with the address of its gRPC interface, as in Lakekeeper's chart and compose files."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from django.conf import settings

from management.management.commands import migrate
from tenancy.authz.openfga import http_interface
from tenancy.authz.openfga.client import NoHttpResponse, OpenFgaEndpointIsGrpc, OpenFgaUnavailable
from tenancy.authz.openfga.store import install, openfga_store
from tenancy.models import Server
from tenancy.services.startup_checks import AuthorizationNotChosen, require_chosen_backend
from tests.harness.run_environment import RunEnvironment
from tests.management.warehouse_request_fixtures import use_settings
from tests.openfga_fixtures import choose_openfga
from tests.parts import process
from tests.parts.certificates import create_authority
from tests.parts.openfga import PROGRAM, OpenFga
from tests.parts.process import PartError
from tests.parts.server import CatalogServer

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

HOST = f"127.{os.getpid() % 200 + 20}.{os.getpid() // 200 % 250}.1"
"""A loopback address of this run's own: the ports of the chart are free there."""

GRPC, HTTP = f"http://{HOST}:8081", f"http://{HOST}:8080"


@contextlib.contextmanager
def running(folder: Path, http: str, grpc: str, *options: str) -> Iterator[None]:
    log = folder / "openfga.log"
    started = process.start(
        [
            PROGRAM.require(), "run", "--http-addr", http, "--grpc-addr", grpc, "--datastore-engine", "memory",
            "--playground-enabled=false", "--metrics-enabled=false", "--profiler-enabled=false", *options,
        ],
        log=log,
    )  # fmt: skip
    try:
        process.wait_until_ready(lambda: _takes(http) and _takes(grpc), started, log=log, seconds=60)
        yield
    finally:
        process.stop(started, gently=signal.SIGKILL)


def _takes(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False


@pytest.fixture(scope="module")
def chart(openfga: OpenFga, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """OpenFGA at the ports of the chart; `openfga` ensures that the program is installed."""
    with running(tmp_path_factory.mktemp("chart"), f"{HOST}:8080", f"{HOST}:8081"):
        yield


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def set_up(endpoint: str) -> None:
        choose_openfga(monkeypatch, endpoint=endpoint, store_name="by another port")

    return set_up


def test_http_is_used_with_the_other_port(
    chart: None, choose: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    choose(GRPC)
    with caplog.at_level(logging.WARNING, "icekeeper.authz"):
        location, _ = install(openfga_store())
        assert openfga_store().resolve() == location
    stores = requests.get(f"{HTTP}/stores", timeout=10).json()["stores"]
    assert location.store_id in {each["id"] for each in stores}
    assert [record.getMessage() for record in caplog.records] == [
        f"LAKEKEEPER__OPENFGA__ENDPOINT is a gRPC interface; the HTTP interface {HTTP} is used instead"
    ]


def test_over_tls(
    openfga: OpenFga, choose: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle, _ = create_authority(tmp_path)
    http, grpc = process.free_port(), process.free_port()
    shown = [str(tmp_path / "server.pem"), str(tmp_path / "server.key")]
    options = [
        f"--{each}-tls-{name}={value}"
        for each in ("http", "grpc")
        for name, value in zip(("enabled", "cert", "key"), ("true", *shown), strict=True)
    ]
    with running(tmp_path, f"127.0.0.1:{http}", f"127.0.0.1:{grpc}", *options):
        monkeypatch.setattr(http_interface, "HTTP_PORT", http)
        use_settings(monkeypatch, openfga_connection=_connection(ca_bundle=bundle))
        choose(f"https://127.0.0.1:{grpc}")
        assert install(openfga_store())[0].store_id
        use_settings(monkeypatch, openfga_connection=_connection(ca_bundle=None))
        choose(f"https://127.0.0.1:{grpc}")
        with pytest.raises(NoHttpResponse) as rejection:
            install(openfga_store())
        assert "certificate verify failed" in rejection.value.reason


def _connection(**changed: Any) -> Any:
    return settings.ICEKEEPER.openfga_connection.model_copy(update=changed)


@pytest.fixture(params=["none", "another server"])
def port_without_http(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A port where no OpenFGA responds."""
    if request.param == "none":
        port = process.free_port()
        monkeypatch.setattr(http_interface, "HTTP_PORT", port)
        yield port
        return
    with ThreadingHTTPServer(("127.0.0.1", 0), _AnotherUser) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(http_interface, "HTTP_PORT", server.server_port)
        yield server.server_port
        server.shutdown()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_interface, "STARTUP_TIMEOUT_SECONDS", 0.0)


class _AnotherUser(BaseHTTPRequestHandler):
    status = "UP"

    def do_GET(self) -> None:
        body = json.dumps({"status": self.status}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def test_without_one_the_server_does_not_start_and_says_what_to_do(
    openfga: OpenFga,
    choose: Callable[[str], None],
    port_without_http: int,
    impatient: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_settings(monkeypatch, openid_provider_uri="https://idp.example.com")
    choose(f"http://127.0.0.1:{openfga.grpc_port}")
    before = list(Server.objects.values())
    with pytest.raises(AuthorizationNotChosen) as rejection:
        require_chosen_backend()
    assert rejection.value.message == (
        f"LAKEKEEPER__OPENFGA__ENDPOINT, http://127.0.0.1:{openfga.grpc_port}, is a gRPC interface, which this server "
        f"does not support, and no OpenFGA responds at http://127.0.0.1:{port_without_http}. Set it to the address of "
        "OpenFGA's HTTP interface (its OPENFGA_HTTP_ADDR)"
    )
    assert list(Server.objects.values()) == before
    with pytest.raises(OpenFgaEndpointIsGrpc):
        install(openfga_store())


def _migrate() -> None:
    migrate.Command()._install_model()


@pytest.mark.parametrize("begin", [require_chosen_backend, _migrate])
def test_http_that_starts_after_grpc_is_waited_for(
    openfga: OpenFga, choose: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, begin: Callable[[], object]
) -> None:
    use_settings(monkeypatch, openid_provider_uri="https://idp.example.com")
    monkeypatch.setattr(http_interface, "HTTP_PORT", process.free_port())
    choose(f"http://127.0.0.1:{openfga.grpc_port}")
    waits: list[float] = []
    sleep = time.sleep

    def start_http(seconds: float) -> None:
        waits.append(seconds)
        sleep(seconds)
        if len(waits) == 4:  # after the pause for a server that does not respond has begun
            monkeypatch.setattr(http_interface, "HTTP_PORT", urlsplit(openfga.url).port)

    monkeypatch.setattr(http_interface, "sleep", start_http)
    begin()
    assert len(waits) == 4
    assert openfga_store()._address == openfga.url


def test_the_key_goes_to_the_other_port_only_after_openfga_has_responded_there(
    openfga: OpenFga, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str | None]] = []

    class Recording(_AnotherUser):
        def do_GET(self) -> None:
            asked.append((self.path.partition("?")[0], self.headers["Authorization"]))
            super().do_GET()

    with ThreadingHTTPServer(("127.0.0.1", 0), Recording) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(http_interface, "HTTP_PORT", server.server_port)
        choose_openfga(monkeypatch, endpoint=f"http://127.0.0.1:{openfga.grpc_port}", api_key="not for every server")
        with pytest.raises(OpenFgaEndpointIsGrpc):
            openfga_store().find_store_id()
        assert asked == [("/healthz", None)]
        Recording.status = "SERVING"
        with pytest.raises(OpenFgaUnavailable) as failure:
            openfga_store().find_store_id()
        assert failure.value.reason == "it sent no list of stores"
        assert asked[1:] == [("/healthz", None), ("/stores", "Bearer not for every server")]
        server.shutdown()


def test_one_that_is_away_or_not_set_up_does_not_stop_the_server(
    openfga: OpenFga, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use_settings(monkeypatch, openid_provider_uri="https://idp.example.com")
    for endpoint, reason in (
        (openfga.url, "it has no store 'that does not exist': run manage.py migrate"),
        (f"http://127.0.0.1:{process.free_port()}", "Connection refused"),
    ):
        choose_openfga(monkeypatch, endpoint=endpoint, store_name="that does not exist")
        caplog.clear()
        require_chosen_backend()
        assert any(reason in record.getMessage() for record in caplog.records)


@contextlib.contextmanager
def responding(host: str, *responses: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that sends the next of `responses` on each connection and closes it: its address, and the bytes it
    received.
    """
    taken: list[bytes] = []

    def serve() -> None:
        for response in responses:
            connected, _ = listening.accept()
            with connected:
                taken.append(connected.recv(1000))
                connected.sendall(response)

    with socket.create_server((host, 0)) as listening:
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        yield f"http://{host}:{listening.getsockname()[1]}", taken
        server.join(10)


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"HELLO\r\n\r\n",
        b"\0\0\0\4",  # a part of a header
        b"\0\0\6\4\1\0\0\0\0",  # an acknowledgement of settings that the client did not send
        b"\0\0\7\4\0\0\0\0\0",  # settings have 6 bytes each
        b"\0\0\0\0\0\0\0\0\0",  # data
        b"\xff" * 9,
    ],
)
def test_other_protocols_are_not_replaced(chart: None, choose: Callable[[str], None], response: bytes) -> None:
    """Also where an OpenFGA responds at port 8080 of the same host: it may be another one than the configured one."""
    with responding(HOST, response, response) as (address, taken):
        choose(address)
        with pytest.raises(NoHttpResponse):
            install(openfga_store())
    assert [text[:6] for text in taken] == [b"GET /s", b"PRI * "]


def test_a_server_that_responded_over_http_is_not_probed_again(choose: Callable[[str], None]) -> None:
    body = b'{"stores": []}'
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
    with responding("127.0.0.1", head + body, b"", head + body) as (address, taken):
        choose(address)
        store = openfga_store()
        assert store.find_store_id() is None
        with pytest.raises(NoHttpResponse):
            store.find_store_id()
        assert store.find_store_id() is None
    assert [text[:6] for text in taken] == [b"GET /s"] * 3


@pytest.mark.timeout(300)
def test_the_environment_of_the_chart(chart: None, run_environment: RunEnvironment, tmp_path: Path) -> None:
    server = CatalogServer(
        tmp_path,
        database_url=run_environment.own_database("grpc_endpoint"),
        settings={
            "LAKEKEEPER__AUTHZ_BACKEND": "openfga",
            "LAKEKEEPER__OPENFGA__ENDPOINT": GRPC,
            "LAKEKEEPER__OPENFGA__STORE_NAME": "of a chart",
            "ICEKEEPER__ACCESS_TOKENS": "true",
        },
    )
    server.prepare()
    assert "was written to store" in server.manage("migrate")
    with contextlib.ExitStack() as ending:
        ending.callback(server.stop)
        server.start()
        token = server.manage("create_token", "--user", "local~admin", "--create-user").strip()
        server.manage("bootstrap", "--admin", "local~admin", "--operator")
        server.create_warehouse("wh", token=token)


@pytest.mark.timeout(300)
def test_commands_stop_with_the_cure(openfga: OpenFga, run_environment: RunEnvironment, tmp_path: Path) -> None:
    server = CatalogServer(
        tmp_path,
        database_url=run_environment.own_database("grpc_endpoint_alone"),
        settings={
            "LAKEKEEPER__AUTHZ_BACKEND": "openfga",
            "LAKEKEEPER__OPENFGA__ENDPOINT": f"http://127.0.0.1:{openfga.grpc_port}",
            "ICEKEEPER__ACCESS_TOKENS": "true",
        },
    )
    server.migrate()
    for command in ("migrate", "serve"):
        with pytest.raises(
            PartError, match=r"CommandError: .*is a gRPC interface.* Set it to the address of OpenFGA's"
        ):
            server.manage(command)
