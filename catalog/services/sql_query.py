"""SQL queries of users of the console: one SELECT statement over tables that the user has the permission to read.

A child process parses the statement, this service resolves the tables that it names as the user, and the same process
runs it with vended credentials of the user that allow only reading, and only these tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from catalog.errors import no_such_tabular
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.programs.run_sql import MAX_FRAME, PROGRAM
from catalog.selectors.access.files import find_files_for
from catalog.selectors.tables.load import load_tabular_for
from catalog.selectors.warehouses import require_active
from catalog.services.row_access import (
    PYICEBERG,
    ReadFailed,
    missing_of,
    process_limits,
    reading_process,
    reading_slot,
    table_frame,
)
from icekeeper.kernel.bounded_process import BoundedProcess, ProcessFailed
from icekeeper.kernel.errors.types import BadRequest, NotFound
from icekeeper.kernel.json.strict import write_json
from icekeeper.kernel.threads import release_thread_slot
from tenancy.actor import Actor
from tenancy.authz.actions import Can

MAX_SQL_LENGTH: Final = 20_000
MAX_TABLES: Final = 10
"""Tables of one statement."""
PACKAGES: Final = ("duckdb", "pyiceberg", "pyarrow")
INSTALL: Final = f'pip install "duckdb==2.0.1" "pyiceberg[pyarrow]=={PYICEBERG}"'
_TOO_LARGE: Final = "The metadata of the tables is too large for SQL in the console"
_OTHER_MEMORY: Final = 3 << 29
"""Address space of the interpreter and its libraries."""


@dataclass(frozen=True, slots=True)
class ResultColumn:
    name: str
    type: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class SqlResult:
    """Rows as texts, None for null. `bytes_read` is the size of the files of all tables of the statement."""

    columns: Sequence[ResultColumn]
    rows: Sequence[Sequence[str | None]]
    has_more: bool
    bytes_read: int


def missing_packages() -> list[str]:
    """Return the packages that SQL needs and that are not installed."""
    return missing_of(PACKAGES)


def require_sql(*, actor: Actor, warehouse_id: UUID, sql: str) -> None:
    """Raise the errors of `run_sql` that are known before the statement is parsed.

    These are `NotFound` if SQL is off, `BadRequest` for a text that is empty or too long or that no database stores,
    `NoSuchWarehouse` (404) for a warehouse that is unknown, hidden or inactive, `Forbidden` without the permission to
    use it, and `ReadFailed` without the packages.
    """
    if not settings.ICEKEEPER.console.sql.enabled:
        raise NotFound("SQL is off")
    if not sql.strip() or len(sql) > MAX_SQL_LENGTH or "\0" in sql:
        raise BadRequest(f"sql: must be a statement of at most {MAX_SQL_LENGTH} characters", field="sql")
    require_active(actor, Can.USE, warehouse_id)
    if missing := missing_packages():
        raise ReadFailed(f"Not installed on the server: {', '.join(missing)}. Install: {INSTALL}")


def run_sql(*, actor: Actor, warehouse_id: UUID, sql: str, max_rows: int, max_text: int) -> SqlResult:
    """Run a SELECT statement over the current snapshots of tables of a warehouse.

    A result has at most `max_rows` rows, and texts of at most `max_text` characters. Raises as `require_sql`, and
    `NoSuchTable` (also for hidden tables), `Forbidden`, `Busy` (503) when too many queries run, `ReadFailed`, and the
    errors of vending.
    """
    require_sql(actor=actor, warehouse_id=warehouse_id, sql=sql)
    with reading_slot("queries", settings.ICEKEEPER.console.sql.processes):
        return _run(actor, warehouse_id, sql, max_rows, max_text)


def _run(actor: Actor, warehouse_id: UUID, sql: str, max_rows: int, max_text: int) -> SqlResult:
    conf = settings.ICEKEEPER.console.sql
    memory = conf.memory_bytes - _OTHER_MEMORY
    with reading_process(PROGRAM, process_limits(conf.memory_bytes, conf.timeout)) as process:
        paths = _ask(process, {"sql": sql, "memory": memory})["tables"]
        if len(paths) > MAX_TABLES:
            raise ReadFailed(f"A statement can name at most {MAX_TABLES} tables")
        response = _ask(
            process,
            {
                "tables": _tables(actor, warehouse_id, paths),
                "max-bytes": conf.table_bytes,
                "rows": max_rows,
                "max-text": max_text,
            },
        )
    columns = [ResultColumn(each["name"], each["type"], each["is-number"]) for each in response["columns"]]
    return SqlResult(columns, response["rows"], response["has-more"], response["bytes"])


def _tables(actor: Actor, warehouse_id: UUID, paths: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Return what the process reads of the tables of the statement, with the credentials for each.

    Their metadata is read before any credential is vended, one after another, up to `MAX_FRAME` bytes together.
    """
    tables, size, kind = [], 0, Tabular.Kind.TABLE
    for path in paths:
        identifier = Identifier(tuple(path[:-1]), path[-1])
        found = find_files_for(actor=actor, warehouse_id=warehouse_id, identifier=identifier, kind=kind)
        loaded = load_tabular_for(actor=actor, warehouse_id=warehouse_id, identifier=identifier, kind=kind)
        if found.id != loaded.id:  # replaced in between
            raise no_such_tabular(kind, identifier)
        size += len(loaded.document)
        if size > MAX_FRAME:
            raise ReadFailed(_TOO_LARGE)
        tables.append((path, found, loaded))
    return [{"path": path, **table_frame(actor, found, loaded)} for path, found, loaded in tables]


def _ask(process: BoundedProcess, frame: dict[str, Any]) -> Any:
    written = write_json(frame)
    if len(written) > MAX_FRAME:
        raise ReadFailed(_TOO_LARGE)
    try:
        with release_thread_slot():
            response = process.ask(written)
    except ProcessFailed as failed:
        raise ReadFailed(f"The query was stopped: {failed}") from None
    if "error" in response:
        raise ReadFailed(response["error"])
    return response
