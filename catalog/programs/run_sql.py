"""Child process that runs one SELECT statement with DuckDB over tables that PyIceberg reads in full.

The first frame is a JSON object with `sql` and `memory`, the limit of DuckDB in bytes; the response has the `tables`
that the statement names, or `error`. The second frame has for each of them the members that
`catalog.programs.preview_rows.open_table` reads and its `path`, `max-bytes` of all data files, `rows` and `max-text`.
Its response has `columns`, `rows`, `has-more` and `bytes`, or `error`.

DuckDB itself opens no file and no connection, loads no extension and writes nothing, whatever the statement is.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from catalog.programs.preview_rows import ENVIRONMENT, open_table, without_secrets, write_value
from catalog.programs.sql_analysis import ONLY_SELECT, PIVOT_WITHOUT_IN, Analysis, Rejected, analyse, fold_name
from icekeeper.kernel.bounded_program import serve_frames, write_response

PROGRAM: Final = "catalog.programs.run_sql"
MAX_FRAME: Final = 80 * 1024 * 1024
MAX_ERROR: Final = 1_000
MAX_RESULT: Final = 24 << 20
"""Bytes of all rows of a result, as they are sent to the parent."""
_FETCHED: Final = 500
_DATABASE: Final = '"."'
"""Name of the database with the tables. DuckDB takes the first level of a name for a database or a schema: no namespace
can have this name, and `sql_analysis` rejects those with the names of DuckDB's other databases."""
_LINE: Final = re.compile(r"^LINE (?P<number>\d+):(?P<line>.*\n)(?P<caret> *\^)", re.MULTILINE)
"""The position of an error of DuckDB: the line of the statement, and a caret below it."""
_NUMBERS: Final = frozenset(
    {
        "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
        "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL",
    }
)  # fmt: skip
_CONFIG: Final = {
    "threads": "1",
    "temp_directory": "",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
}


def connect(memory: int) -> Any:
    """Return a connection to an empty database in memory, without access to anything else."""
    import duckdb

    connection = duckdb.connect(":memory:", config={**_CONFIG, "memory_limit": f"{memory}B"})
    for statement in (
        "SET TimeZone = 'UTC'", "SET enable_external_access = false", f"ATTACH ':memory:' AS {_DATABASE}",
        f"USE {_DATABASE}", "DETACH memory", "SET lock_configuration = true",
    ):  # fmt: skip
        connection.execute(statement)
    return connection


def parse(connection: Any, sql: str) -> Analysis:
    """Return what a statement reads; nothing is run. Raises `Rejected`."""
    import duckdb

    (written,) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    tree = json.loads(written)
    if tree.get("error_type") == "not implemented":
        kinds = [each.type for each in connection.extract_statements(sql)]
        if kinds == [duckdb.StatementType.MULTI] and "PIVOT" in sql.upper():
            raise Rejected(PIVOT_WITHOUT_IN)
    return analyse(tree)


