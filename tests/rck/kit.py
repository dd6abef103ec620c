"""One suite of the kit against one server: compile it if needed, run it, and keep its report in a folder."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tasks.spark.java import find_java_home
from tests.parts import process
from tests.parts.java_options import SHORT_RUN
from tests.parts.process import PartError
from tests.parts.server import CatalogServer

SOURCES = Path(__file__).with_name("java")
SECONDS = 900

SETTINGS = {
    "rck.local": "false",  # otherwise the kit starts its own catalog
    "rck.requires-namespace-create": "true",
    "rck.supports-serverside-retry": "true",
    "rck.supports-names-with-dot": "true",
}


@dataclass(frozen=True)
class Suite:
    """A test class of the kit, or a local one that extends it."""

    name: str
    class_name: str


SUITES = (
    Suite("table", "TableTests"),
    Suite("view", "org.apache.iceberg.rest.RESTCompatibilityKitViewCatalogTests"),
)


class Kit:
    """The jars below `jars`, and the local classes compiled into `classes`. Raises `PartError` when they do not
    compile.
    """

    def __init__(self, jars: Path, classes: Path) -> None:
        self.java = find_java_home() / "bin" / "java"
        self.class_path = os.pathsep.join((str(classes), str(jars / "*")))
        compiled = subprocess.run(
            [self.java, "-cp", self.class_path, "org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-proc:none",
             "-d", classes, SOURCES],
            capture_output=True, text=True, check=False, env=environment(),
        )  # fmt: skip
        if compiled.returncode:
            raise PartError(f"{SOURCES} does not compile:\n{compiled.stdout}{compiled.stderr}")

    def run(self, suite: Suite, server: CatalogServer, folder: Path) -> int:
        """Run `suite` and return its exit status; `folder` gets `kit.log` and JUnit's report.

        The kit's temporary folder is in the warehouse: the kit chooses locations for tables and views there, and the
        server may write there.
        """
        temporary = server.storage_root / server.warehouse / "tmp"
        temporary.mkdir(parents=True)
        properties = SETTINGS | {"java.io.tmpdir": str(temporary), "uri": server.uri, "warehouse": server.warehouse}
        log = folder / "kit.log"
        running = process.start(
            [self.java, "-Xmx1g", *SHORT_RUN, *(f"-D{name}={value}" for name, value in properties.items()),
             "-cp", self.class_path, "org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner",
             "--disable-ansi-colors", "--details=tree", "--fail-if-no-tests", f"--reports-dir={folder}",
             f"--select-class={suite.class_name}"],
            log=log, env=environment(), cwd=folder,
        )  # fmt: skip
        try:
            return running.wait(SECONDS)
        except subprocess.TimeoutExpired as error:
            raise PartError(f"the {suite.name} suite took more than {SECONDS} s:\n{process.log_end(log)}") from error
        finally:
            process.kill(running)


def report_in(folder: Path) -> Path:
    return folder / "TEST-junit-jupiter.xml"


def environment() -> dict[str, str]:
    """The caller's environment without `CATALOG_*`, which the kit reads as settings of its client."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CATALOG_")}
