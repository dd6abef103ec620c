"""RabbitMQ for one test run, as the message broker of Celery, with a port mapper (epmd) of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.parts import process
from tests.parts.process import PartError

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Debian's own wrapper, `/usr/sbin/rabbitmq-server`, would change the user."""

CURE = "Debian, Ubuntu: apt install rabbitmq-server"


def find_program() -> Path | None:
    return PROGRAM if PROGRAM.exists() and shutil.which("epmd") else None


class RabbitMq:
    """A server on 127.0.0.1 with the user `guest`. A context manager."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home, self.port, self.log = home, process.free_port(), home / "rabbitmq.log"
        self._epmd_port = process.free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for each in reversed(self._processes):
            process.stop(each, gently=signal.SIGTERM, seconds=20)

    def _start(self) -> None:
        program = find_program()
        if program is None:
            raise PartError(f"RabbitMQ is missing. {CURE}")
        (self.home / "plugins").write_text("[].\n")
        (self.home / "rabbitmq.conf").write_text("")
        # The server would start a mapper that outlives it.
        mapper = ["epmd", "-port", str(self._epmd_port), "-address", "127.0.0.1"]
        self._processes.append(process.start(mapper, log=self.home / "epmd.log"))
        environment = os.environ | {
            "HOME": str(self.home),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "RABBITMQ_NODENAME": f"icekeeper{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(process.free_port()),
            "RABBITMQ_MNESIA_BASE": str(self.home / "data"),
            "RABBITMQ_LOG_BASE": str(self.home),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(self.home / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.home / "plugins"),
            "RABBITMQ_PID_FILE": str(self.home / "pid"),
        }
        server = process.start([program], log=self.log, env=environment, cwd=self.home)
        self._processes.append(server)
        process.wait_until_ready(self._is_ready, server, log=self.log, seconds=90)

    def _is_ready(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            connection.settimeout(5)
            return bool(connection.recv(1))
        return False
