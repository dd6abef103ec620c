"""`python -m tests.perf.rules`: what rules about changes cost commits.

Commits to tables with and without five rules of the warehouse, in alternating slices of one run; and, in this process,
the CPU time of the question whether there are rules, and of each local kind of rule for a new schema of 100 columns.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any, Final
from uuid import UUID

from tests.parts.postgres import Postgres
from tests.parts.server import CatalogServer
from tests.perf.connection import Connection
from tests.perf.contents import Contents
from tests.perf.load import Job, Measured, measure
from tests.perf.rows import Write, writes

RULES: Final = "/management/v1/change-rules"
SLICE_SECONDS: Final = 1.0
KINDS: Final[dict[str, dict[str, Any]]] = {
    "naming": {"table": ["[a-z0-9_]+"], "column": ["[a-z0-9_]+"]},
    "protected": {"object-tag": "critical", "column-tag": "pii"},
    "required-properties": {"properties": {"owner": ["team-.+"]}},
    "retention-floor": {"min-age-days": 7, "min-snapshots": 5, "keep-refs": True},
    "schema-compatibility": {"mode": "full"},
}
COLUMNS: Final = 100
REPETITIONS: Final = 300


def create_rules(server: CatalogServer) -> list[str]:
    connection, created = Connection(server.port), []
    scope = {"type": "warehouse", "id": server.warehouse_id}
    for kind, configuration in KINDS.items():
        body = {"scope": scope, "name": kind, "kind": kind, "configuration": configuration}
        created.append(str(connection.call("POST", RULES, body)["id"]))
    connection.close()
    return created


def delete_rules(server: CatalogServer, ids: list[str]) -> None:
    connection = Connection(server.port)
    for each in ids:
        connection.call("DELETE", f"{RULES}/{each}")
    connection.close()


def compare(server: CatalogServer, write: Write, clients: int, slices: int) -> None:
    """Measure in the order without, with, with, without, so that both are measured at about the same times."""
    sums = {True: Measured(), False: Measured()}
    for number in range(2 * slices):
        has_rules = number % 4 in {1, 2}
        created = create_rules(server) if has_rules else []
        job = Job(server.port, write.operations, SLICE_SECONDS)
        sums[has_rules].add(measure(job, clients=clients, trees={"server": server.pid}))
        delete_rules(server, created)
    ratio = sums[True].rate / sums[False].rate
    print(
        f"{write.title}, {clients} clients: {sums[False].rate:.0f}/s without rules, {sums[True].rate:.0f}/s with "
        f"{len(KINDS)}: {ratio:.3f}; CPU of the server {sums[False].cpu_ms('server'):.3f} and "
        f"{sums[True].cpu_ms('server'):.3f} ms each", flush=True,
    )  # fmt: skip


def print_costs() -> None:
    """Print CPU times of this process, in microseconds."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "icekeeper.settings")
    django.setup()
    from catalog.selectors.tables.targets import RulesVersion
    from catalog.services.approval.approve import require_approval
    from catalog.services.approval.configuration import RuleSettings
    from catalog.services.approval.port import ChangeAction, ProposedChange
    from catalog.services.approval.rule_kinds import RULE_KINDS
    from tenancy.actor import INTERNAL
    from tenancy.models import Securable

    print(f"no rules: {cost(lambda: require_approval(RulesVersion(None, 0), list)):.2f} µs")
    fields = [{"id": n, "name": f"column_{n}", "type": "string", "required": False} for n in range(1, COLUMNS + 1)]
    more = [*fields, {"id": COLUMNS + 1, "name": "more", "type": "int", "required": False}]
    old, new = (
        {"format-version": 2, "current-schema-id": 0, "schemas": [{"schema-id": 0, "fields": each}], "properties": {}}
        for each in (fields, more)
    )

    def change(proposed: dict[str, Any]) -> ProposedChange:
        return ProposedChange(
            action=ChangeAction.COMMIT, object_type=Securable.Type.TABLE, actor=INTERNAL, project_id="p",
            warehouse_id=UUID(int=1), levels=("ns",), name="t", object_id=UUID(int=2), read_current=lambda: old,
            proposed=proposed,
        )  # fmt: skip

    for kind, configuration in KINDS.items():
        verifier = RULE_KINDS[kind].build(RuleSettings(UUID(int=3), kind, 1, configuration))
        costs = [
            cost(lambda each=each, verifier=verifier: list(verifier.find_violations(change(each))))
            for each in (new, dict(old))
        ]
        print(f"{kind}: {costs[0]:.1f} µs for a new schema of {COLUMNS} columns, {costs[1]:.1f} µs for an append")


def cost(act: Callable[[], object]) -> float:
    """Return the CPU time of a call in microseconds, the best of some series."""
    best = float("inf")
    for _ in range(10):
        started = process_time()
        for _ in range(REPETITIONS):
            act()
        best = min(best, (process_time() - started) / REPETITIONS)
    return best * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.perf.rules", description=__doc__)
    parser.add_argument("--slices", type=int, default=10, help="slices of commits with rules, and without (10)")
    options = parser.parse_args()
    print_costs()
    with tempfile.TemporaryDirectory(prefix="icekeeper-rules-") as folder, Postgres() as postgres:
        url = postgres.create_database("rules")
        settings = {"LAKEKEEPER__PG_ENCRYPTION_KEY": "of a catalog that is thrown away"}
        with CatalogServer(
            Path(folder), database_url=url, workers=2, threads=8, arguments=["--without-worker"], settings=settings
        ) as server:
            server.create_warehouse("bench")
            contents = Contents(server.port, server.warehouse)
            contents.create_written()
            for write in writes(contents)[:2]:
                for clients in write.clients:
                    compare(server, write, clients, options.slices)


if __name__ == "__main__":
    main()
