"""Flink in one process that runs SQL files, with Iceberg's runtime for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tasks.spark import java
from tests.parts.folder import PARTS
from tests.parts.java_options import SHORT_RUN
from tests.parts.maven import MavenJars
from tests.parts.process import PartError

SOURCE = "apache-flink-libraries==2.1.1"
"""The one package that has a whole Flink without PyFlink and Beam; published as an archive of sources."""

JARS = MavenJars("flink-iceberg", Path(__file__).with_name("flink.xml"))
OPENED = (
    "java.io", "java.lang", "java.lang.reflect", "java.net", "java.nio", "java.text", "java.time", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks",
)  # fmt: skip
"""Packages of Java that Flink's own configuration opens."""

JAVA_OPTIONS = (
    "-Xmx900m", *SHORT_RUN, *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
)  # fmt: skip
SECONDS_TO_RUN = 900


def version() -> str:
    return SOURCE.partition("==")[2]


def find_home() -> Path | None:
    """Return the folder with Flink's jars if Iceberg's are in it too, else None."""
    return _home() if _home().is_dir() and JARS.find() else None


def install() -> Path:
    """Install Flink if needed and return the folder of `find_home`; raise `PartError` on failure. Downloads 470 MB."""
    JARS.install()
    if not _home().is_dir():
        _fetch(_home())
    return _home()


def _home() -> Path:
    return PARTS / f"flink-{version()}"


def _fetch(home: Path) -> None:
    fetched, unfinished = PARTS / "flink.fetched", PARTS / "flink.unfinished"
    try:
        for path in (fetched, unfinished):
            shutil.rmtree(path, ignore_errors=True)
        done = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input",
             "--no-deps", "--dest", fetched, SOURCE],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise PartError(f"pip could not fetch {SOURCE}: {done.stderr.strip()[-3000:]}")
        [archive] = fetched.iterdir()
        with tarfile.open(archive) as packed:
            packed.extractall(unfinished, filter="data")
        [unpacked] = unfinished.iterdir()
        (unpacked / "deps").rename(home)
    except (OSError, tarfile.TarError) as error:
        raise PartError(f"Flink could not be unpacked: {error}") from error
    finally:
        for path in (fetched, unfinished):
            shutil.rmtree(path, ignore_errors=True)


def run_sql(script: str, folder: Path) -> str:
    """Run the statements of `script` one after another in a child process; return the output of the client.

    Raises `PartError` when a statement fails; the client then skips the rest.
    """
    home = find_home()
    if home is None:
        raise PartError("Flink is missing: run `make test-engines`")
    folder.mkdir(parents=True, exist_ok=True)
    conf = folder / "conf"
    conf.mkdir(exist_ok=True)
    (conf / "config.yaml").write_text(
        "execution:\n  target: local\n  attached: true\n"
        "parallelism:\n  default: 1\n"
        "classloader:\n  check-leaked-classloader: false\n"  # Iceberg keeps a class loader of its first job
        f"io:\n  tmp:\n    dirs: {folder / 'tmp'}\n"
    )
    sql = folder / "statements.sql"
    sql.write_text("SET 'sql-client.execution.result-mode' = 'tableau';\nSET 'table.dml-sync' = 'true';\n" + script)
    jars = [home / "lib" / "*", *(home / "opt").glob("flink-*.jar"), JARS.require() / "*"]
    logging = conf / "log4j2.properties"
    logging.write_text(
        "rootLogger.level = WARN\nrootLogger.appenderRef.file.ref = file\n"
        "appender.file.name = file\nappender.file.type = FILE\n"
        f"appender.file.fileName = {folder / 'flink.log'}\n"
        "appender.file.layout.type = PatternLayout\nappender.file.layout.pattern = %d %p %c %m%n%ex\n"
    )
    try:
        done = subprocess.run(
            [java.find_java_home() / "bin" / "java", *JAVA_OPTIONS, f"-Dlog4j.configurationFile={logging}",
             "-cp", ":".join(map(str, jars)), "org.apache.flink.table.client.SqlClient", "embedded", "-f", sql],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=SECONDS_TO_RUN, cwd=folder,
            env=_environment() | {"FLINK_CONF_DIR": str(conf), "AWS_REGION": "us-east-1"},
        )  # fmt: skip
    except java.JavaNotFoundError as error:
        raise PartError(f"Flink needs a Java: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise PartError(f"Flink did not end in {SECONDS_TO_RUN} s: {str(error.stdout)[-3000:]}") from error
    if done.returncode or "[ERROR]" in done.stdout:
        raise PartError(f"Flink failed:\n{(done.stdout + done.stderr)[-6000:]}")
    return done.stdout


def _environment() -> dict[str, str]:
    """Pass no credentials of the caller: the catalog vends them."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FLINK_"))}
