"""Kafka with one Connect worker that runs Iceberg's sink, for one test run."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import requests

from tests.parts import kafka, process


class KafkaConnect:
    """One broker and one standalone worker with its connector, below `home`.

    A context manager. `worker` and `connector` are their settings. Topics are created on first use.
    """

    def __init__(self, home: Path, worker: Mapping[str, str], connector: Mapping[str, str]) -> None:
        self.home = home
        self._worker, self._connector = worker, connector
        self._broker, self._rest_port = kafka.Kafka(home), process.free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return self._broker.bootstrap

    @property
    def log_path(self) -> Path:
        return self.home / "connect.log"

    def __enter__(self) -> Self:
        self._broker.__enter__()
        try:
            self._start_worker()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the processes: the content of the topics need not be kept."""
        if self._process is not None:
            process.kill(self._process)
            self._process = None
        self._broker.__exit__()

    def produce(self, topic: str, messages: Sequence[str]) -> None:
        lines = "".join(f"{each}\n" for each in messages)
        arguments = ("--bootstrap-server", self.bootstrap, "--topic", topic)
        kafka.run_java("org.apache.kafka.tools.ConsoleProducer", *arguments, cwd=self.home, given=lines)

    def state(self) -> str:
        """Return `RUNNING`, or the status of the connector and its tasks."""
        name = self._connector["name"]
        response = requests.get(f"http://127.0.0.1:{self._rest_port}/connectors/{name}/status", timeout=10)
        if not response.ok:
            return f"{response.status_code}: {response.text}"
        status = response.json()
        parts = [status["connector"], *status["tasks"]]
        failed = [part.get("trace", part["state"]) for part in parts if part["state"] != "RUNNING"]
        return "\n".join(failed) if failed or not status["tasks"] else "RUNNING"

    def _start_worker(self) -> None:
        worker = kafka.write_properties(
            self.home / "worker.properties",
            {
                "bootstrap.servers": self.bootstrap,
                "listeners": f"http://127.0.0.1:{self._rest_port}",
                **self._worker,
                "offset.storage.file.filename": str(self.home / "offsets"),
                "offset.flush.interval.ms": "1000",  # interval of calls to the sink without messages
                "plugin.discovery": "service_load",  # a scan of all jars takes 10 s
            },
        )
        connector = kafka.write_properties(self.home / "connector.properties", self._connector)
        words = kafka.java_command("-Xmx512m", "org.apache.kafka.connect.cli.ConnectStandalone", worker, connector)
        self._process = process.start(words, log=self.log_path, env=kafka.environment(), cwd=self.home)
        process.wait_until_ready(self._is_running, self._process, log=self.log_path, seconds=kafka.SECONDS_TO_START)

    def _is_running(self) -> bool:
        try:
            return self.state() == "RUNNING"
        except requests.RequestException:
            return False
