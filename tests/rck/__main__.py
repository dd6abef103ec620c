"""`make rck`: Iceberg's REST Compatibility Kit against the real server, on SQLite and on PostgreSQL.

The kit cannot run twice on one catalog, so each suite gets a new database, server and warehouse. Logs and reports stay
in `build/rck/`.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tasks.spark.java import JavaNotFoundError
from tests.parts import process, rck
from tests.parts.postgres import Postgres
from tests.parts.process import PartError
from tests.parts.server import CatalogServer
from tests.rck.kit import SUITES, Kit, Suite, report_in
from tests.rck.results import Results, read_expected, server_errors

BUILD = Path(__file__).resolve().parents[2] / "build" / "rck"
DATABASES = ("sqlite", "postgres")


@dataclass(frozen=True)
class Run:
    """A finished run of one suite on one database; `complaints` lists every difference from the expected result."""

    database: str
    suite: str
    seconds: float
    results: Results
    complaints: list[str]


def run_suite(kit: Kit, suite: Suite, database: str, database_url: str | None) -> Run:
    """Run the kit against an empty catalog; check its exit status, the number of tests and the server's log."""
    folder = BUILD / f"{database}-{suite.name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="icekeeper-rck-") as home:
        server = CatalogServer(Path(home).resolve(), database_url=database_url)
        try:
            with server:
                server.create_warehouse("rck", allow_non_empty_locations=True)
                status = kit.run(suite, server, folder)
        finally:
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(server.log_path, folder)
    results = Results.read(report_in(folder))
    complaints = results.complaints(read_expected()[suite.name])
    complaints += server_errors((folder / server.log_path.name).read_text().splitlines())
    if status and not results.failed:
        complaints.append(f"the kit ended with status {status}: {process.log_end(folder / 'kit.log', lines=3)}")
    return Run(database, suite.name, time.monotonic() - started, results, complaints)


def run_all(databases: list[str], suites: list[Suite]) -> Iterator[Run]:
    """Run all suites one after another; PostgreSQL is started when it is needed."""
    with tempfile.TemporaryDirectory(prefix="icekeeper-rck-classes-") as classes, contextlib.ExitStack() as stack:
        kit = Kit(rck.install_jars(), Path(classes))
        for database in databases:
            postgres = stack.enter_context(Postgres()) if database == "postgres" else None
            for suite in suites:
                url = postgres.create_database(f"rck_{suite.name}") if postgres else None
                yield run_suite(kit, suite, database, url)


def describe(run: Run) -> str:
    """Return one line of the table, then each complaint."""
    counts = (len(run.results.passed), len(run.results.failed), len(run.results.skipped))
    figures = "".join(f"{count:>9}" for count in counts)
    lines = [f"{run.database:<9} {run.suite:<6}{figures}{run.seconds:>7.0f} s"]
    return "\n".join(lines + [f"    {complaint}" for complaint in run.complaints])


def skips(runs: list[Run]) -> list[str]:
    """Return each skipped test once, with our reason if there is one, else the kit's."""
    expected = read_expected()
    found = {
        f"{run.suite}: {name}": expected[run.suite].skipped.get(name, reason)
        for run in runs
        for name, reason in run.results.skipped.items()
    }
    return [f"  {name}: {reason}" for name, reason in sorted(found.items())]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make rck", description=__doc__)
    parser.add_argument("--database", choices=DATABASES, action="append", help="one of the two (default: both)")
    parser.add_argument("--suite", choices=[suite.name for suite in SUITES], action="append", help="likewise")
    arguments = parser.parse_args(words)
    suites = [suite for suite in SUITES if suite.name in (arguments.suite or [suite.name])]
    runs = []
    print(
        f"REST Compatibility Kit {rck.version()}\n{'database':<9} {'suite':<6}   passed   failed  skipped", flush=True
    )
    try:
        for run in run_all(arguments.database or list(DATABASES), suites):
            runs.append(run)
            print(describe(run), flush=True)
    except (PartError, JavaNotFoundError) as error:
        print(f"make rck: {error}", file=sys.stderr)
        return 1
    print("\n".join(["Skipped:", *(skips(runs) or ["  none"])]))
    has_failed = any(run.complaints for run in runs)
    print(f"Compatibility Kit {'failed' if has_failed else 'passed'} (logs in {BUILD})", flush=True)
    return int(has_failed)


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
