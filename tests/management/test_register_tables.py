"""`manage.py register_tables` from a list, in the test process."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection

from catalog.models import Namespace, Tabular
from catalog.services.tables import bulk_register
from management.table_import.import_run import ImportSteps
from storage.models import Warehouse
from tests.harness.wsgi_client import ApiClient
from tests.management.register_tables_fixtures import entry, listed, orphans, register, rows, tables

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.both_databases]

__all__ = ["listed", "orphans", "register"]


def test_a_list_is_registered_and_the_second_run_changes_nothing(
    catalog: ApiClient, orphans: Any, listed: Any, register: Any, files: Callable[[], list[str]]
) -> None:
    entries = orphans(3)
    before = files()
    first = register(listed(*entries))
    assert (first.failure, first.report, first.err) == (None, [], "")
    assert first.counts("namespaces") == "2 new, 0 replaced, 0 unchanged, 0 failed"
    assert first.counts("tables") == "3 new, 0 replaced, 0 unchanged, 0 failed"
    assert sorted(tables(catalog)) == ["t0", "t1", "t2"]
    for each in entries:
        loaded = catalog.get(f"/namespaces/sales%1Feu/tables/{each['name']}").json()
        assert loaded["metadata-location"] == each["metadata-location"]
    state = rows()
    second = register(listed(*entries))
    assert second.failure is None
    assert second.counts("namespaces") == "0 new, 0 replaced, 2 unchanged, 0 failed"
    assert second.counts("tables") == "0 new, 0 replaced, 3 unchanged, 0 failed"
    assert rows() == state
    assert files() == before


def test_views_are_registered_too(catalog: ApiClient, namespace: str, listed: Any, register: Any) -> None:
    body = {
        "name": "v",
        "schema": {"type": "struct", "schema-id": 0, "fields": []},
        "view-version": {
            "version-id": 1,
            "schema-id": 0,
            "timestamp-ms": 1_700_000_000_000,
            "summary": {},
            "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
            "default-namespace": ["ns"],
        },
        "properties": {},
    }
    created = catalog.post("/namespaces/ns/views", body).json()
    catalog.delete("/namespaces/ns/views/v")
    line = {**entry("v", created["metadata-location"], "ns"), "type": "view"}
    for counts in ("1 new, 0 replaced, 0 unchanged, 0 failed", "0 new, 0 replaced, 1 unchanged, 0 failed"):
        done = register(listed(line))
        assert (done.failure, done.counts("views")) == (None, counts)
        assert catalog.get("/namespaces/ns/views/v").json() == created
    as_table = register(listed(entry("t", created["metadata-location"], "ns")))
    assert as_table.counts("tables") == "0 new, 0 replaced, 0 unchanged, 1 failed"
    assert catalog.head("/namespaces/ns/tables/t").status == 404


def test_invalid_entries_do_not_affect_others(
    catalog: ApiClient, orphans: Any, listed: Any, register: Any, storage_root: Path, tmp_path: Path
) -> None:
    good, other, twin = orphans(3)
    (tmp_path / "outside.metadata.json").write_text("{}")
    (storage_root / "wh" / "odd").mkdir()
    (storage_root / "wh" / "odd" / "no.metadata.json").write_text("[1, 2")
    (storage_root / "wh" / "odd" / "link.metadata.json").symlink_to("/etc/passwd")
    base = f"file://{storage_root}/wh"
    lines: list[tuple[Any, str]] = [
        (b'{"namespace": ["sales"], "name": "broken"', "BadRequestException"),
        (b'{"namespace": ["sales"], "name": "\xff\xfe", "metadata-location": "x"}', "BadRequestException"),
        (b"[]", "BadRequestException"),
        (b'"text"', "BadRequestException"),
        (b'{"name": "n", "name": "m", "namespace": ["a"], "metadata-location": "x"}', "BadRequestException"),
        ({"namespace": ["sales"], "name": "x"}, "BadRequestException"),
        ({"namespace": [], "name": "x", "metadata-location": "x"}, "BadRequestException"),
        ({"namespace": [1], "name": "x", "metadata-location": "x"}, "BadRequestException"),
        ({"namespace": {"a": 1}, "name": "x", "metadata-location": "x"}, "BadRequestException"),
        ({"namespace": ["a"] * 6, "name": "x", "metadata-location": "x"}, "NamespaceDepthExceeded"),
        ({"namespace": ["a\x00b"], "name": "x", "metadata-location": "x"}, "BadRequestException"),
        ({"namespace": ["sales"], "name": "x", "metadata-location": 7}, "BadRequestException"),
        ({"namespace": ["sales"], "name": "x", "metadata-location": "a\x00b"}, "BadRequestException"),
        ({"namespace": ["sales"], "name": "x", "metadata-location": "x", "type": "index"}, "BadRequestException"),
        (entry("..", good["metadata-location"]), "BadRequestException"),
        (entry("n\x1b[2J", good["metadata-location"]), "BadRequestException"),
        (entry("n" * 256, good["metadata-location"]), "BadRequestException"),
        (entry("missing", f"{base}/odd/none.metadata.json"), "NotFoundException"),
        (entry("broken", f"{base}/odd/no.metadata.json"), "BadRequestException"),
        (entry("linked", f"{base}/odd/link.metadata.json"), "InvalidLocation"),
        (entry("folder", f"{base}/odd"), "InvalidLocation"),
        (entry("outside", f"file://{tmp_path}/outside.metadata.json"), "InvalidLocation"),
        (entry("climbing", f"{base}/../outside.metadata.json"), "InvalidLocation"),
        (entry("foreign", "s3://bucket/t/metadata/00000.metadata.json"), "InvalidLocation"),
        (entry("again", other["metadata-location"]), "LocationAlreadyTaken"),
        (entry("T0", twin["metadata-location"]), "AlreadyExistsException"),
        ({**entry("v", twin["metadata-location"]), "type": "view"}, "BadRequestException"),
        (b"{" + b" " * 1_100_000 + b"}", "BadRequestException"),
        (b"[" * 100_000, "BadRequestException"),
    ]
    done = register(listed(good, other, good, b"", *[line for line, _ in lines]), "--parallel", "1")
    assert done.counts("tables") == "2 new, 0 replaced, 1 unchanged, 12 failed"
    assert done.counts("views") == "0 new, 0 replaced, 0 unchanged, 1 failed"
    assert sorted(tables(catalog)) == ["t0", "t1"]
    assert Counter(found["error"]["type"] for found in done.report) == Counter(wanted for _, wanted in lines)
    assert done.failure == f"{len(lines)} failed"
    assert len(done.err.splitlines()) == len(lines)
    assert "\x1b" not in done.err
    by_name = {found["name"]: found["error"]["type"] for found in done.report if "name" in found}
    assert by_name == {line["name"]: wanted for line, wanted in lines[14:27]}
    unreadable = [found for found in done.report if found["type"] == "unreadable"]
    assert [found["where"] for found in unreadable] == [f"line {number}" for number in (*range(5, 19), 32, 33)]
    assert Namespace.objects.count() == 2


def test_an_entry_below_an_uncreatable_namespace_is_refused_with_it(orphans: Any, listed: Any, register: Any) -> None:
    (created,) = orphans(1)
    in_system = {**created, "namespace": ["System", "below"]}
    state = rows()
    for options in ((), ("--dry-run",)):
        done = register(listed(in_system), *options)
        assert [(found["type"], found["error"]["type"]) for found in done.report] == [
            ("namespace", "ReservedNamespace"),
            ("namespace", "NamespaceRefused"),
            ("table", "NamespaceRefused"),
        ]
        assert done.failure == "3 failed"
        assert rows() == state


def test_the_report_is_a_list_of_the_remaining_entries(
    catalog: ApiClient, orphans: Any, listed: Any, register: Any, storage_root: Path, tmp_path: Path
) -> None:
    entries = orphans(2)
    missing = Path(entries[1]["metadata-location"].removeprefix("file://"))
    aside = missing.rename(tmp_path / "aside")
    first = register(listed(*entries))
    assert first.failure == "1 failed"
    assert [(found["type"], found["name"]) for found in first.report] == [("table", "t1")]
    aside.rename(missing)
    left = (tmp_path / "report.jsonl").rename(tmp_path / "left.jsonl")
    second = register(left)
    assert (second.failure, second.counts("tables")) == (None, "1 new, 0 replaced, 0 unchanged, 0 failed")
    assert sorted(tables(catalog)) == ["t0", "t1"]


def test_a_dry_run_checks_everything_and_changes_nothing(
    orphans: Any, listed: Any, register: Any, files: Callable[[], list[str]]
) -> None:
    good, bad, other = orphans(3)
    Path(bad["metadata-location"].removeprefix("file://")).write_text("{}")
    register(listed(other))
    state, there = rows(), files()
    done = register(listed(good, bad, other, {**good, "name": "u"}, {**other, "name": "copy"}), "--dry-run")
    assert "Dry run: nothing was changed. Expected result:" in done.out
    assert done.counts("namespaces") == "0 new, 0 replaced, 2 unchanged, 0 failed"
    # Each is compared with the current catalog, so t0 and u, which are one table, both pass.
    assert done.counts("tables") == "2 new, 0 replaced, 1 unchanged, 2 failed"
    assert {(found["name"], found["error"]["type"]) for found in done.report} == {
        ("t1", "BadRequestException"),
        ("copy", "LocationAlreadyTaken"),
    }
    assert rows() == state
    assert files() == there


def test_a_dry_run_in_an_empty_warehouse_reads_the_files(orphans: Any, listed: Any, register: Any) -> None:
    good, bad = orphans(2)
    Path(bad["metadata-location"].removeprefix("file://")).write_text("{}")
    state = rows()
    done = register(listed(good, bad), "--dry-run")
    assert done.counts("namespaces") == "2 new, 0 replaced, 0 unchanged, 0 failed"
    assert done.counts("tables") == "1 new, 0 replaced, 0 unchanged, 1 failed"
    assert rows() == state


def test_only_the_requested_namespaces(catalog: ApiClient, orphans: Any, listed: Any, register: Any) -> None:
    one, two, three = orphans(3)
    path = listed({**one, "namespace": ["a.b"]}, {**two, "namespace": ["a", "b"]}, {**three, "namespace": ["a", "bc"]})
    done = register(path, "--namespace", "A.B", "--namespace", '["x"]')
    assert (done.failure, done.counts("tables")) == (None, "1 new, 0 replaced, 0 unchanged, 0 failed")
    assert tables(catalog, "a%1Fb") == ["t1"]
    assert register(path, "--namespace", '["a.b"]').counts("tables") == "1 new, 0 replaced, 0 unchanged, 0 failed"
    assert tables(catalog, "a.b") == ["t0"]
    assert set(Namespace.objects.values_list("path", flat=True)) == {"a", "a\x1fb", "a.b"}


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_csv_and_json(catalog: ApiClient, orphans: Any, register: Any, tmp_path: Path, ending: str) -> None:
    entries = orphans(3)
    entries[0]["namespace"] = "sales.eu"
    path = tmp_path / f"list.{ending}"
    if ending == "json":
        path.write_text(json.dumps([*entries, 5]), encoding="utf-8-sig")
    else:
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["extra", "metadata-location", "name", "namespace"])
            for each in entries:
                space = each["namespace"]
                cell = space if isinstance(space, str) else json.dumps(space)
                writer.writerow(["a\nb", each["metadata-location"], each["name"], cell])
            writer.writerow(["too", "few"])
        path.write_bytes(path.read_bytes() + b'x,file:///x,\xff,sales\r\nx,file:///x,"a"b,sales\r\n')
    done = register(path)
    assert done.counts("tables").startswith("3 new, 0 replaced, 0 unchanged")
    assert sorted(tables(catalog)) == ["t0", "t1", "t2"]
    assert done.failure == ("1 failed" if ending == "json" else "3 failed")
    assert {found["error"]["type"] for found in done.report} == {"BadRequestException"}


def test_a_list_that_is_none(register: Any, tmp_path: Path) -> None:
    state = rows()
    for name, content, message in (
        ("x.csv", b"a,b\n1,2\n", "must name each column"),
        ("x.json", b'{"namespace": ["a"]}', "must be a JSON array"),
        ("x.json", b"[", "cannot be read"),
    ):
        (tmp_path / name).write_bytes(content)
        assert message in str(register(tmp_path / name).failure)
    assert "No such file" in str(register(tmp_path / "missing.jsonl").failure)
    assert rows() == state


def test_the_report_never_replaces_the_list(register: Any, listed: Any, tmp_path: Path) -> None:
    path = listed({"namespace": ["a"]}).rename(tmp_path / "report.jsonl")
    assert register(path).failure == "The report would overwrite the list"
    assert path.read_text() == '{"namespace": ["a"]}'


def test_standard_input(catalog: ApiClient, orphans: Any, register: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b"\n".join(json.dumps(each).encode() for each in orphans(2))
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(lines)))
    assert register(Path("-")).counts("tables") == "2 new, 0 replaced, 0 unchanged, 0 failed"
    assert sorted(tables(catalog)) == ["t0", "t1"]


def test_concurrent_registrations_have_the_same_result(
    catalog: ApiClient, orphans: Any, listed: Any, register: Any
) -> None:
    entries = orphans(24)
    done = register(listed(*entries, *entries), "--parallel", "8")
    assert (done.failure, done.counts("tables")) == (None, "24 new, 0 replaced, 24 unchanged, 0 failed")
    assert sorted(tables(catalog)) == sorted(each["name"] for each in entries)
    assert done.counts("namespaces") == "2 new, 0 replaced, 0 unchanged, 0 failed"


def test_progress_and_single_lines(orphans: Any, listed: Any, register: Any) -> None:
    (created,) = orphans(1)
    done = register(listed(*[created] * 98, b"{}", created), "--verbosity", "2", "--parallel", "1")
    assert "100 done, 1 failed\n" in done.out
    assert "new: namespace sales.eu\n" in done.out
    assert "new: table sales.eu.t0\n" in done.out
    assert done.out.count("unchanged: table sales.eu.t0\n") == 98


def test_the_policy_of_the_warehouse_applies(warehouse: Warehouse, orphans: Any, listed: Any, register: Any) -> None:
    entries = orphans(1)
    Warehouse.objects.filter(pk=warehouse.pk).update(allowed_format_versions=[1])
    for options in ((), ("--dry-run",)):
        done = register(listed(*entries), *options)
        assert [found["error"]["type"] for found in done.report] == ["FormatVersionNotAllowed"]
    assert Tabular.objects.count() == 0


def test_an_unknown_warehouse(warehouse: Warehouse, listed: Any) -> None:
    path = str(listed())
    for words in (["other"], ["wh", "--project-id", "no-such"], ["no-such/wh"]):
        with pytest.raises(CommandError, match="Warehouse does not exist"):
            call_command("register_tables", *words, "--list", path)
    for words in (
        ["wh"],
        ["wh", "--list", path, "--from-catalog", "http://x"],
        ["wh", "--list", path, "--parallel", "0"],
    ):
        with pytest.raises(CommandError):
            call_command("register_tables", *words)
    project = settings.ICEKEEPER.default_project_id
    call_command("register_tables", f"{project}/wh", "--list", path, stdout=StringIO())


def test_a_lost_database_ends_the_run_with_a_hint_how_to_continue(
    orphans: Any, listed: Any, register: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no connection to lose")
    monkeypatch.setattr("management.table_import.import_run.RETRY_PAUSES", (0.0,))
    entries = orphans(2)
    register(listed(entries[0]))

    def cut(**arguments: Any) -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        raise AssertionError("the connection is closed by now")

    steps = ImportSteps(bulk_register.ensure_namespace, cut)
    monkeypatch.setattr("management.management.commands.register_tables.REGISTER", steps)
    done = register(listed(*entries), "--parallel", "1")
    assert str(done.failure).startswith("Database error: ")
    assert str(done.failure).endswith("Run the same command again to continue")
