"""`python -m tests.perf.console`: the speed of each page of the console in a large catalog on PostgreSQL.

Fills a database, starts the server, and opens each page as an administrator and as a data engineer with a few grants.
Marks pages that exceed a limit, and then exits with status 1. `make bench` runs it with the small sizes: the fill of
the large ones takes minutes and 15 GB. With `--keep FOLDER` the filled database is used again.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import psycopg
import requests

from tests.parts.postgres import Postgres
from tests.parts.process import PartError
from tests.parts.server import CatalogServer
from tests.perf import cpu, statement_log
from tests.perf.connection import Connection, request
from tests.perf.console_contents import (
    ADMIN,
    ENGINEER,
    TEMPLATE_SHAPES,
    TEMPLATE_VIEW,
    TEMPLATES,
    WAREHOUSES,
    Fill,
    Sizes,
    read_id,
)
from tests.perf.console_pages import MAX_BYTES, MAX_P95_MS, MAX_STATEMENTS, addresses, loaded_files, next_page
from tests.perf.contents import Chain
from tests.perf.statement_log import Statement, StatementLog

RESULTS: Final = Path(__file__).resolve().parents[2] / "build" / "bench"
WORKERS, THREADS = 2, 8
LARGE: Final = Sizes(
    tables=100_000, namespaces=10_000, roles=1_000, audit_records=10_000_000, users=5_000, tasks=200_000
)
SMALL: Final = Sizes(tables=1_000, namespaces=200, roles=50, audit_records=20_000, users=100, tasks=2_000)
USERS: Final = {"admin": ADMIN, "engineer": ENGINEER}
SETTINGS: Final = {
    "LAKEKEEPER__AUTHZ_BACKEND": "builtin",
    "ICEKEEPER__ACCESS_TOKENS": "true",
    "LAKEKEEPER__INSTANCE_ADMINS": f"[{ADMIN}]",
    "LAKEKEEPER__PG_ENCRYPTION_KEY": "of a catalog that is measured and thrown away",
}
MEMORY: Final = {"shared_buffers": "1GB", "effective_cache_size": "4GB", "max_wal_size": "8GB"}
COUNTED_ROUNDS: Final = 3
FOLDER_OF_STATE: Final = "state"


@dataclass
class Row:
    """The figures of one page for one user: milliseconds, bytes of the response, and statements."""

    user: str
    address: str
    status: int
    latencies: list[float] = field(default_factory=list)
    bytes: int = 0
    server_ms: float = 0.0
    database_ms: float = 0.0
    statements: list[Statement] = field(default_factory=list)
    plans: list[str] = field(default_factory=list)

    @property
    def p50(self) -> float:
        return statistics.median(self.latencies)

    @property
    def p95(self) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]

    def exceeded(self) -> list[str]:
        """Return the limits that the page exceeds."""
        found = []
        if self.p95 > MAX_P95_MS:
            found.append("slow")
        if len(self.statements) > MAX_STATEMENTS:
            found.append("statements")
        if self.bytes > MAX_BYTES:
            found.append("bytes")
        if self.status >= 500:
            found.append("error")
        return found

    def line(self) -> str:
        slowest = max((each.milliseconds for each in self.statements), default=0.0)
        return (
            f"{self.user:<9}{self.status:>4}{self.p50:>8.0f}{self.p95:>8.0f}{self.server_ms:>8.0f}{self.database_ms:>8.0f}"
            f"{len(self.statements):>5}{slowest:>9.1f}{self.bytes / 1000:>7.0f}  {self.address}"
            f"{'  <-- ' + ', '.join(found) if (found := self.exceeded()) else ''}"
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "user": self.user, "address": self.address, "status": self.status, "p50_ms": round(self.p50, 1),
            "p95_ms": round(self.p95, 1), "server_cpu_ms": round(self.server_ms, 1),
            "database_cpu_ms": round(self.database_ms, 1), "bytes": self.bytes, "statements": len(self.statements),
            "slowest": [dataclasses.asdict(each) for each in _slowest(self.statements)], "plans": self.plans,
            "exceeded": self.exceeded(),
        }  # fmt: skip


HEAD: Final = (
    f"{'user':<9}{'':>4}{'p50':>8}{'p95':>8}{'server':>8}{'db':>8}{'stm.':>5}{'slowest':>9}{'KB':>7}  address\n"
    "ms; server, db: CPU of a request; stm.: statements; slowest: of the statements"
)


def _slowest(statements: Sequence[Statement], count: int = 3) -> list[Statement]:
    return sorted(statements, key=lambda each: -each.milliseconds)[:count]


class Session:
    """A user who is signed in to the console."""

    def __init__(self, server: CatalogServer, user_id: str) -> None:
        written = server.manage("sign_in_address", "--user", user_id, "--create-user")
        found = re.search(r"https?://\S+", written)
        if found is None:
            raise PartError(f"no sign-in address in: {written}")
        (code,) = parse_qs(urlsplit(found[0]).query)["code"]
        browser = requests.Session()
        address = f"{server.base_url}/ui/sign-in/once/"
        page = browser.get(address, params={"code": code}, timeout=60)
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        if token is None:
            raise PartError(f"no form to sign in: {page.status_code}")
        form = {"code": code, "csrfmiddlewaretoken": token[1]}
        done = browser.post(address, form, headers={"Origin": server.base_url}, timeout=60, allow_redirects=False)
        if done.status_code != 302:
            raise PartError(f"{user_id} could not sign in: {done.status_code}")
        self._cookie = "; ".join(f"{each.name}={each.value}" for each in browser.cookies)
        self._host = urlsplit(server.base_url).netloc
        self._connection = Connection(server.port)

    def get(self, address: str) -> tuple[int, bytes]:
        return self._connection.send(request("GET", address, Cookie=self._cookie))


class Bench:
    """Measures all pages, by first requesting each of them some times, and then with a log of the statements."""

    def __init__(
        self, options: argparse.Namespace, server: CatalogServer, postgres: Postgres, ids: dict[str, str]
    ) -> None:
        self.options, self.server, self.postgres, self.ids = options, server, postgres, ids
        self.rows: list[Row] = []

    def run(self, log: StatementLog) -> None:
        print(HEAD, flush=True)
        for user, user_id in USERS.items():
            session = Session(self.server, user_id)
            pages = [page for address in self._chosen() for page in self._pages(session, address)]
            rows = [(self._measure(session, user, shown, path), path) for shown, path in pages]
            log.start(plans_from_ms=self.options.plans_from)
            for row, path in rows:
                self._count(session, row, path, log)
                print(row.line(), flush=True)
            log.stop()
            self.rows += [row for row, _ in rows]

    def _chosen(self) -> list[str]:
        only = self.options.only
        return [each for each in addresses() if only is None or any(text in each for text in only)]

    def weigh_first_page(self) -> tuple[int, int, list[str]]:
        """Return the bytes and number of files that a browser loads for the overview, and those of other servers."""
        session = Session(self.server, ADMIN)
        _, page = session.get("/ui/")
        files = loaded_files("/ui/", page.decode())
        remote = [each for each in files if urlsplit(each).netloc]
        size = len(page) + sum(len(session.get(each)[1]) for each in files if not urlsplit(each).netloc)
        return size, len(files) + 1, remote

    def _pages(self, session: Session, address: str) -> Iterator[tuple[str, str]]:
        """Return a page and, if its list has one, the next page: what is shown of the address, and the address."""
        path = address.format_map(self.ids)
        yield address, path
        following = next_page(path, session.get(path)[1].decode(errors="replace"))
        if following is not None:
            yield f"{address} (page 2)", following

    def _measure(self, session: Session, user: str, shown: str, path: str) -> Row:
        status, body = session.get(path)
        row = Row(user, shown, status, bytes=len(body))
        before = cpu.seconds(self.server.pid), cpu.seconds(self.postgres.pid)
        began = time.perf_counter()
        for _ in range(self.options.rounds):
            started = time.perf_counter()
            row.status, _ = session.get(path)
            row.latencies.append((time.perf_counter() - started) * 1000)
            if time.perf_counter() - began > self.options.seconds:
                break
        rounds = len(row.latencies)
        row.server_ms = (cpu.seconds(self.server.pid) - before[0]) / rounds * 1000
        row.database_ms = (cpu.seconds(self.postgres.pid) - before[1]) / rounds * 1000
        return row

    def _count(self, session: Session, row: Row, path: str, log: StatementLog) -> None:
        """Count the statements: the fewest of some requests, since other threads run statements, too."""
        for number in range(COUNTED_ROUNDS):
            log.skip()
            session.get(path)
            statements, plans = log.statements()
            statements = [each for each in statements if not each.is_background]
            if number == 0 or len(statements) < len(row.statements):
                row.statements, row.plans = statements, plans


def create_templates(server: CatalogServer) -> None:
    """Create the warehouses, and the tables and the view whose metadata documents are copied."""
    token = server.manage("create_token", "--user", "local~operator", "--create-user").strip()
    server.manage("bootstrap", "--admin", "local~operator", "--operator")
    for name in reversed(WAREHOUSES):
        # The metadata files of the copies do not exist.
        server.create_warehouse(name, token=token, verify_metadata_on_load=False)
    base = f"{server.base_url}/catalog/v1/{server.warehouse_id}/namespaces"

    def post(path: str, body: dict[str, Any]) -> Any:
        response = requests.post(base + path, json=body, headers={"Authorization": f"Bearer {token}"}, timeout=60)
        if not response.ok:
            raise PartError(f"POST {path} returned {response.status_code}: {response.text[:500]}")
        return response.json()

    post("", {"namespace": [TEMPLATES], "properties": {}})
    for name, (columns, snapshots) in TEMPLATE_SHAPES.items():
        schema = _schema(columns)
        created = post(f"/{TEMPLATES}/tables", {"name": name, "schema": schema, "properties": {"owner": "bench"}})
        chain = Chain(created["metadata"])
        updates = [update for _ in range(snapshots) for update in chain.append()["updates"]]
        post(f"/{TEMPLATES}/tables/{name}", {"requirements": [], "updates": updates})
    version = {
        "version-id": 1, "timestamp-ms": 1_700_000_000_000, "schema-id": 0, "summary": {"engine-name": "bench"},
        "default-namespace": [TEMPLATES],
        "representations": [{"type": "sql", "sql": "SELECT column_1 FROM templates.small", "dialect": "spark"}],
    }  # fmt: skip
    view = {"name": TEMPLATE_VIEW, "schema": _schema(10), "view-version": version, "properties": {}}
    post(f"/{TEMPLATES}/views", view)


def _schema(columns: int) -> dict[str, Any]:
    fields = [
        {"id": number, "name": f"column_{number}", "required": False, "type": "string", "doc": "of the benchmark"}
        for number in range(1, columns + 1)
    ]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def find_ids(connection: psycopg.Connection[Any], sizes: Sizes) -> dict[str, str]:
    """Return the ids in the addresses of the measured pages."""
    sales = read_id("namespace", sizes.roots + 1)
    big = read_id("namespace", 1)

    def one(sql: str, *params: Any) -> str:
        row = connection.execute(sql, params).fetchone()
        if row is None:
            raise PartError(f"nothing is found by {sql}")
        return str(row[0])

    below = (
        "SELECT t.uuid FROM catalog_tabular t JOIN catalog_namespace n ON n.id = t.namespace_id LEFT JOIN"
        " catalog_tabularmetadata m ON m.tabular_id = t.id WHERE t.kind = %s AND t.deleted_at IS NULL"
        " AND t.warehouse_id = (SELECT warehouse_id FROM catalog_namespace WHERE id = %s)"
        " ORDER BY (n.id = %s OR n.parent_id = %s) IS TRUE DESC, length(m.document) DESC NULLS LAST, t.id LIMIT 1"
    )
    table = one(below, "table", sales, sales, sales)
    warehouse = one("SELECT id FROM storage_warehouse WHERE name = %s", WAREHOUSES[0])
    return {
        "warehouse": warehouse,
        "project": one("SELECT project_id FROM storage_warehouse WHERE id = %s", warehouse),
        "sales": sales,
        "orders": one("SELECT namespace_id FROM catalog_tabular WHERE uuid = %s", table),
        "big": big,
        "table": table,
        "hostile table": one(
            "SELECT t.id FROM tenancy_grant g JOIN catalog_tabular t ON g.securable_id = 'table:' || t.id"
            " WHERE g.user_id = %s AND t.namespace_id = %s ORDER BY t.id LIMIT 1", ENGINEER, big,
        ),
        "view": one(below, "view", sales, sales, sales),
        "generic table": one(below, "generic-table", sales, sales, sales),
        "task": one(
            "SELECT id FROM tasks_task WHERE warehouse_id = %s AND status = 'failed' ORDER BY id LIMIT 1", warehouse
        ),
        "project task": read_id("project-task", 0),
        "role": read_id("role", 8),
        "user": "oidc~user-17",
        "service account": read_id("account", 17),
        "token": read_id("token", 17 * 3),
        "tag": read_id("tag", 17),
        "sink": read_id("sink", 0),
        "rule": read_id("rule", 0),
        "letter": "1",
        "event": one("SELECT max(position) FROM tenancy_outboxevent WHERE warehouse_id = %s", warehouse),
    }  # fmt: skip


@contextmanager
def filled_server(options: argparse.Namespace, home: Path) -> Iterator[tuple[CatalogServer, Postgres, Sizes]]:
    """Start the server on a filled database; `home` is kept or temporary."""
    sizes_path = home / "sizes.json"
    kept = home / "postgres" if options.keep else None
    with Postgres(home=kept, options={**MEMORY, **statement_log.OPTIONS}) as postgres:
        state = home / "server"
        state.mkdir(parents=True, exist_ok=True)
        server = CatalogServer(
            state, database_url=postgres.url, workers=WORKERS, threads=THREADS, arguments=["--without-worker"],
            settings=SETTINGS,
        )  # fmt: skip
        if sizes_path.exists():
            sizes = Sizes(**json.loads(sizes_path.read_text()))
            server.manage("migrate", "--verbosity", "0")
            server.start()
        else:
            sizes = read_sizes(options)
            server.prepare().start()
            fill(server, postgres, sizes)
            sizes_path.write_text(json.dumps(dataclasses.asdict(sizes)))
        try:
            yield server, postgres, sizes
        finally:
            server.stop()


def fill(server: CatalogServer, postgres: Postgres, sizes: Sizes) -> None:
    began = time.monotonic()
    create_templates(server)
    for user_id in USERS.values():
        server.manage("sign_in_address", "--user", user_id, "--create-user")

    def note(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  filled: {text}", flush=True)

    with psycopg.connect(postgres.url, autocommit=True) as connection:
        Fill(connection, sizes, note).run()


def read_sizes(options: argparse.Namespace) -> Sizes:
    sizes = LARGE if options.large else SMALL
    given = {each.name: getattr(options, each.name) for each in dataclasses.fields(Sizes)}
    return dataclasses.replace(sizes, **{name: value for name, value in given.items() if value is not None})


def read_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.perf.console", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--large", action="store_true", help=f"fill with {LARGE}; default: {SMALL}")
    for each in dataclasses.fields(Sizes):
        parser.add_argument(f"--{each.name.replace('_', '-')}", type=int, help="another number of them")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the database there, and use it again")
    parser.add_argument("--only", nargs="*", metavar="TEXT", help="only pages whose address contains one of the texts")
    parser.add_argument("--rounds", type=int, default=20, help="requests of each page (default 20)")
    parser.add_argument("--seconds", type=float, default=6.0, help="no further request of a page after (default 6)")
    parser.add_argument("--plans-from", type=int, default=30, metavar="MS", help="report plans of slower statements")
    return parser.parse_args(arguments)


def report(bench: Bench, sizes: Sizes) -> int:
    """Print plans of slow pages and a summary, write all as JSON, and return the exit status."""
    size, files, remote = bench.weigh_first_page()
    failed = [row for row in bench.rows if row.exceeded()]
    for row in failed:
        print(f"\n{row.user} {row.address}: {', '.join(row.exceeded())}")
        for each in _slowest(row.statements):
            print(f"  {each.milliseconds:8.1f} ms  {' '.join(each.sql.split())[:400]}")
    path = RESULTS / f"console-{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [row.as_json() for row in bench.rows]
    facts = {"sizes": dataclasses.asdict(sizes), "postgresql": bench.postgres.programs.version}
    path.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")
    print(f"\nThe first page with its files: {size / 1000:,.0f} KB in {files} files, {len(remote)} of other servers")
    print(f"{len(bench.rows)} pages, {len(failed)} of them beyond a limit. As JSON: {path}")
    return int(bool(failed or remote or size > MAX_BYTES))


def main(arguments: Sequence[str]) -> int:
    options = read_options(arguments)
    with tempfile.TemporaryDirectory(prefix="icekeeper-console-bench-") as temporary:
        home = Path(options.keep or temporary).resolve()
        home.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            home.chmod(0o755)  # PostgreSQL runs as another user
        with filled_server(options, home) as (server, postgres, sizes):
            with psycopg.connect(postgres.url, autocommit=True) as connection:
                bench = Bench(options, server, postgres, find_ids(connection, sizes))
                bench.run(StatementLog(connection, postgres.log_path))
            return report(bench, sizes)


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except (PartError, ConnectionError) as error:
        sys.exit(f"console bench: {error}")
