"""Redis for one test run, as the message broker of Celery; it stores nothing on disk."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.parts import process
from tests.parts.process import PartError

CURE = "Debian, Ubuntu: apt install redis-server"


def find_program() -> str | None:
    return shutil.which("redis-server")


class Redis:
    """A server on 127.0.0.1. A context manager; `kill` and `start` interrupt it on the same port."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home, self.port, self.log = home, process.free_port(), home / "redis.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        program = find_program()
        if program is None:
            raise PartError(f"Redis is missing. {CURE}")
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = process.start([program, *options], log=self.log, cwd=self.home)
        process.wait_until_ready(self._is_ready, self._process, log=self.log, seconds=30)

    def kill(self) -> None:
        """Kill it: all messages are lost."""
        if self._process is not None:
            process.kill(self._process)
            self._process = None

    def suspend(self) -> None:
        """Stop it without closing its connections."""
        assert self._process is not None
        process.suspend(self._process)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _is_ready(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        return False
