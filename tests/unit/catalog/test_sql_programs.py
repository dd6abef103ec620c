"""The process that runs SQL: what it refuses, which tables and columns a statement needs, and its limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from catalog.programs import run_sql
from catalog.programs.run_sql import Session, connect, parse
from catalog.programs.sql_analysis import ONLY_SELECT, PIVOT_WITHOUT_IN, Rejected

MEMORY = 64 << 20

NOT_ONE_SELECT = (
    "", ";", "SELECT 1; SELECT 2", "SELECT 1; DROP TABLE ns.t", "COPY (SELECT 1) TO '/tmp/x'",
    "COPY ns.t FROM '/tmp/x'",
    "ATTACH '/tmp/x.db' AS x", "DETACH x", "INSTALL httpfs", "LOAD httpfs", "SET threads = 4", "RESET threads",
    "PRAGMA version", "CALL pragma_version()", "CREATE TABLE x AS SELECT 1", "CREATE MACRO m() AS 1", "DROP TABLE ns.t",
    "INSERT INTO ns.t VALUES (1)", "UPDATE ns.t SET id = 1", "DELETE FROM ns.t", "EXPORT DATABASE '/tmp/x'", "VACUUM",
    "BEGIN", "PREPARE p AS SELECT 1", "EXECUTE p", "EXPLAIN SELECT 1", "DESCRIBE ns.t", "SUMMARIZE ns.t", "SHOW TABLES",
    "CHECKPOINT", "USE memory", "CREATE SECRET (TYPE s3)", "WITH x AS (DELETE FROM ns.t RETURNING *) FROM x",
    "WITH x AS (INSERT INTO ns.t VALUES (1) RETURNING *) SELECT * FROM ns.t",
)  # fmt: skip
FORBIDDEN_FUNCTIONS = (
    "read_csv('/etc/passwd')", "read_csv_auto('/etc/passwd')", "read_parquet('s3://b/x')", "parquet_scan('x')",
    "read_json('x')", "read_text('/etc/passwd')", "read_blob('/etc/passwd')", "glob('*')", "sniff_csv('x')",
    "query('SELECT 1')", "query_table('ns.t')", "duckdb_settings()", "duckdb_secrets()",
    "json_execute_serialized_sql('')",
    "pandas_scan(1::BIGINT::POINTER, 1::BIGINT::POINTER, 1::BIGINT::POINTER)", "arrow_scan()", "seq_scan('x')",
    "system.main.read_csv('/etc/passwd')", '"READ_CSV"(\'/etc/passwd\')', "enable_logging('x')",
    "which_secret('x', 's3')",
    "add_grammar_extension('x')", "test_all_types()", "python_map_function()", "checkpoint()",
)  # fmt: skip
WITHOUT_NAMESPACE = (
    "FROM t",
    "FROM '/etc/passwd'",
    "FROM 's3://bucket/x.parquet'",
    "FROM duckdb_settings",
    "FROM rows",
    "FROM pg_class",
)


CONNECTION: Any = connect(MEMORY)


def error_of(sql: str) -> str:
    with pytest.raises(Rejected) as rejected:
        parse(CONNECTION, sql)
    return str(rejected.value)


def ask(sql: str, max_text: int = 20) -> Any:
    """Return the response to both frames, without tables, or the error of the first."""
    session = Session()
    analysed = session.respond(json.dumps({"sql": sql, "memory": MEMORY}).encode())
    if "error" in analysed or analysed["tables"]:
        return analysed
    frame = {"tables": [], "max-bytes": 1, "rows": 3, "max-text": max_text}
    return session.respond(json.dumps(frame).encode())


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_sql, "ENVIRONMENT", {})


def test_only_select_over_tables_is_run() -> None:
    for sql in NOT_ONE_SELECT:
        assert error_of(sql) == ONLY_SELECT, sql
    for function in FORBIDDEN_FUNCTIONS:
        for sql in (f"FROM {function}", f"SELECT 1 WHERE EXISTS (WITH x AS (FROM {function}) FROM x)"):  # noqa: S608
            assert "is not available here" in error_of(sql), sql
    for sql in WITHOUT_NAMESPACE:
        assert "write the namespace before the name" in error_of(sql), sql
    views = CONNECTION.execute("SELECT view_name FROM duckdb_views() WHERE schema_name IN ('main', 'pg_catalog')")
    for (view,) in views.fetchall():
        sql = f"SELECT (WITH {view} AS (SELECT 1) FROM ns.t) FROM {view}"  # noqa: S608
        assert "names of WITH queries" in error_of(sql), view
    for namespace in ("temp", '"SYSTEM".x', "information_schema", "pg_catalog"):
        assert "cannot be queried here" in error_of(f"FROM {namespace}.t"), namespace
    for sql in ("PIVOT ns.t ON a USING sum(b)", "FROM (PIVOT ns.t ON a USING sum(b))"):
        assert error_of(sql) == PIVOT_WITHOUT_IN, sql
    assert error_of('DROP TABLE "pivot"') == ONLY_SELECT
    assert "AT is not available" in error_of("FROM ns.t AT (VERSION => 1)")
    assert "is not available" in error_of("SELECT __internal_decompress_string(1::HUGEINT)")
    assert "syntax error" in error_of("SELEC 1")


def test_tables_and_columns_of_a_statement() -> None:
    tables = parse(
        CONNECTION,
        'WITH w AS (FROM a."b.c".t), v AS (FROM w) SELECT (SELECT max(x) FROM NS.u), * FROM v JOIN ns."U" USING (i), '
        '"É".t, "é".t WHERE EXISTS (FROM "/etc/passwd"."""x" UNION FROM memory.main.t)',
    ).tables
    assert {*tables} == {
        ("a", "b.c", "t"), ("NS", "u"), ("É", "t"), ("é", "t"), ("/etc/passwd", '"x'),
        ("memory", "main", "t"),
    }  # fmt: skip
    for sql, columns in (
        ("SELECT A FROM ns.t JOIN ns.u USING (i) WHERE b > 1", {"a", "i", "b"}),
        ("SELECT count(*) FROM ns.t", set()),
        ("SELECT s.x.y FROM ns.t AS o ORDER BY z", {"s", "x", "y", "z"}),
        ('SELECT "É" FROM ns.t AS "é"', {"É"}),
    ):
        assert parse(CONNECTION, sql).columns == frozenset(columns), sql
    for sql in (
        "SELECT * FROM ns.t", "SELECT t FROM ns.t", "SELECT o FROM ns.t o", "SELECT #1 FROM ns.t",
        "SELECT a FROM ns.t NATURAL JOIN ns.u", "SELECT a FROM ns.t o(a, b)", "SELECT COLUMNS('a.*') FROM ns.t",
        "PIVOT ns.t ON a IN (1) USING sum(b)", "SELECT ns.t FROM ns.t", "SELECT a FROM ns.t POSITIONAL JOIN ns.u",
    ):  # fmt: skip
        assert parse(CONNECTION, sql).columns is None, sql


