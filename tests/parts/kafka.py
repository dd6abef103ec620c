"""Kafka for one test run: one broker (KRaft) on 127.0.0.1."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tasks.spark import java
from tests.parts import process
from tests.parts.java_options import SHORT_RUN
from tests.parts.maven import MavenJars
from tests.parts.process import PartError

JARS = MavenJars("kafka-connect", Path(__file__).with_name("kafka_connect.xml"))
"""Kafka with its Connect runtime and Iceberg's sink."""
SECONDS_TO_START = 120
SECONDS_TO_RUN = 120


class Kafka:
    """One broker below `home`. Topics are created on first use.

    A context manager; `kill` and `start` interrupt it on the same ports and files. With settings of a listener for
    SASL_SSL in `secured`, such as its certificates and users, it also listens on `secured_bootstrap`.
    """

    def __init__(self, home: Path, *, secured: Mapping[str, str] | None = None) -> None:
        self.home = home
        self.log_path = home / "broker.log"
        self._secured = dict(secured or {})
        self._port, self._secured_port, self._controller_port = (process.free_port() for _ in range(3))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def secured_bootstrap(self) -> str:
        return f"127.0.0.1:{self._secured_port}"

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True, exist_ok=True)
        settings = self._write_settings()
        formatting = ("format", "--cluster-id", "aWNla2VlcGVyLXRlc3Rz", "--config", settings)
        run_java("kafka.tools.StorageTool", *formatting, cwd=self.home)
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        words = java_command("-Xmx384m", "kafka.Kafka", self._settings_path)
        before = self._count_starts()
        self._process = process.start(words, log=self.log_path, env=environment(), cwd=self.home)
        process.wait_until_ready(
            lambda: self._count_starts() > before, self._process, log=self.log_path, seconds=SECONDS_TO_START
        )

    def kill(self) -> None:
        """Kill it: the content of the topics stays."""
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

    @property
    def _settings_path(self) -> Path:
        return self.home / "server.properties"

    def _count_starts(self) -> int:
        return self.log_path.read_text(errors="replace").count("Kafka Server started") if self.log_path.exists() else 0

    def _write_settings(self) -> Path:
        return write_properties(
            self._settings_path,
            {
                "process.roles": "broker,controller",
                "node.id": "1",
                "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
                "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{self._controller_port}"
                + (f",SECURED://127.0.0.1:{self._secured_port}" if self._secured else ""),
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": str(self.home / "topics"),
                "offsets.topic.replication.factor": "1",
                "offsets.topic.num.partitions": "1",
                "transaction.state.log.replication.factor": "1",
                "transaction.state.log.min.isr": "1",
                "transaction.state.log.num.partitions": "1",
                "group.initial.rebalance.delay.ms": "0",
                "broker.session.timeout.ms": "4000",  # a start after a kill waits for its end
                **{f"listener.name.secured.{name}": value for name, value in self._secured.items()},
            },
        )


def write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path


def run_java(main: str, *arguments: str | Path, cwd: Path, given: str = "") -> None:
    """Run a program of Kafka with `given` as its input; raise `PartError` when it fails."""
    started = time.monotonic()
    done = subprocess.run(
        java_command("-Xmx256m", main, *arguments), input=given, capture_output=True, text=True, check=False,
        timeout=SECONDS_TO_RUN, env=environment(), cwd=cwd,
    )  # fmt: skip
    if done.returncode:
        took = time.monotonic() - started
        raise PartError(f"{main} failed after {took:.0f} s:\n{(done.stdout + done.stderr)[-3000:]}")


def java_command(memory: str, main: str, *arguments: str | Path) -> list[str]:
    try:
        program = java.find_java_home() / "bin" / "java"
    except java.JavaNotFoundError as error:
        raise PartError(f"Kafka needs a Java: {error}") from error
    words = [program, memory, *SHORT_RUN, "-cp", f"{JARS.require()}/*", main, *arguments]
    return [os.fspath(word) for word in words]


def environment() -> dict[str, str]:
    """Return our environment without credentials: the catalog vends those of its clients."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "KAFKA_"))}
    return inherited | {"AWS_REGION": "us-east-1"}
