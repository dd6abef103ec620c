"""Starts the floors with the settings of the catalog server that they are compared with."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Self

from tests.parts import process
from tests.parts.server import CatalogServer
from tests.perf.connection import Connection, request

ROOT = Path(__file__).resolve().parents[2]


class FloorServer:
    """`floor_process` on a separate `port`; a context manager."""

    def __init__(self, catalog: CatalogServer, *, database_url: str) -> None:
        self.port = process.free_port()
        self._log = catalog.home / "floors.log"
        self._environment = catalog.environment | {
            "LAKEKEEPER__LISTEN_PORT": str(self.port),
            "FLOOR_DATABASE_URL": database_url,
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.perf.floor_process"]
        self._process = process.start(command, log=self._log, env=self._environment, cwd=ROOT)
        try:
            process.wait_until_ready(self._responses, self._process, log=self._log, seconds=30)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            process.stop(self._process, gently=signal.SIGTERM)

    def _responses(self) -> bool:
        try:
            with closing(Connection(self.port)) as connection:
                return connection.send(request("GET", "/bytes/nothing"))[0] == 404
        except OSError:
            return False
