"""`manage.py register_tables` from another REST catalog on the same files, and interrupted runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from tests.catalog_fixtures import SCHEMA, chosen
from tests.harness.run_environment import RunEnvironment
from tests.parts.server import ROOT, CatalogServer

pytestmark = pytest.mark.timeout(300)

NAMESPACES = {("a",): {"owner": "ann", "café": "é"}, ("a", "b"): {}, ("a.b",): {"x": ""}, ("e m/p+t%y",): {}}
TABLES = [(("a",), "t1"), (("a",), "t 2/x+y%1F"), (("a", "b"), "t3"), (("a.b",), "t4")]


class Pair:
    """`old` and `new`: two catalogs whose warehouses share one folder."""

    def __init__(self, old: CatalogServer, new: CatalogServer) -> None:
        self.old = old
        self.new = new

    def new_warehouse(self, name: str) -> None:
        for server in (self.old, self.new):
            server.create_warehouse(name)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, run_environment: RunEnvironment) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("pair").resolve()
    created = []
    for name in ("old", "new"):
        (home / name).mkdir()
        server = CatalogServer(
            home / name,
            database_url=run_environment.own_database(f"registration_{name}"),
            settings={"ICEKEEPER__LOCAL_STORAGE_ROOT": str(home / "storage")},
        )
        server.storage_root = home / "storage"
        created.append(server)
    with created[0], created[1]:
        yield Pair(*created)


@pytest.fixture
def pair(servers: Pair, request: pytest.FixtureRequest) -> Pair:
    servers.new_warehouse(request.node.name)
    return servers


def path_of(levels: tuple[str, ...]) -> str:
    return quote("\x1f".join(levels), safe="")


def call(server: CatalogServer, method: str, path: str, **more: Any) -> Any:
    response = requests.request(method, f"{server.uri}/v1/{server.warehouse_id}/{path}", timeout=30, **more)
    response.raise_for_status()
    return response.json() if response.content else None


def fill(server: CatalogServer) -> None:
    for levels, properties in NAMESPACES.items():
        call(server, "POST", "namespaces", json={"namespace": list(levels), "properties": properties})
    for levels, name in TABLES:
        call(server, "POST", f"namespaces/{path_of(levels)}/tables", json={"name": name, "schema": SCHEMA})


def contents(server: CatalogServer) -> dict[str, Any]:
    """Return everything that a catalog returns about its warehouse."""
    found: dict[str, Any] = {}

    def read(parent: str) -> None:
        for levels in call(server, "GET", "namespaces", params={"parent": parent} if parent else {})["namespaces"]:
            path = f"namespaces/{path_of(tuple(levels))}"
            found["/".join(levels)] = chosen(call(server, "GET", path)["properties"])
            for identifier in call(server, "GET", f"{path}/tables")["identifiers"]:
                table = quote(identifier["name"], safe="")
                loaded = call(server, "GET", f"{path}/tables/{table}")
                found["/".join((*levels, ":", identifier["name"]))] = (loaded["metadata-location"], loaded["metadata"])
            read("\x1f".join(levels))

    read("")
    return found


QUIET = {"LAKEKEEPER__AUDIT__TRACING__ENABLED": "false"}  # no line for each table


def register(pair: Pair, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable, ROOT / "manage.py", "register_tables", pair.new.warehouse,
            "--from-catalog", pair.old.uri, "--from-warehouse", pair.old.warehouse, *options,
        ],
        capture_output=True, text=True, check=False, env=pair.new.environment | QUIET | environment, cwd=pair.new.home,
    )  # fmt: skip


def test_everything_moves_and_a_second_run_changes_nothing(pair: Pair) -> None:
    fill(pair.old)
    before = contents(pair.old)
    assert len(before) == len(NAMESPACES) + len(TABLES)
    dry = register(pair, "--dry-run")
    assert (dry.returncode, dry.stderr) == (0, "")
    assert dry.stdout.splitlines() == [
        "Dry run: nothing was changed. Expected result:",
        "namespaces: 4 new, 0 replaced, 0 unchanged, 0 failed",
        "tables: 4 new, 0 replaced, 0 unchanged, 0 failed",
        "views: 0 new, 0 replaced, 0 unchanged, 0 failed",
    ]
    assert contents(pair.new) == {}
    first = register(pair)
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.splitlines() == dry.stdout.splitlines()[1:]
    assert contents(pair.new) == before
    second = register(pair, "--overwrite")
    assert second.returncode == 0
    assert "namespaces: 0 new, 0 replaced, 4 unchanged, 0 failed" in second.stdout
    assert "tables: 0 new, 0 replaced, 4 unchanged, 0 failed" in second.stdout
    assert contents(pair.new) == before == contents(pair.old)


def test_later_changes_of_the_old_catalog_are_registered_with_overwrite(pair: Pair) -> None:
    fill(pair.old)
    assert register(pair).returncode == 0
    call(pair.old, "POST", "namespaces/a/properties", json={"updates": {"owner": "bob"}, "removals": []})
    update = {"action": "set-properties", "updates": {"late": "yes"}}
    call(pair.old, "POST", "namespaces/a/tables/t1", json={"requirements": [], "updates": [update]})
    refused = register(pair, "--report", str(pair.new.home / "left.jsonl"))
    assert refused.returncode == 1
    assert "a.t1 is here already, with other metadata" in refused.stderr
    assert refused.stderr.splitlines()[-1] == "CommandError: 1 failed"
    (left,) = [json.loads(line) for line in (pair.new.home / "left.jsonl").read_text().splitlines()]
    assert (left["type"], left["namespace"], left["name"], left["error"]["code"]) == ("table", ["a"], "t1", 409)
    replaced = register(pair, "--overwrite")
    assert "namespaces: 0 new, 1 replaced, 3 unchanged, 0 failed" in replaced.stdout
    assert "tables: 0 new, 1 replaced, 3 unchanged, 0 failed" in replaced.stdout
    assert contents(pair.new) == contents(pair.old)


def test_one_branch_with_the_namespaces_above_it(pair: Pair) -> None:
    fill(pair.old)
    assert register(pair, "--namespace", "a.b").returncode == 0
    assert sorted(contents(pair.new)) == ["a", "a/b", "a/b/:/t3"]
    assert contents(pair.new)["a"] == NAMESPACES["a",]


def test_a_warehouse_that_the_other_catalog_does_not_have(pair: Pair) -> None:
    done = register(pair, "--from-warehouse", "other")
    assert done.returncode == 1
    assert "The source failed: The warehouse does not exist in the other catalog" in done.stderr


def test_secrets_stay_out_of_the_output(pair: Pair) -> None:
    fill(pair.old)
    done = register(pair, "--token-from", "env:OLD_TOKEN", "--verbosity", "2", OLD_TOKEN="s3cr3t-token")
    assert done.returncode == 0
    assert "s3cr3t" not in done.stdout + done.stderr
    assert "s3cr3t" not in pair.old.log_path.read_text()
    for location in ("s3cr3t-token", "env:NOT_SET", "file:/does/not/exist", "env:TWO_LINES"):
        refused = register(pair, "--token-from", location, TWO_LINES="s3cr3t\nX-Other: 1")
        assert refused.returncode == 1
        assert "s3cr3t" not in refused.stdout + refused.stderr


class Fed:
    """A run that reads its list from the test, which can stop it after any entry."""

    def __init__(self, server: CatalogServer) -> None:
        self.server = server
        self.process = subprocess.Popen(
            [sys.executable, ROOT / "manage.py", "register_tables", server.warehouse, "--list", "-"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=server.environment | QUIET, cwd=server.home,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - a background job ignores it
        )  # fmt: skip

    def feed(self, entries: list[dict[str, Any]]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(json.dumps(entry).encode() + b"\n" for entry in entries))
        self.process.stdin.flush()

    def wait_for_tables(self, count: int) -> None:
        until = time.monotonic() + 120
        while tables_below(self.server, "moved") != count:
            assert self.process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)

    def end(self, signal_number: int) -> tuple[int, str, str]:
        self.process.send_signal(signal_number)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out.decode(), err.decode()


def tables_below(server: CatalogServer, namespace: str) -> int:
    try:
        return len(call(server, "GET", f"namespaces/{namespace}/tables")["identifiers"])
    except requests.HTTPError:
        return 0


@pytest.fixture
def entries(pair: Pair) -> list[dict[str, Any]]:
    call(pair.old, "POST", "namespaces", json={"namespace": ["ns"]})
    created = []
    for number in range(6):
        body = {"name": f"t{number}", "schema": SCHEMA}
        location = call(pair.old, "POST", "namespaces/ns/tables", json=body)["metadata-location"]
        created.append({"namespace": ["moved"], "name": f"t{number}", "metadata-location": location})
    return created


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_run_continues_where_it_stopped(
    pair: Pair, entries: list[dict[str, Any]], tmp_path: Path, ending: signal.Signals
) -> None:
    run = Fed(pair.new)
    run.feed(entries[:4])
    run.wait_for_tables(4)
    status, out, err = run.end(ending)
    if ending == signal.SIGINT:
        assert (status, err) == (130, "CommandError: Interrupted. Run the same command again to continue\n")
        assert "tables: 4 new, 0 replaced, 0 unchanged, 0 failed" in out
    else:
        assert status == -signal.SIGKILL
    path = tmp_path / "list.jsonl"
    path.write_text("\n".join(json.dumps(entry) for entry in entries))
    for expected in ("2 new, 0 replaced, 4 unchanged", "0 new, 0 replaced, 6 unchanged"):
        assert f"tables: {expected}, 0 failed" in pair.new.manage(
            "register_tables", pair.new.warehouse, "--list", str(path)
        )
    assert tables_below(pair.new, "moved") == 6


def test_concurrent_runs_equal_one_run(pair: Pair, entries: list[dict[str, Any]]) -> None:
    runs = [Fed(pair.new), Fed(pair.new)]
    for run in runs:
        run.feed(entries)
    ended = []
    for run in runs:
        out, err = run.process.communicate(timeout=120)
        ended.append((run.process.returncode, err.decode(), out.decode()))
    assert [(status, err) for status, err, _ in ended] == [(0, ""), (0, "")]
    assert all(" 0 replaced" in out and " 0 failed" in out for _, _, out in ended)
    assert tables_below(pair.new, "moved") == 6
