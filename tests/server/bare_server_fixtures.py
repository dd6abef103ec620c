"""The real server process with the views of tests.server.urls."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import orjson

from tests.parts import process
from tests.server.raw_client_fixtures import RawClient

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = ("LAKEKEEPER__", "ICEKEEPER__", "ICEBERG_REST__", "DJANGO_SETTINGS_MODULE")


class BareServer:
    """A server with `settings` as product variables, by default with one worker."""

    def __init__(self, home: Path, **settings: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home, self.log = home, home / "server.log"
        self.port = process.free_port()
        inherited = {name: value for name, value in os.environ.items() if not name.upper().startswith(LEFT_OUT)}
        self.environment = inherited | {
            "ICEKEEPER__DATA_DIR": str(home),
            "ICEKEEPER__SERVER__WORKERS": "1",
            "ICEKEEPER__SERVER__THREADS": "4",
            "LAKEKEEPER__BIND_IP": "127.0.0.1",
            "LAKEKEEPER__METRICS__PORT": "off",
            "LAKEKEEPER__LISTEN_PORT": str(self.port),
            **settings,
        }
        self.command = [sys.executable, "-m", "tests.server.run_bare"]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        self.process = process.start(self.command, log=self.log, env=self.environment, cwd=ROOT)
        process.wait_until_ready(self._responses, self.process, log=self.log, seconds=60)
        return self

    def client(self, **options: Any) -> RawClient:
        return RawClient(self.port, **options)

    @contextmanager
    def clients(self, count: int, **options: Any) -> Iterator[list[RawClient]]:
        """Yield `count` open connections."""
        with ExitStack() as stack:
            yield [stack.enter_context(self.client(**options)) for _ in range(count)]

    @contextmanager
    def holding(self, client: RawClient, *, view: str = "hold") -> Iterator[None]:
        """Keep a thread busy for `client` during the context; afterwards `client` has received its response."""
        call = self.home / f"held-{uuid4()}"
        begun, release = call.with_suffix(".begun"), call.with_suffix(".release")
        client.send(f"GET /catalog/v1/{view}?begun={begun}&release={release} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        give_up = time.monotonic() + 30
        while not begun.exists():
            assert time.monotonic() < give_up, "the server did not take the request"
            time.sleep(0.01)
        try:
            yield
        finally:
            release.touch()

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, seconds: float = 60) -> int:
        assert self.process is not None
        return self.process.wait(seconds)

    def lines(self, logger: str = "icekeeper.access") -> list[dict[str, Any]]:
        """Return the log lines of `logger` so far."""
        complete, _, _ = self.log.read_bytes().rpartition(b"\n")  # the last line may be incomplete
        written = [orjson.loads(line) for line in complete.splitlines() if line.startswith(b"{")]
        return [line for line in written if line["logger"] == logger]

    def _responses(self) -> bool:
        try:
            with self.client(timeout=10) as client:
                return client.get("/page").status == 200
        except OSError:
            return False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None:
            error.add_note(f"The log of the server ends with:\n{process.log_end(self.log)}")
        if self.process is not None:
            process.stop(self.process, gently=signal.SIGTERM)
