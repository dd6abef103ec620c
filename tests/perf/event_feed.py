"""Measure the feed of events: `python -m tests.perf.event_feed`. Pages of 1,000 with many events in the outbox.

Times are those of one client, from the request to the last byte; PostgreSQL runs on the same machine. It prints the
goal of each row; a missed one is no error.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Final

import psycopg

from tests.parts.postgres import Postgres
from tests.parts.process import PartError
from tests.parts.server import CatalogServer
from tests.perf import cpu
from tests.perf.connection import Connection, request

PAGES: Final = 100
"""Requests of each row."""
SETTINGS = {"LAKEKEEPER__PG_ENCRYPTION_KEY": "of a catalog that is measured and thrown away"}
DATA = {
    "requirements": [{"type": "assert-table-uuid", "uuid": "0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44"}],
    "updates": [{"action": "set-properties", "updates": {"owner": "sales", "quality": "gold", "x": "y" * 120}}],
}
EVENTS_OF_FEW, RARE_EVENTS = 100, 10
FILL = """
INSERT INTO tenancy_outboxevent
 (event_id, object_key, sequence, type, at, public_id, names, project_id, warehouse_id, actor, request_id,
  event_count, event_index, data)
SELECT gen_random_uuid(), 'table:' || lpad((n / 100)::text, 30, '0'), n %% 100 + 1,
       CASE WHEN n %% %(rare)s = 0 THEN 'renameView' ELSE 'updateTable' END,
       now() - make_interval(secs => (%(events)s - n) / 100.0), gen_random_uuid()::text,
       '["sales", "europe", "orders_' || n / 100 || '"]', %(project)s,
       CASE WHEN n %% %(few)s = 0 THEN %(warehouse)s
            ELSE ('0198e0f4-3f6e-7c31-8c7d-' || lpad((n %% 20)::text, 12, '0'))::uuid END,
       'oidc~0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44', gen_random_uuid()::text, 1, 0, %(data)s
  FROM generate_series(%(first)s::int, %(last)s::int) AS n
"""
FINISH = """
UPDATE tenancy_outboxstate SET published_through = (SELECT max(position) FROM tenancy_outboxevent)
"""


def fill(url: str, *, events: int, warehouse: str) -> None:
    given = {
        "events": events,
        "warehouse": warehouse,
        "project": "00000000-0000-0000-0000-000000000000",
        "data": json.dumps(DATA),
        "few": max(1, events // EVENTS_OF_FEW),
        "rare": max(1, events // RARE_EVENTS),
    }
    with psycopg.connect(url, autocommit=True) as database:
        for first in range(1, events + 1, 1_000_000):
            database.execute(FILL, given | {"first": first, "last": min(events, first + 999_999)})
        database.execute(FINISH)
        database.execute("VACUUM ANALYZE tenancy_outboxevent")


class FeedBench:
    def __init__(self, server: CatalogServer, database: int, pages: int) -> None:
        self._connection, self._pages = Connection(server.port), pages
        self._trees = {"server": server.pid, "database": database}

    def measure(self, title: str, goal: str, query: str, cursors: Iterator[int]) -> None:
        """Request pages from each of the cursors, and print their times, CPU and size."""
        self._get(query, next(cursors))
        before = {name: cpu.seconds(pid) for name, pid in self._trees.items()}
        times, events, size = [], 0, 0
        for _ in range(self._pages):
            message = request("GET", f"/management/v1/events?{query}&after={next(cursors)}")
            began = time.perf_counter()
            status, body = self._connection.send(message)
            times.append((time.perf_counter() - began) * 1000)
            if status != 200:
                raise PartError(f"{query} returned {status}: {body[:500]!r}")
            events, size = events + body.count(b'"specversion"'), size + len(body)
        used = [(cpu.seconds(pid) - before[name]) / self._pages * 1000 for name, pid in self._trees.items()]
        p95 = statistics.quantiles(times, n=20)[18]
        print(
            f"{title:<48}{goal:>10}{statistics.median(times):>8.1f}{p95:>8.1f}"
            f"{used[0]:>8.1f} +{used[1]:>5.1f}{events / self._pages:>8.0f}{size / self._pages / 1024:>7.0f}",
            flush=True,
        )

    def _get(self, query: str, cursor: int) -> None:
        self._connection.send(request("GET", f"/management/v1/events?{query}&after={cursor}"))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.perf.event_feed", description="Measure the feed of events.")
    parser.add_argument("--events", type=int, default=10_000_000, help="events in the outbox (default 10 million)")
    parser.add_argument("--pages", type=int, default=PAGES, help=f"requests of each row (default {PAGES})")
    options = parser.parse_args(arguments)
    events: int = options.events
    with tempfile.TemporaryDirectory(prefix="icekeeper-bench-") as folder, Postgres() as postgres:
        home, url = Path(folder), postgres.create_database("feed")
        with CatalogServer(
            home, database_url=url, workers=1, threads=4, arguments=["--without-worker"], settings=SETTINGS
        ) as server:
            warehouse = server.create_warehouse("few")
            began = time.perf_counter()
            fill(url, events=events, warehouse=warehouse)
            print(f"{events:,} events, inserted in {time.perf_counter() - began:.0f} s")
            bench = FeedBench(server, postgres.pid, options.pages)
            print(
                f"{'pages of 1,000':<48}{'goal':>10}{'p50':>8}{'p95':>8}{'CPU server + db':>15}{'events':>8}{'KB':>7}"
            )
            everywhere = iter(range(events // 10, events, max(1, events // 10 * 8 // (options.pages + 2))))
            bench.measure("all events", "<= 20 ms", "limit=1000", everywhere)
            everywhere = iter(range(events // 10, events, max(1, events // 10 * 8 // (options.pages + 2))))
            bench.measure("the same, without data and names", "<= 20 ms", "limit=1000&payload=ids", everywhere)
            bench.measure("one project", "<= 20 ms", "limit=1000&projectId=" + "00000000-0000-0000-0000-000000000000",
                          repeat(events // 2))  # fmt: skip
            bench.measure("a warehouse with 100 events", "<= 20 ms", f"limit=1000&warehouseId={warehouse}", repeat(0))
            bench.measure("a type that 10 events have", "<= 20 ms", "limit=1000&type=renameView", repeat(events // 2))
            bench.measure(
                "an object with no events", "<= 20 ms", f"limit=1000&objectId={warehouse}", repeat(events // 2)
            )
            bench.measure("nothing new", "", "limit=1000", repeat(events))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (PartError, ConnectionError) as error:
        sys.exit(f"tests.perf.event_feed: {error}")
