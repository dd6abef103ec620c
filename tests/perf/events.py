"""Measure events: `python -m tests.perf.events`. Deliveries to NATS, Kafka and a webhook, and commits with a sink.

PostgreSQL, the receivers and the clients run on this machine, too. So run it on an idle machine; commits with and
without a sink alternate in one run and are compared as a ratio. It prints the goal of each row; a missed one is no
error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import nats

from tests.parts import process
from tests.parts.kafka import Kafka
from tests.parts.nats import Nats
from tests.parts.postgres import Postgres
from tests.parts.process import PartError
from tests.parts.server import CatalogServer
from tests.perf.contents import Contents
from tests.perf.load import Job, Measured, measure
from tests.perf.rows import writes
from tests.perf.tasks import rows, run_module, start_worker

SUBJECT, TOPIC = "lake.events", "lake-events"
OBJECTS: Final = 200
DATA_BYTES: Final = 2_000
SLICE_SECONDS: Final = 2.0

_FILL: Final = """
INSERT INTO tenancy_outboxevent (event_id, object_key, sequence, type, at, public_id, names, project_id, warehouse_id,
       actor, request_id, event_count, event_index, data)
SELECT gen_random_uuid(), 'table:' || n % {objects}, n / {objects} + 1, 'updateTable', now(), 'table-' || n % {objects},
       '["bench", "table"]', 'p', '01999999-0000-7000-8000-000000000002', 'oidc~bench', 'r', 1, 0,
       '{{"identifier":{{"namespace":["bench"],"name":"table"}},"requirements":[],"updates":["' ||
       repeat('x', {bytes}) || '"]}}'
  FROM generate_series(0, {events} - 1) AS n RETURNING position
"""

_CHANGE: Final = """
UPDATE events_eventsink SET is_paused = {is_paused}, lease = lease + 1, leased_until = NULL,
       position = (SELECT max(position) FROM tenancy_outboxevent) RETURNING 1
