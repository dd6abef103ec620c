"""A third-party server for one test run: its process, the relay in front of it, and its termination."""

from __future__ import annotations

import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

import requests

from tests.parts import process
from tests.parts.relay import Relay


class RelayedServer(ABC):
    """One server with its folder at `home`, on 127.0.0.1. A context manager; its data is deleted at the end.

    It listens on `port`; clients connect through `relay`, which can refuse connections or stop responding.
    """

    health_path: ClassVar[str]
    """Returns any status but 5xx once the server is ready."""

    seconds_to_start: ClassVar[float] = 60

    foreign_variables: ClassVar[tuple[str, ...]] = ()
    """How names of our environment begin that it must not read."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.log_path = home / "server.log"
        self.port = process.free_port()
        self.relay = Relay(self.port)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.relay.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @abstractmethod
    def command(self) -> Sequence[str | Path]:
        """Return the command that starts it on `port` with its files below `home`; raise `PartError` where it is
        missing.
        """

    def variables(self) -> dict[str, str]:
        """Return additional environment variables."""
        return {}

    def environment(self) -> dict[str, str]:
        """Return the whole environment of the process."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith(self.foreign_variables)}
        return ours | self.variables()

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True, exist_ok=True)
        self.relay.__enter__()
        try:
            self._process = process.start(self.command(), log=self.log_path, env=self.environment())
            process.wait_until_ready(self._is_ready, self._process, log=self.log_path, seconds=self.seconds_to_start)
        except BaseException:
            self.__exit__()
            raise
        return self

    def restart_after_kill(self, pause: float = 0.0) -> None:
        """Kill the process and start it again after `pause` seconds, on the same port and data."""
        assert self._process is not None
        process.kill(self._process)
        time.sleep(pause)
        self._process = process.start(self.command(), log=self.log_path, env=self.environment())
        process.wait_until_ready(self._is_ready, self._process, log=self.log_path, seconds=self.seconds_to_start)

    def __exit__(self, *_: object) -> None:
        """Kill the process: its data need not be kept."""
        if self._process is not None:
            process.kill(self._process)
            self._process = None
        self.relay.__exit__()

    def _is_ready(self) -> bool:
        try:
            return requests.get(f"http://127.0.0.1:{self.port}{self.health_path}", timeout=2).status_code < 500
        except requests.RequestException:
            return False
