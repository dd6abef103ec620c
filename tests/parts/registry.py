"""Every real part that tests use: whether it is installed, its path and version, else the reason and the fix."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tasks.spark import java
from tests.parts import (
    azurite,
    chromium,
    fake_gcs,
    faketime,
    flink,
    iceberg_js,
    kafka,
    keycloak,
    minio,
    nats,
    opa,
    openfga,
    postgres,
    rabbitmq,
    rck,
    redis,
    sail,
    seaweedfs,
    trino,
)
from tests.parts.golang import GoProgram

ENGINES_CURE = "make test-engines"


@dataclass(frozen=True)
class Found:
    name: str
    version: str
    where: str

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.where})"


@dataclass(frozen=True)
class Missing:
    name: str
    reason: str
    cure: str

    def __str__(self) -> str:
        return f"{self.name} is missing: {self.reason}. Cure: {self.cure}"


def _find_postgresql() -> Found | Missing:
    programs = postgres.find_programs()
    if programs is None:
        return Missing("PostgreSQL", f"no version since {postgres.OLDEST} on this machine or in .parts/", "make parts")
    return Found("PostgreSQL", programs.version, str(programs.bin))


def _find_spark() -> Found | Missing:
    try:
        spark = importlib.metadata.version("pyspark")
        home = java.find_java_home()
    except importlib.metadata.PackageNotFoundError:
        return Missing("Spark", "pyspark is not installed", "make setup")
    except java.JavaNotFoundError as error:
        return Missing("Spark", "no Java that runs it", str(error))
    runtime = java.probe(home / "bin" / "java")
    return Found("Spark", spark, f"Java {runtime.version if runtime else '?'} in {home}")


def _find_shell() -> Found | Missing:
    programs = {name: shutil.which(name) for name in ("bash", "curl", "jq")}
    absent = [name for name, where in programs.items() if where is None]
    if absent:
        return Missing("curl and jq", f"no {', '.join(absent)} on this machine", "Debian, Ubuntu: apt install curl jq")
    said = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True).stdout
    version = said.split()[1]
    if [int(part) for part in version.split(".")[:2]] < [7, 82]:
        return Missing("curl and jq", f"curl {version} does not know --json", "curl 7.82 or newer")
    return Found("curl and jq", version, str(programs["curl"]))


def _find_rck() -> Found | Missing:
    name = "REST Compatibility Kit"
    jars = rck.find_jars()
    if jars is None:
        return Missing(name, "its jars are not in .parts/", "make parts")
    try:
        java.find_java_home()
    except java.JavaNotFoundError as error:
        return Missing(name, "no Java that runs it", str(error))
    return Found(name, rck.version(), str(jars))


def _find_keycloak() -> Found | Missing:
    return _find_java_program("Keycloak", keycloak.version(), keycloak.find_home(), "make parts")


def _find_go_program(name: str, program: GoProgram) -> Found | Missing:
    where = program.find()
    if where is None:
        return Missing(name, "it is not in .parts/", "make parts")
    return Found(name, program.version, str(where))


def _find_seaweedfs() -> Found | Missing:
    program = seaweedfs.find()
    if program is None:
        return Missing("SeaweedFS", "it is not in .parts/", "make parts")
    return Found("SeaweedFS", seaweedfs.version(), str(program))


def _find_azurite() -> Found | Missing:
    words = azurite.PACKAGE.find()
    if words is None:
        return Missing("Azurite", "it or a Node that runs it is not in .parts/", "make parts")
    return Found("Azurite", azurite.PACKAGE.version, f"run by {words[0]}")


def _find_chromium() -> Found | Missing:
    program, axe = chromium.find_program(), chromium.find_axe()
    if program is None:
        return Missing("Chromium", "it is not on this machine", "Debian, Ubuntu: apt install chromium")
    if axe is None:
        return Missing("axe-core", "it is not in .parts/", "make parts")
    return Found("Chromium", chromium.version(program), f"{program}, with axe-core {chromium.AXE.version}")


def _find_sail() -> Found | Missing:
    python = sail.find_python()
    if python is None:
        return Missing("Sail", "it is not in .parts/", "make parts")
    return Found("Sail", sail.version(), str(python))


def _find_iceberg_js() -> Found | Missing:
    words = iceberg_js.PACKAGE.find()
    if words is None:
        return Missing("iceberg-js", "it or a Node that runs it is not in .parts/", "make parts")
    return Found("iceberg-js", iceberg_js.PACKAGE.version, f"run by {words[0]}")


def _find_kafka(name: str) -> Found | Missing:
    return _find_java_program(name, kafka.JARS.version, kafka.JARS.find(), "make parts")


def _find_nats() -> Found | Missing:
    return _find_package("NATS", nats.find_program(), [nats.find_program() or "", "--version"], nats.CURE)


def _find_trino() -> Found | Missing:
    home = trino.find_home()  # includes its own Java
    if home is None:
        return Missing("Trino", "it is not in .parts/", ENGINES_CURE)
    return Found("Trino", trino.version(), str(home))


def _find_flink() -> Found | Missing:
    return _find_java_program("Flink", flink.version(), flink.find_home(), ENGINES_CURE)


def _find_java_program(name: str, version: str, home: Path | None, cure: str) -> Found | Missing:
    if home is None:
        return Missing(name, "it is not in .parts/", cure)
    try:
        java.find_java_home()
    except java.JavaNotFoundError as error:
        return Missing(name, "no Java that runs it", str(error))
    return Found(name, version, str(home))


def _find_package(name: str, program: str | Path | None, version: Sequence[str], cure: str) -> Found | Missing:
    """Return a program of the distribution; `version` prints its version."""
    if program is None:
        return Missing(name, "it is not installed", cure)
    printed = subprocess.run(version, capture_output=True, text=True, check=True).stdout
    found = re.search(r"\d+\.\d+\.\d+", printed)
    return Found(name, found[0] if found else "?", str(program))


def _find_redis() -> Found | Missing:
    return _find_package("Redis", redis.find_program(), ["redis-server", "--version"], redis.CURE)


def _find_rabbitmq() -> Found | Missing:
    version = ["dpkg-query", "--show", "--showformat", "${Version}", "rabbitmq-server"]
    return _find_package("RabbitMQ", rabbitmq.find_program(), version, rabbitmq.CURE)


def _find_faketime() -> Found | Missing:
    version = ["dpkg-query", "--show", "--showformat", "${Version}", "libfaketime"]
    return _find_package("libfaketime", faketime.find_library(), version, faketime.CURE)


PARTS: dict[str, Callable[[], Found | Missing]] = {
    "postgresql": _find_postgresql,
    "spark": _find_spark,
    "shell": _find_shell,
    "rck": _find_rck,
    "redis": _find_redis,
    "rabbitmq": _find_rabbitmq,
    "faketime": _find_faketime,
    "keycloak": _find_keycloak,
    "minio": lambda: _find_go_program("MinIO", minio.PROGRAM),
    "seaweedfs": _find_seaweedfs,
    "azurite": _find_azurite,
    "chromium": _find_chromium,
    "fake_gcs": lambda: _find_go_program("fake-gcs-server", fake_gcs.PROGRAM),
    "openfga": lambda: _find_go_program("OpenFGA", openfga.PROGRAM),
    "opa": lambda: _find_go_program("Open Policy Agent", opa.PROGRAM),
    "sail": _find_sail,
    "iceberg_js": _find_iceberg_js,
    "kafka": lambda: _find_kafka("Kafka"),
    "kafka_connect": lambda: _find_kafka("Kafka Connect"),
    "nats": _find_nats,
}

LARGE_ENGINES: dict[str, Callable[[], Found | Missing]] = {"trino": _find_trino, "flink": _find_flink}
"""Parts of `make test-engines` alone."""


@cache
def look_up(name: str) -> Found | Missing:
    """Return the state of the part `name`; looked up once per process."""
    return (PARTS | LARGE_ENGINES)[name]()


def are_required() -> bool:
    """Return whether a missing part fails its tests instead of skipping them (`ICEKEEPER_TEST_PARTS=required`, as in
    CI).
    """
    return os.environ.get("ICEKEEPER_TEST_PARTS") == "required"


def report(names: Iterable[str] = PARTS) -> list[str]:
    return [str(look_up(name)) for name in names]