"""


class EventBench:
    """Starts the servers of each measurement below `home`, and prints its figures."""

    def __init__(self, options: argparse.Namespace, home: Path, postgres: Postgres) -> None:
        self.options, self.home, self.postgres = options, home, postgres

    def note(self, title: str, goal: str, measured: str) -> None:
        print(f"{title:<60}{goal:>14}  {measured}", flush=True)

    @contextmanager
    def catalog(self, name: str, settings: Mapping[str, str]) -> Iterator[CatalogServer]:
        """Run a server without a worker, with a new database."""
        home = self.home / f"catalog-{name}"
        home.mkdir()
        url = self.postgres.create_database(name)
        with CatalogServer(
            home, database_url=url, workers=2, threads=8, arguments=["--without-worker"],
            settings={"LAKEKEEPER__PG_ENCRYPTION_KEY": "of a catalog that is thrown away", **settings},
        ) as server:  # fmt: skip
            yield server

    def measure_nats(self) -> None:
        with Nats(self.home / "nats") as server:
            where = {"LAKEKEEPER__NATS_ADDRESS": server.url, "LAKEKEEPER__NATS_TOPIC": SUBJECT}
            self._measure_delivery("nats", "NATS", where)

    def measure_jetstream(self) -> None:
        with Nats(self.home / "jetstream") as server:
            asyncio.run(_create_stream(server))
            where = {"LAKEKEEPER__NATS_ADDRESS": server.url, "LAKEKEEPER__NATS_TOPIC": SUBJECT}
            self._measure_delivery("jetstream", "NATS JetStream", where | {"ICEKEEPER__EVENTS__NATS_JETSTREAM": "true"})

    def measure_kafka(self) -> None:
        with Kafka(self.home / "kafka") as broker:
            config = f'{{"bootstrap.servers"="{broker.bootstrap}"}}'
            self._measure_delivery(
                "kafka", "Kafka", {"LAKEKEEPER__KAFKA_TOPIC": TOPIC, "LAKEKEEPER__KAFKA_CONFIG": config}
            )

    def measure_commits(self) -> None:
        """Commits while a worker delivers to NATS, and while the sink is paused, in alternating slices."""
        with Nats(self.home / "nats-of-commits") as nats_server:
            where = {"LAKEKEEPER__NATS_ADDRESS": nats_server.url, "LAKEKEEPER__NATS_TOPIC": SUBJECT}
            with self.catalog("commits", where) as server:
                server.create_warehouse("bench")
                contents = Contents(server.port, server.warehouse)
                contents.create_written()
                worker = start_worker(server)
                try:
                    while not rows(server, "SELECT 1 FROM events_eventsink WHERE leased_until IS NOT NULL"):
                        time.sleep(0.1)
                    for write in writes(contents)[:2]:
                        for clients in write.clients:
                            self._compare(server, write.title, write.operations, clients)
                finally:
                    process.kill(worker)

    def _compare(
        self, server: CatalogServer, title: str, operations: Callable[[int], Iterator[object]], clients: int
    ) -> None:
        sums = {True: Measured(), False: Measured()}
        for number in range(2 * self.options.slices):
            is_delivering = number % 4 in {0, 3}
            _set_paused(server, is_paused=not is_delivering)
            job = Job(server.port, operations, SLICE_SECONDS)
            sums[is_delivering].add(measure(job, clients=clients, trees={}))
        delivered = rows(server, "SELECT delivered FROM events_eventsink")[0][0]
        ratio = sums[True].rate / sums[False].rate
        rates = f"{sums[True].rate:.0f} and {sums[False].rate:.0f}/s, {delivered} delivered so far"
        self.note(f"{title}, {clients} clients, with a sink", ">= 0.90", f"{ratio:.2f} ({rates})")

    def _measure_delivery(self, name: str, title: str, settings: Mapping[str, str]) -> None:
        events = self.options.events
        with self.catalog(name, settings) as server:
            positions = rows(server, _FILL.format(objects=OBJECTS, events=events, bytes=DATA_BYTES))
            found = json.loads(run_module(server, "tests.perf.deliver").splitlines()[-1])
            ((delivered, error),) = rows(server, "SELECT delivered, last_error FROM events_eventsink")
            if delivered < len(positions):
                raise PartError(f"only {delivered} of {len(positions)} events were delivered: {error}")
            rate = delivered / found["seconds"]
            cpu = found["cpu"] / delivered * 1000
            self.note(
                f"events to {title}, one sink", ">= 2,000/s", f"{rate:,.0f}/s, {cpu:.2f} ms CPU of the worker each"
            )


def _set_paused(server: CatalogServer, *, is_paused: bool) -> None:
    """Pause the sink, or let it continue with the next event; wait until a worker delivers to it."""
    if rows(server, "SELECT is_paused FROM events_eventsink") == [(is_paused,)]:
        return
    rows(server, _CHANGE.format(is_paused=is_paused))
    until = time.monotonic() + 10
    while not is_paused and not rows(server, "SELECT 1 FROM events_eventsink WHERE leased_until IS NOT NULL"):
        if time.monotonic() > until:
            raise PartError("no worker delivers")
        time.sleep(0.05)


async def _create_stream(server: Nats) -> None:
    connection = await nats.connect(server.url)
    await connection.jetstream().add_stream(name="LAKE", subjects=[SUBJECT])
    await connection.close()


ROWS: Final[dict[str, Callable[[EventBench], None]]] = {
    "nats": EventBench.measure_nats,
    "jetstream": EventBench.measure_jetstream,
    "kafka": EventBench.measure_kafka,
    "commits": EventBench.measure_commits,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.perf.events", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=sorted(ROWS), default=list(ROWS))
    parser.add_argument("--events", type=int, default=20_000, help="events of a delivery (20,000)")
    parser.add_argument("--slices", type=int, default=10, help="slices of commits with a sink, and without (10)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icekeeper-events-") as folder, Postgres() as postgres:
        bench = EventBench(options, Path(folder), postgres)
        for name in options.only:
            ROWS[name](bench)


if __name__ == "__main__":
    main()
