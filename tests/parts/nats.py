"""NATS for one test run: the server of the distribution, with or without JetStream, authentication and TLS."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.parts import process
from tests.parts.process import PartError

CURE = "Debian, Ubuntu: apt install nats-server"


def find_program() -> str | None:
    return shutil.which("nats-server") or shutil.which("/usr/sbin/nats-server")


class Nats:
    """A server on 127.0.0.1. A context manager; `kill` and `start` interrupt it on the same port and files.

    `configuration` is the text of its configuration file, such as users, permissions and TLS; by default JetStream.
    """

    def __init__(self, home: Path, configuration: str = "jetstream {}") -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home, self.port, self.log = home, process.free_port(), home / "nats.log"
        self._configuration = home / "nats.conf"
        self._configuration.write_text(configuration)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        self._process = process.start(self.command(), log=self.log, cwd=self.home)
        process.wait_until_ready(self._is_ready, self._process, log=self.log, seconds=30)

    def command(self) -> Sequence[str]:
        program = find_program()
        if program is None:
            raise PartError(f"NATS is missing. {CURE}")
        where = ["--addr", "127.0.0.1", "--port", str(self.port)]
        files = ["--store_dir", str(self.home / "streams"), "--config", str(self._configuration)]
        return [program, *where, *files]

    def kill(self) -> None:
        """Kill it: messages of core NATS are lost, those of JetStream stay."""
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
            return connection.recv(5) == b"INFO "
        return False
