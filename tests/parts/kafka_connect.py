"""Kafka with one Connect worker that runs Iceberg's sink, for one test run."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import requests

from tasks.spark import java
from tests.parts import process
from tests.parts.java_options import SHORT_RUN
from tests.parts.maven import MavenJars
from tests.parts.process import PartError

JARS = MavenJars("kafka-connect", Path(__file__).with_suffix(".xml"))
SECONDS_TO_START = 120
SECONDS_TO_RUN = 120


class KafkaConnect:
    """One broker and one standalone worker with its connector, below `home`.

    A context manager. `worker` and `connector` are their settings. Topics are created on first use.
    """

    def __init__(self, home: Path, worker: Mapping[str, str], connector: Mapping[str, str]) -> None:
        self.home = home
        self._worker, self._connector = worker, connector
        self._port, self._controller_port, self._rest_port = (process.free_port() for _ in range(3))
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def log_path(self) -> Path:
        return self.home / "connect.log"

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True, exist_ok=True)
        try:
            self._start_broker()
            self._start_worker()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the processes: the content of the topics need not be kept."""
        for each in reversed(self._processes):
            process.kill(each)
        self._processes.clear()

    def produce(self, topic: str, messages: Sequence[str]) -> None:
        lines = "".join(f"{each}\n" for each in messages)
        arguments = ("--bootstrap-server", self.bootstrap, "--topic", topic)
        self._run("org.apache.kafka.tools.ConsoleProducer", *arguments, given=lines)

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

    def _start_broker(self) -> None:
        settings = self._write(
            "server.properties",
            {
                "process.roles": "broker,controller",
                "node.id": "1",
                "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
                "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{self._controller_port}",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": str(self.home / "topics"),
                "offsets.topic.replication.factor": "1",
                "offsets.topic.num.partitions": "1",
                "transaction.state.log.replication.factor": "1",
                "transaction.state.log.min.isr": "1",
                "transaction.state.log.num.partitions": "1",
                "group.initial.rebalance.delay.ms": "0",
            },
        )
        formatting = ["format", "--cluster-id", "aWNla2VlcGVyLXRlc3Rz", "--config", settings]
        self._run("kafka.tools.StorageTool", *formatting)
        log = self.home / "broker.log"
        broker = process.start(_java("-Xmx384m", "kafka.Kafka", settings), log=log, env=_environment(), cwd=self.home)
        self._processes.append(broker)
        process.wait_until_ready(
            lambda: "Kafka Server started" in log.read_text(errors="replace"), broker, log=log, seconds=SECONDS_TO_START
        )

    def _start_worker(self) -> None:
        worker = self._write(
            "worker.properties",
            {
                "bootstrap.servers": self.bootstrap,
                "listeners": f"http://127.0.0.1:{self._rest_port}",
                **self._worker,
                "offset.storage.file.filename": str(self.home / "offsets"),
                "offset.flush.interval.ms": "1000",  # interval of calls to the sink without messages
                "plugin.discovery": "service_load",  # a scan of all jars takes 10 s
            },
        )
        connector = self._write("connector.properties", self._connector)
        words = _java("-Xmx512m", "org.apache.kafka.connect.cli.ConnectStandalone", worker, connector)
        started = process.start(words, log=self.log_path, env=_environment(), cwd=self.home)
        self._processes.append(started)
        process.wait_until_ready(self._is_running, started, log=self.log_path, seconds=SECONDS_TO_START)

    def _is_running(self) -> bool:
        try:
            return self.state() == "RUNNING"
        except requests.RequestException:
            return False

    def _write(self, name: str, properties: Mapping[str, str]) -> Path:
        path = self.home / name
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return path

    def _run(self, main: str, *arguments: str | Path, given: str | None = None) -> None:
        started = time.monotonic()
        done = subprocess.run(
            _java("-Xmx256m", main, *arguments), input=given or "", capture_output=True, text=True, check=False,
            timeout=SECONDS_TO_RUN, env=_environment(), cwd=self.home,
        )  # fmt: skip
        if done.returncode:
            took = time.monotonic() - started
            raise PartError(f"{main} failed after {took:.0f} s:\n{(done.stdout + done.stderr)[-3000:]}")


def _java(memory: str, main: str, *arguments: str | Path) -> list[str]:
    try:
        program = java.find_java_home() / "bin" / "java"
    except java.JavaNotFoundError as error:
        raise PartError(f"Kafka needs a Java: {error}") from error
    words = [program, memory, *SHORT_RUN, "-cp", f"{JARS.require()}/*", main, *arguments]
    return [os.fspath(word) for word in words]


def _environment() -> dict[str, str]:
    """Pass no credentials of the caller: the catalog vends them."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "KAFKA_"))}
    return inherited | {"AWS_REGION": "us-east-1"}
