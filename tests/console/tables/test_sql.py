"""The page SQL: results as table, chart and CSV, permissions, limits, and the queries that only their user sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Self

import pytest
from django.conf import settings

from catalog.programs import run_sql as program
from catalog.programs.run_sql import Session
from catalog.services import sql_query
from management.models import SqlQuery
from management.sql_history import RETENTION, recorded_query
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Actor
from tenancy.audit.collector import collector
from tenancy.models.audit_record import AuditRecord
from tenancy.services.users import block_user, delete_user
from tests.console.tables.test_preview import MARKUP, ROWS, commit
from tests.console.visitor import Shown, Visitor
from tests.console.warehouses.conftest import Visit
from tests.harness.named_callers import CallerClient
from tests.harness.pyiceberg_files import write_rows
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = [pytest.mark.django_db]

PAGE = "/ui/sql/"


class InProcess:
    """In place of `BoundedProcess`: the program in this process, which has loaded its libraries."""

    def __init__(self, name: str, limits: object) -> None:
        assert name == program.PROGRAM
        self._session = Session()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def ask(self, frame: bytes) -> Any:
        return json.loads(json.dumps(self._session.respond(frame)))


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "ENVIRONMENT", {})
    monkeypatch.setattr(sql_query, "BoundedProcess", InProcess)


def limit(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    console = settings.ICEKEEPER.console
    use_settings(monkeypatch, console=console.model_copy(update={"sql": console.sql.model_copy(update=changed)}))


def run(visitor: Visitor, warehouse: Warehouse, sql: str, action: str = "run", **fields: str) -> Shown:
    return visitor.post(PAGE, {"warehouse": str(warehouse.pk), "sql": sql, "action": action, **fields})


def test_queries(
    warehouse: Warehouse,
    catalog: CallerClient,
    create_table: Callable[..., dict[str, Any]],
    visit: Visit,
    in_process: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metadata = create_table()["metadata"]
    reader, other = visit("rita", "select", on="warehouse"), visit("dora", "describe", on="warehouse")
    stranger = visit("stranger")
    assert "No warehouse yet" in stranger.get(PAGE).plain
    assert ('href="/ui/sql/"' in reader.get("/ui/").text, 'href="/ui/sql/"' in stranger.get("/ui/").text) == (
        True,
        False,
    )
    table = f"/ui/warehouse/{warehouse.pk}/table/{metadata['table-uuid']}/"
    link = f"{PAGE}?warehouse={warehouse.pk}&table={metadata['table-uuid']}"
    assert (link.replace("&", "&amp;") in reader.get(table).text, PAGE + "?" in other.get(table).text) == (True, False)
    assert reader.get(link).fields["sql"] == ['SELECT *\nFROM "ns"."t"\nLIMIT 100']
    assert stranger.get(link).status == 404
    for action in ("run", "csv"):
        assert run(stranger, warehouse, "SELECT 1", action).status == 404
    assert not SqlQuery.objects.exists(), "neither run nor recorded"
    assert "No rows." in run(reader, warehouse, "FROM ns.t").plain, "a table without a snapshot"

    commit(catalog, write_rows({}, metadata, ROWS, name="rows"), metadata["last-updated-ms"] + 1)
    use_settings(monkeypatch, audit=settings.ICEKEEPER.audit.model_copy(update={"reads": True}))
    collector.clear()
    shown = run(reader, warehouse, "SELECT name, id FROM NS.T ORDER BY id", chart="bar")
    assert shown.status == 200
    for text in (MARKUP, "name VARCHAR id BIGINT", "Result 120", "null 1"):
        assert text in shown.plain, text
    assert MARKUP not in shown.text
    assert "x" * 201 not in shown.text
    assert shown.text.count('class="ik-value-bar"') == 120
    collector.write_due(is_last=True)
    (audited,) = AuditRecord.objects.filter(event="data.credentials-vended")
    assert (audited.actor, audited.action, audited.object_type) == ("local~rita", "read_data", "table")
    shown = run(reader, warehouse, "SELECT id, -id AS n, '=1' AS f, repeat('x', 300) AS long FROM ns.t LIMIT 2", "csv")
    long = "x" * 300
    lines = ['"id","n","f","long"', f'"0","0","\'=1","{long}"', f'"1","-1","\'=1","{long}"']
    assert shown.text.splitlines() == lines
    sql = "SELECT count(*), max(a.id), sum(b.id) FROM ns.t a JOIN ns.t b ON a.id = b.id"
    assert "120 119 7140" in run(reader, warehouse, sql).plain

    for visitor, name, status in (
        (reader, "ns.unknown", 404), (stranger, "ns.unknown", 404), (stranger, "ns.t", 404), (other, "ns.t", 403),
    ):  # fmt: skip
        shown = run(visitor, warehouse, f"SELECT 1 FROM {name}")  # noqa: S608
        assert shown.status == status
        if visitor is not stranger:
            assert ("Table does not exist: ns.unknown" in shown.plain) == (status == 404)
    refused = run(reader, warehouse, "DROP TABLE ns.t")
    assert (refused.status, "Only one SELECT" in refused.plain) == (400, True)
    unknown = run(reader, warehouse, "SELECT nam FROM ns.t").plain
    assert 'Candidate bindings: "name" LINE 1: SELECT nam FROM ns.t ^^^' in unknown, "before anything is read"
    limit(monkeypatch, table_bytes=1000)
    assert "The files of the tables up to ns.t have more than" in run(reader, warehouse, "FROM ns.t").plain
    limit(monkeypatch, rows=5, table_bytes=1 << 20)
    assert "these are the first 5" in run(reader, warehouse, "FROM ns.t").plain
    monkeypatch.setattr(sql_query, "PACKAGES", ("no_such_package",))
    assert sql_query.INSTALL in run(reader, warehouse, "SELECT 1").plain
    assert f"duckdb=={version('duckdb')}" in sql_query.INSTALL
    assert f"`{sql_query.INSTALL}`" in (settings.BASE_DIR / "docs" / "console.md").read_text()
    limit(monkeypatch, enabled=False)
    assert ("SQL is off" in reader.get(PAGE).plain, run(reader, warehouse, "SELECT 1").status) == (True, 404)
    assert PAGE not in reader.get(table).text


def test_history(warehouse: Warehouse, visit: Visit, in_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rita, tom = visit("rita", "select", on="warehouse"), visit("tom", "project_admin")
    first, hostile = "SELECT 1 AS secret_of_rita", f"SELECT '{MARKUP}' AS m"
    for sql in (first, hostile, first, "SELECT nonsense"):
        run(rita, warehouse, sql)
    rows = SqlQuery.objects.order_by("-started_at")
    assert [(each.sql, each.status, each.row_count) for each in rows] == [
        ("SELECT nonsense", "failed", None), (first, "succeeded", 1), (hostile, "succeeded", 1),
    ]  # fmt: skip
    page = rita.get(PAGE)
    assert MARKUP in page.plain
    assert MARKUP not in page.text
    address = f"{PAGE}?query={rows[1].pk}"
    assert rita.get(address).fields["sql"] == [first]
    assert (tom.get(address).status, "secret_of_rita" in tom.get(PAGE).text) == (404, False)
    assert tom.post(PAGE, {"action": "delete", "query": str(rows[1].pk)}).status == 404
    assert tom.post(PAGE, {"action": "delete-all"}).status == 302
    assert SqlQuery.objects.count() == 3
    assert rita.post(PAGE, {"action": "delete", "query": str(rows[1].pk)}).status == 302
    assert SqlQuery.objects.count() == 2

    actor = Actor(user_id=rita.user_id)
    with recorded_query(actor=actor, warehouse_id=warehouse.pk, sql="SELECT 2"):
        busy = run(rita, warehouse, "SELECT 3")
        assert (busy.status, "Another query of yours is running" in busy.plain) == (409, True)
        assert "SELECT 3" in busy.fields["sql"]
        assert "1" in run(tom, warehouse, "SELECT 1").plain
        assert rita.post(PAGE, {"action": "delete-all"}).status == 302
        assert SqlQuery.objects.get(user_id=rita.user_id).status == "running"
    monkeypatch.setattr("management.sql_history.MAX_QUERIES", 2)
    for number in range(4):
        run(rita, warehouse, f"SELECT {number} AS n")
    assert [each.sql for each in rows.filter(user_id=rita.user_id)] == ["SELECT 3 AS n", "SELECT 2 AS n"]
    for sql in ("x" * 20_001, "SELECT '\0'", " "):
        assert "at most 20000 characters" in run(rita, warehouse, sql).plain
    newest = rows.filter(user_id=rita.user_id)[0]
    assert newest.sql == "SELECT 3 AS n", "nothing of these is stored"
    SqlQuery.objects.filter(pk=newest.pk).update(warehouse_id=newest.pk)
    assert rita.get(f"{PAGE}?query={newest.pk}").fields["warehouse"] == [str(warehouse.pk)], "that one is deleted"
    Warehouse.objects.update(status=Warehouse.Status.INACTIVE)
    count = SqlQuery.objects.count()
    assert run(rita, warehouse, "SELECT 5").status == 404
    assert SqlQuery.objects.count() == count
    limit(monkeypatch, enabled=False)
    for _ in ("off", "inactive"):
        page = rita.get(PAGE)
        assert ("SELECT 3 AS n" in page.plain, page.text.count('value="delete"'), "ik-sql-form" in page.text) == (
            True, 2, False,
        )  # fmt: skip
        limit(monkeypatch, enabled=True)
    job = next(each for each in settings.PERIODIC_JOBS if each.name == "old-sql-queries")
    SqlQuery.objects.filter(pk=newest.pk).update(started_at=newest.started_at - RETENTION)
    assert job.resolve()(actor=INTERNAL) == 1
    assert not SqlQuery.objects.filter(pk=newest.pk).exists()
    block_user(actor=INTERNAL, user_id=rita.user_id)
    assert SqlQuery.objects.filter(user_id=rita.user_id).exists()
    delete_user(actor=INTERNAL, user_id=rita.user_id)
    assert not SqlQuery.objects.filter(user_id=rita.user_id).exists()
    assert SqlQuery.objects.filter(user_id=tom.user_id).exists()