def test_results_and_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask("SELECT i, CASE WHEN i > 0 THEN repeat('x', 30) END AS s FROM range(10000000000) r(i)")
    assert found == {
        "columns": [
            {"name": "i", "type": "BIGINT", "is-number": True}, {"name": "s", "type": "VARCHAR", "is-number": False},
        ],
        "rows": [["0", None], ["1", "x" * 19 + "…"], ["2", "x" * 19 + "…"]],
        "has-more": True,
        "bytes": 0,
    }  # fmt: skip
    assert ask("SELECT 1.50, 'a'::BLOB, [1, NULL], TIMESTAMPTZ '2024-01-02 03:04:05+01' -- end", 40)["rows"] == [
        ["1.50", "61", "[1, null]", "2024-01-02T02:04:05+00:00"]
    ]
    assert ask("SELECT 1 WHERE false")["rows"] == []
    for sql in (
        "SELECT list(range) FROM range(100000000)",
        "SELECT count(*) FROM (SELECT DISTINCT range FROM range(9999999))",
    ):
        assert "more memory than the 64 MiB" in ask(sql)["error"], sql
    for sql in (f"SELECT {'[' * 900}1{']' * 900}", f"SELECT * FROM {'(SELECT * FROM ' * 900}ns.t{')' * 900}"):  # noqa: S608
        assert "nested too deeply" in ask(sql)["error"]
    assert "depth limit" in ask(f"SELECT {'(' * 9000}1{')' * 9000}")["error"]
    assert ask("SELECT MAP {DATE '2024-01-02': 1.5}, MAP {1.50: NULL}", 40)["rows"] == [
        ['{"2024-01-02": "1.5"}', '{"1.50": null}']
    ]
    monkeypatch.setattr(run_sql, "MAX_RESULT", 100)
    for letter, number in (("x", 96), ("é", 48)):  # with the signs of JSON 100 bytes
        assert "rows" in ask(f"SELECT repeat('{letter}', {number})", max_text=1_000), letter
        error = ask(f"SELECT repeat('{letter}', {number + 1})", max_text=1_000)["error"]
        assert "The result is larger than" in error
    configuration = ask("SELECT current_setting('enable_external_access'), current_setting('lock_configuration')")
    assert configuration["rows"] == [["false", "true"]]


def test_errors_are_about_the_lines_of_the_user() -> None:
    for before in ("", "\n" * 8, "\n" * 9):
        session = Session()
        sql = f"{before}SELECT nam FROM (SELECT 1 AS name)"  # noqa: S608
        session.respond(json.dumps({"sql": sql, "memory": MEMORY}).encode())
        with pytest.raises(Exception, match="nam") as own:
            CONNECTION.execute(sql)
        with pytest.raises(type(own.value)) as shown:
            session._bind()
        assert str(shown.value) == str(own.value)
        assert f"LINE {len(before) + 1}: SELECT nam" in str(shown.value)
