"""`/metrics` of a real server: sums over its processes, which outlive them, and hostile clients."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from icekeeper.server.metrics_endpoint import CLIENT_TIMEOUT_SECONDS, MAX_CLIENTS, MAX_HEAD_BYTES
from tests.parts import process
from tests.parts.read_only import read_only_command
from tests.server.bare_server_fixtures import ROOT, BareServer
from tests.server.raw_client_fixtures import RawClient, RawResponse

ECHO = '{endpoint="/catalog/v1/echo",method="GET",status="200"}'
TOTAL, DURATION = "axum_http_requests_total", "axum_http_requests_duration_seconds"


class MeasuredServer(BareServer):
    """A server with two workers and metrics."""

    def __init__(self, home: Path) -> None:
        self.metrics_port = process.free_port()
        super().__init__(home, ICEKEEPER__SERVER__WORKERS="2", LAKEKEEPER__METRICS__PORT=str(self.metrics_port))

    def scrape(self) -> RawResponse:
        with RawClient(self.metrics_port, timeout=30) as client:
            return client.get("/metrics")

    def numbers(self) -> dict[str, float]:
        lines = self.scrape().body.decode().splitlines()
        return {name: float(number) for name, number in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}

    def served(self) -> float:
        """Number of requests with a 2xx response."""
        return sum(number for name, number in self.numbers().items() if re.match(TOTAL + r'\{.*status="2', name))

    def total(self) -> float:
        """Number of requests with any response."""
        return sum(number for name, number in self.numbers().items() if name.startswith(TOTAL))

    def folder(self) -> Path:
        """The folder of the metrics files."""
        assert self.process is not None
        paths = [Path(each.path) for each in psutil.Process(self.process.pid).open_files()]
        [folder] = {path.parent for path in paths if path.name == "gauge_max_server.db"}
        return folder

    def workers(self) -> list[psutil.Process]:
        """The processes that listen on the main port, unlike the metrics process."""
        assert self.process is not None
        return [child for child in psutil.Process(self.process.pid).children() if _listens_on(child, self.port)]

    def listeners(self) -> list[psutil.Process]:
        assert self.process is not None
        children = psutil.Process(self.process.pid).children()
        return [child for child in children if _listens_on(child, self.metrics_port)]

    def listener(self) -> psutil.Process:
        _wait_until(lambda: len(self.listeners()) == 1)
        return self.listeners()[0]


def _listens_on(child: psutil.Process, port: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return port in {each.laddr.port for each in child.net_connections("tcp") if each.status == "LISTEN"}
    return False


def _wait_until(comes: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not comes():
        assert time.monotonic() < give_up
        time.sleep(0.1)


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[MeasuredServer]:
    with MeasuredServer(tmp_path / "home") as server:
        assert isinstance(server, MeasuredServer)
        _wait_until(lambda: len(server.workers()) == 2)
        yield server


def _call_both_workers(server: MeasuredServer, calls: int) -> set[int]:
    """Send `calls` times a request on each of four connections, and return the ids of the processes that serve them.

    Either process may accept all of four connections: others are opened, and those kept, until both have responded.
    """
    processes = set[int]()
    with ExitStack() as opened:
        clients = opened.enter_context(server.clients(4))
        for _ in range(calls):
            processes |= {client.get("/catalog/v1/echo").json["process"] for client in clients}
            if len(processes) < 2:
                clients = opened.enter_context(server.clients(4))
    return processes


def test_a_scrape_has_the_sum_over_all_processes(measured: MeasuredServer) -> None:
    before = measured.numbers()
    assert before["icekeeper_workers"] == 2
    assert len(_call_both_workers(measured, 10)) == 2
    with measured.client() as client:
        assert client.get("/catalog/v1/no-such").status == 404
    with measured.client() as client:
        assert client.send(b"nonsense\r\n\r\n").response().status == 400, "no view sees this one"
    _wait_until(lambda: measured.total() >= 43)  # one more for the health check of the start
    after = measured.numbers()
    requests = {name: number for name, number in after.items() if name.startswith(TOTAL)}
    assert requests == {
        f'{TOTAL}{{endpoint="/page",method="GET",status="200"}}': 1,
        f"{TOTAL}{ECHO}": 40,
        f'{TOTAL}{{endpoint="unmatched",method="GET",status="404"}}': 1,
        f'{TOTAL}{{endpoint="unmatched",method="other",status="400"}}': 1,
    }
    assert after[f"{DURATION}_count{ECHO}"] == 40
    assert 0 < after[f"{DURATION}_sum{ECHO}"] < 60
    buckets = [number for name, number in after.items() if name.startswith(f'{DURATION}_bucket{{endpoint="/catalog')]
    assert len(buckets) == 15
    assert buckets == sorted(buckets)
    assert buckets[-1] == 40, "the last one is that of +Inf"
    assert after["process_resident_memory_bytes"] > 20_000_000
    assert after["process_open_fds"] > 10
    assert after["process_cpu_seconds_total"] >= before["process_cpu_seconds_total"]
    assert abs(after["process_start_time_seconds"] - time.time()) < 300


def test_the_response_is_in_text_format(measured: MeasuredServer) -> None:
    response = measured.scrape()
    assert (response.status, response.closes) == (200, True)
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    sample = re.compile(r'([a-z_]+?)(_bucket|_sum|_count)?(\{[a-z_]+="[^"\\]*"(,[a-z_]+="[^"\\]*")*\})? [0-9.e+-]+')
    text = response.body.decode()
    assert text.endswith("\n")
    family, kind, seen = "", "", set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in seen
            seen.add(family)
        elif line.startswith("# TYPE "):
            kind = line.split(" ")[3]
            assert line.split(" ")[2:] in ([family, "counter"], [family, "gauge"], [family, "histogram"])
        else:
            found = sample.fullmatch(line)
            assert found is not None, line
            assert found[1] == family
            assert (found[2] is not None) == (kind == "histogram")


def test_counts_of_dead_processes_are_kept(measured: MeasuredServer) -> None:
    _call_both_workers(measured, 5)
    _wait_until(lambda: measured.served() == 21)
    former = measured.workers()
    lowest = 21.0
    for victim in former:
        victim.kill()

    def both_are_replaced() -> bool:
        nonlocal lowest
        seen = measured.numbers()
        lowest = min(lowest, sum(number for name, number in seen.items() if name.startswith(TOTAL)))
        now = measured.workers()
        return len(now) == 2 and not {each.pid for each in now} & {each.pid for each in former}

    _wait_until(both_are_replaced)
    _wait_until(lambda: measured.numbers()["icekeeper_workers"] == 2)
    assert lowest == 21
    assert len(_call_both_workers(measured, 5)) == 2
    _wait_until(lambda: measured.served() == 41)


def test_labels_come_from_routes_and_never_from_requests(measured: MeasuredServer) -> None:
    hostile = (
        "GET /catalog/v1/namespaces/secret_name",
        "GET /catalog/v1/secret_path?token=secret_query",
        "SECRET /catalog/v1/echo",
        "secret /secret",
        'GET /catalog/v1/%73ecret"}\\n',
        "GET secret",
        "GET /management/v1/secret/<secret:x>",
    )
    headers = b"Host: secret\r\nAuthorization: Bearer secret\r\nX-Request-Id: secret\r\nX-Project-Id: secret\r\n\r\n"
    for line in hostile:
        with measured.client() as client:
            client.send(line.encode() + b" HTTP/1.1\r\n" + headers).response()

    _wait_until(lambda: measured.total() >= 1 + len(hostile))
    page = measured.scrape().body.decode()
    assert "secret" not in page.lower()
    assert set(re.findall(r'endpoint="([^"]*)"', page)) == {
        "/page", "/catalog/v1/echo", "/catalog/v1/namespaces/{name}", "unmatched",
    }  # fmt: skip
    assert set(re.findall(r'method="([^"]*)"', page)) == {"GET", "other"}


def test_requests_that_run_are_pending(measured: MeasuredServer) -> None:
    pending = 'axum_http_requests_pending{endpoint="/catalog/v1/hold",method="GET"}'
    with measured.client() as client:
        with measured.holding(client):
            _wait_until(lambda: measured.numbers().get(pending) == 1)
        assert client.response().status == 200
    _wait_until(lambda: measured.numbers()[pending] == 0)


def test_a_worker_that_ends_by_itself_writes_its_last_numbers(measured: MeasuredServer) -> None:
    _call_both_workers(measured, 5)
    for each in measured.workers():
        each.send_signal(signal.SIGTERM)
    _wait_until(lambda: measured.served() == 21)


def test_the_listener_is_restarted_and_keeps_all_counts(measured: MeasuredServer) -> None:
    _call_both_workers(measured, 5)
    _wait_until(lambda: measured.served() == 21)
    measured.listener().kill()

    def responses() -> bool:
        with suppress(OSError, EOFError):
            return measured.served() == 21
        return False

    time.sleep(0.2)
    _wait_until(responses)
    assert any(
        "the metrics listener exited and is restarted" in line["message"] for line in measured.lines("icekeeper.server")
    )


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /metrics?name[]=up HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        (b"GET /metrics HTTP/1.0\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /metrics/ HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /%6Detrics HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /catalog/v1/config HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 405),
        (b"GET /metrics\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET /" + b"x" * 2 * MAX_HEAD_BYTES + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 50_000, 431),
    ],
)
def test_requests_of_all_kinds(measured_once: MeasuredServer, head: bytes, status: int) -> None:
    with RawClient(measured_once.metrics_port, timeout=30) as client:
        response = client.send(head).response()
        assert (response.status, response.closes) == (status, True)
        assert bool(response.body) == (status == 200)
        assert client.is_closed()


def test_head_has_no_body(measured_once: MeasuredServer) -> None:
    with RawClient(measured_once.metrics_port, timeout=30) as client:
        response = client.get("/metrics", method="HEAD")
    assert (response.status, response.body) == (200, b"")
    assert int(response.headers["Content-Length"]) > 500


def test_slow_callers_block_no_other_and_are_disconnected(measured_once: MeasuredServer) -> None:
    began = time.monotonic()
    with ExitStack() as stack:
        slow = [stack.enter_context(RawClient(measured_once.metrics_port, timeout=30)) for _ in range(MAX_CLIENTS - 1)]
        for client in slow:
            client.send(b"GET /metrics HTTP/1.1\r\n")
        assert measured_once.scrape().status == 200
        assert time.monotonic() - began < CLIENT_TIMEOUT_SECONDS, "it did not wait for them"
        with measured_once.client() as client:
            assert client.get("/catalog/v1/echo").status == 200
        slow[0].trickle(b"x" * 1000, pause=0.05)
        assert all(client.is_closed() for client in slow)
        assert time.monotonic() - began < CLIENT_TIMEOUT_SECONDS + 20
    assert measured_once.scrape().status == 200


def test_idle_connections_do_not_block_a_scrape(measured_once: MeasuredServer) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(RawClient(measured_once.metrics_port, timeout=30)) for _ in range(200)]
        for client in idle[100:]:
            client.send(b"GET /metrics HTTP/1.1\r\n")
        assert [measured_once.scrape().status for _ in range(5)] == [200] * 5
        assert all(client.is_closed() for client in idle[: 200 - MAX_CLIENTS]), "they gave way"
    assert not [line for line in measured_once.lines("asyncio") if line["level"] == "ERROR"]


@pytest.fixture(scope="module")
def measured_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredServer]:
    with MeasuredServer(tmp_path_factory.mktemp("metrics") / "home") as server:
        assert isinstance(server, MeasuredServer)
        yield server


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_listener_ends_with_the_server(measured: MeasuredServer, number: signal.Signals) -> None:
    assert measured.process is not None
    everyone, folder = [*measured.workers(), measured.listener()], measured.folder()
    assert list(folder.glob("counter_*.db"))
    assert folder.stat().st_mode & 0o777 == 0o700
    os.killpg(measured.process.pid, number)  # as Ctrl-C
    assert measured.wait() == 0
    assert not folder.exists()
    assert not [each for each in everyone if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    assert not [line for line in measured.lines("icekeeper.server") if "restarted" in line["message"]]


def test_the_listener_ends_when_the_server_is_killed(measured: MeasuredServer) -> None:
    assert measured.process is not None
    everyone, folder = [*measured.workers(), measured.listener()], measured.folder()
    measured.process.kill()
    measured.wait()
    ended, left = psutil.wait_procs(everyone, timeout=30)
    assert (len(ended), left) == (3, [])
    assert not folder.exists()


@pytest.mark.parametrize("folder", ["/dev/shm", "/tmp"])
def test_a_read_only_file_system_needs_one_writable_folder(tmp_path: Path, folder: str) -> None:
    server = MeasuredServer(tmp_path / "home")
    server.command = read_only_command(*server.command, writable=[folder])
    with server:
        _call_both_workers(server, 5)
        _wait_until(lambda: server.served() == 21)
        assert server.folder().parent == Path(folder)
    assert not [line for line in server.lines("icekeeper.server") if line["level"] in {"WARNING", "ERROR"}]


def test_off(tmp_path: Path) -> None:
    with BareServer(tmp_path / "home", LAKEKEEPER__METRICS__PORT="off") as server:
        assert server.process is not None
        arbiter = psutil.Process(server.process.pid)
        assert {each.laddr.port for each in arbiter.net_connections("tcp")} == {server.port}
        time.sleep(1.5)  # a child process would have been started by now
        assert len(arbiter.children()) == 1


def test_an_occupied_configured_port_stops_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as squatter:
        port = squatter.getsockname()[1]
        bare = BareServer(tmp_path / "home", LAKEKEEPER__METRICS_PORT=str(port))
        del bare.environment["LAKEKEEPER__METRICS__PORT"]
        bare.environment["DJANGO_SETTINGS_MODULE"] = "tests.server.bare_settings"
        _manage(bare, "migrate", "--verbosity", "0")
        done = _manage(bare, "serve", "--without-worker")
    assert done.returncode == 1
    assert (
        f"CommandError: cannot listen on 127.0.0.1:{port}: it is in use. "
        "Free it, or choose another with LAKEKEEPER__METRICS__PORT and LAKEKEEPER__BIND_IP\n"
    ) in done.stderr
    assert "Traceback" not in done.stderr
    assert "Icekeeper is serving" not in done.stdout


def test_with_an_occupied_default_port_the_server_starts_without_metrics(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with suppress(OSError):  # another process has it already
            stack.enter_context(socket.create_server(("127.0.0.1", 9000)))
        bare = BareServer(tmp_path / "home")
        del bare.environment["LAKEKEEPER__METRICS__PORT"]
        with bare, bare.client() as client:
            assert client.get("/catalog/v1/echo").status == 200
            [warning] = [line for line in bare.lines("icekeeper.server") if line["level"] == "WARNING"]
    assert warning["message"] == (
        "there are no metrics: cannot listen on 127.0.0.1:9000: it is in use. "
        "Free it, or choose another with LAKEKEEPER__METRICS__PORT and LAKEKEEPER__BIND_IP, or set it to off"
    )


def test_the_start_logs_the_address_of_the_metrics(tmp_path: Path) -> None:
    port = process.free_port()
    bare = BareServer(tmp_path / "home", LAKEKEEPER__METRICS__PORT=str(port))
    bare.environment["DJANGO_SETTINGS_MODULE"] = "tests.server.bare_settings"
    _manage(bare, "migrate", "--verbosity", "0")
    command = [sys.executable, "manage.py", "serve", "--without-worker"]
    running = process.start(command, log=bare.log, env=bare.environment, cwd=ROOT)
    try:
        process.wait_until_ready(
            lambda: "Icekeeper is serving" in bare.log.read_text(), running, log=bare.log, seconds=60
        )
        assert f"  metrics               http://127.0.0.1:{port}/metrics\n" in bare.log.read_text()
    finally:
        process.stop(running, gently=signal.SIGTERM)


def _manage(server: BareServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        env=server.environment, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
