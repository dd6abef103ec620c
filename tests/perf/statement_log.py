"""Statements of requests, from the log of PostgreSQL: their number, the slowest, and plans of the slow ones."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

PREFIX: Final = "§ "
"""Begins each entry of the log."""

OPTIONS: Final = {
    "log_line_prefix": PREFIX,
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_buffers": "on",
    "auto_explain.log_timing": "off",
}
"""Settings with which the server of PostgreSQL must be started."""

_ENTRY: Final = re.compile(
    r"LOG: +duration: ([\d.]+) ms +(?:(statement|execute [^:]*): (.*)|plan:\n(.*))", re.DOTALL
)  # fmt: skip
_TRANSACTION: Final = re.compile(
    r"\s*(?:BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|SET |SHOW |LISTEN|DISCARD)", re.IGNORECASE
)
_PERIODIC: Final = re.compile(
    r"tenancy_rightsversion|tenancy_server|pg_notify|tasks_periodicjob|AS \"a\" FROM \"tenancy_auditrecord\"",
    re.IGNORECASE,
)
"""Statements of the background threads of server processes, which poll each second."""


@dataclass(frozen=True, slots=True)
class Statement:
    sql: str
    milliseconds: float

    @property
    def is_background(self) -> bool:
        return _PERIODIC.search(self.sql) is not None


class StatementLog:
    """Reads what is logged between `start` and `stop`."""

    def __init__(self, connection: psycopg.Connection[Any], path: Path) -> None:
        self._connection = connection
        self._path = path
        self._read = 0

    def start(self, *, plans_from_ms: int) -> None:
        """Log all statements, and the plans of those that take longer."""
        self._set("log_min_duration_statement", "0")
        self._set("auto_explain.log_min_duration", str(plans_from_ms))
        time.sleep(0.5)  # until all processes have read the settings

    def stop(self) -> None:
        for name in ("log_min_duration_statement", "auto_explain.log_min_duration"):
            self._connection.execute(f"ALTER SYSTEM RESET {name}")
        self._connection.execute("SELECT pg_reload_conf()")

    def skip(self) -> None:
        """Continue after what was logged so far."""
        self._read = self._path.stat().st_size

    def statements(self) -> tuple[list[Statement], list[str]]:
        """Return the statements since the last call, and the plans of the slow ones."""
        statements, plans = [], []
        for milliseconds, sql, plan in self._entries():
            if plan is not None:
                plans.append(f"{milliseconds:.1f} ms\n{plan.strip()}")
            elif not _TRANSACTION.match(sql):
                statements.append(Statement(sql.strip(), milliseconds))
        return statements, plans

    def _entries(self) -> Iterator[tuple[float, str, str | None]]:
        time.sleep(0.005)
        with self._path.open("rb") as log:
            log.seek(self._read)
            text = log.read().decode(errors="replace")
            self._read = log.tell()
        for entry in text.split(PREFIX):
            found = _ENTRY.match(entry)
            if found is not None:
                yield float(found[1]), found[3] or "", found[4]

    def _set(self, name: str, value: str) -> None:
        self._connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        self._connection.execute("SELECT pg_reload_conf()")