class Session:
    """The one statement of this process, which is analysed by the first frame and run by the second."""

    def __init__(self) -> None:
        self._sql = ""
        self._memory = 0
        self._connection: Any = None
        self._analysis: Analysis | None = None
        self._properties: list[Mapping[str, str]] = []

    def respond(self, frame: bytes) -> Any:
        given = json.loads(frame)
        os.environ.update(ENVIRONMENT)
        try:
            return self._run(given, self._analysis) if self._analysis else self._analyse(given)
        except Rejected as rejected:
            return {"error": str(rejected)[:MAX_ERROR]}
        except RecursionError:
            return {"error": "The statement is nested too deeply"}
        except MemoryError:
            return {"error": self._out_of_memory()}
        except Exception as error:  # noqa: BLE001 - files are written by clients: anything can be raised
            return {"error": self._text_of(error)[:MAX_ERROR]}

    def _text_of(self, error: Exception) -> str:
        import duckdb

        if isinstance(error, duckdb.OutOfMemoryException):
            return self._out_of_memory()
        text = str(error) if isinstance(error, duckdb.Error) else f"{type(error).__name__}: {error}"
        for properties in self._properties:
            text = without_secrets(text, properties)
        return text

    def _out_of_memory(self) -> str:
        return f"The query needs more memory than the {self._memory >> 20} MiB that it may use"

    def _analyse(self, given: Mapping[str, Any]) -> dict[str, Any]:
        self._sql, self._memory = given["sql"], given["memory"]
        self._connection = connect(self._memory)
        self._analysis = parse(self._connection, self._sql)
        return {"tables": self._analysis.tables}

    def _run(self, given: Mapping[str, Any], analysis: Analysis) -> dict[str, Any]:
        import duckdb

        self._properties = [each["properties"] for each in given["tables"]]
        size = self._load(given, analysis) if given["tables"] else 0
        statements = self._connection.extract_statements(self._sql)
        if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
            raise Rejected(ONLY_SELECT)
        result = self._connection.execute(statements[0])
        columns = [(str(each[0]), str(each[1])) for each in result.description]
        wanted, limit = given["rows"], given["max-text"]
        rows: list[list[str | None]] = []
        length = 0
        while len(rows) <= wanted and (fetched := result.fetchmany(min(_FETCHED, wanted + 1 - len(rows)))):
            for row in fetched:
                texts = [write_value(value, limit) for value in row]
                length += len(write_response(texts))
                if length > MAX_RESULT:
                    raise Rejected(f"The result is larger than {MAX_RESULT >> 20} MiB: select fewer rows or columns")
                rows.append(texts)
        return {
            "columns": [
                {"name": name, "type": kind, "is-number": kind.partition("(")[0] in _NUMBERS} for name, kind in columns
            ],
            "rows": rows[:wanted],
            "has-more": len(rows) > wanted,
            "bytes": size,
        }

    def _load(self, given: Mapping[str, Any], analysis: Analysis) -> int:
        """Copy the tables into DuckDB in full, after all their sizes are known. Return the bytes of their files.

        Before that, errors of the statement are found with empty tables that have all columns.
        """
        import pyarrow as pa
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        pa.set_cpu_count(1)
        opened = [(each, *open_table(each)) for each in given["tables"]]
        for each, table, _ in opened:
            schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
            self._create(each["path"], pa.RecordBatchReader.from_batches(schema, iter(())))
        self._bind()
        planned, size = [], 0
        for each, table, io in opened:
            scan = table.scan(selected_fields=_choose_columns(table.schema(), analysis))
            tasks = []
            for task in scan.plan_files():
                tasks.append(task)
                size += task.file.file_size_in_bytes + sum(each.file_size_in_bytes for each in task.delete_files)
                if size > given["max-bytes"]:
                    raise Rejected(_too_large(each["path"], given["max-bytes"]))
            planned.append((each["path"], table, io, scan, tasks))
        for path, table, io, scan, tasks in planned:
            self._create(path, _read(table, io, scan, tasks))
        return size

    def _bind(self) -> None:
        """Raise the error of the statement, if it has one, with the lines that the user wrote."""
        import duckdb

        try:
            self._connection.execute(f"EXPLAIN\n{self._sql}")
        except duckdb.Error as error:
            raise type(error)(_without_first_line(str(error))) from None

    def _create(self, path: list[str], reader: Any) -> None:
        """Create a table with the rows of a reader, in place of an earlier one."""
        quoted = [f'"{level.replace(chr(34), chr(34) * 2)}"' for level in path]
        for depth in range(1, len(path)):
            self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {'.'.join([_DATABASE, *quoted[:depth]])}")
        self._connection.register("rows", reader)
        name = ".".join([_DATABASE, *quoted])
        self._connection.execute(f'CREATE OR REPLACE TABLE {name} AS SELECT * FROM "rows"')  # noqa: S608 - quoted
        self._connection.unregister("rows")


def _without_first_line(text: str) -> str:
    """Return an error of DuckDB as if the statement began a line later, its caret also where the number is shorter."""

    def move(found: re.Match[str]) -> str:
        number = int(found["number"])
        moved = str(number - 1)
        return f"LINE {moved}:{found['line']}{found['caret'][len(found['number']) - len(moved) :]}"

    return _LINE.sub(move, text)


def _read(table: Any, io: Any, scan: Any, tasks: list[Any]) -> Any:
    """Return a reader of all rows of the tasks, which reads one file after the other."""
    import pyarrow as pa
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files, schema_to_pyarrow

    arrow = ArrowScan(table.metadata, io, scan.projection(), AlwaysTrue())

    def batches() -> Iterator[Any]:
        for task in tasks:
            deletes = _read_all_delete_files(io, [task])
            yield from arrow._record_batches_from_scan_tasks_and_deletes([task], deletes)  # noqa: SLF001 - lazily

    schema = schema_to_pyarrow(scan.projection(), include_field_ids=False)
    return pa.RecordBatchReader.from_batches(schema, (_cast(each, schema) for each in batches()))


def _choose_columns(schema: Any, analysis: Analysis) -> tuple[str, ...]:
    """Return the columns that the statement may need, at least one: the rows are counted by it."""
    if analysis.columns is None:
        return ("*",)
    names = [each.name for each in schema.fields]
    return tuple([each for each in names if fold_name(each) in analysis.columns] or names[:1])


def _cast(batch: Any, schema: Any) -> Any:
    """Return the batch with the types of the table: files may have others, such as large strings."""
    return batch if batch.schema == schema else batch.select(schema.names).cast(schema)


def _too_large(path: list[str], limit: int) -> str:
    return (
        f"The files of the tables up to {'.'.join(path)} have more than {limit >> 20} MiB, the limit of SQL in the "
        "console: use an engine, or query smaller tables"
    )


if __name__ == "__main__":
    serve_frames(Session().respond, max_frame=MAX_FRAME)
