"""`make chaos MINUTES=n`: random faults of a whole deployment under load, then a comparison of everything.

Two servers, two workers, PostgreSQL and MinIO run as processes, in one form with `manage.py worker`, in the other with
Celery, two beats and Redis. Clients create, change, drop and restore tables, and an operator stops, starts and retries
tasks, while parts are killed, stopped or interrupted, one at a time. Events are delivered to NATS, a webhook and Kafka.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.chaos.checks import problems, summary, wait_until_delivered, wait_until_drained
from tests.chaos.cluster import FORMS, Cluster
from tests.chaos.load import Client, Operator

CLIENTS = 6
MAX_PROBLEMS = 20
MAX_LENGTH = 1_000


def run(home: Path, *, seconds: float, seed: int, form: str) -> list[str]:
    """Run for `seconds` and return the violations, after printing what was done."""
    with Cluster(home, seed, form) as cluster:
        servers = [server.base_url for server in cluster.servers]
        clients = [
            Client(number, servers, cluster.warehouses, cluster.minio.client(), seed) for number in range(CLIENTS)
        ]
        operator = Operator(servers, cluster.warehouses, seed)
        until = time.monotonic() + seconds
        with ThreadPoolExecutor(CLIENTS + 1) as pool:
            running = [pool.submit(sender.run, until) for sender in [*clients, operator]]
            cluster.disturb(until)
            for each in running:
                each.result()
        operator.start_all()
        started = time.monotonic()
        stuck = wait_until_drained(cluster) or wait_until_delivered(cluster)
        print(summary(cluster, clients, operator))
        if stuck is not None:  # what is left of dropped tables then follows from that
            return [stuck, *cluster.last_warnings()]
        print(
            f"all tasks ended, and all events were delivered, {time.monotonic() - started:.0f} s after the last fault"
        )
        return list(problems(cluster, clients, operator))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="duration of the load in all (default 2)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9), help="repeats the choices")
    parser.add_argument("--form", choices=FORMS, help="what executes tasks (default: each form for a part of the time)")
    parser.add_argument("--home", type=Path, help="folder for logs and data (a temporary one)")
    options = parser.parse_args()
    forms = [options.form] if options.form else FORMS
    found: list[str] = []
    with tempfile.TemporaryDirectory(prefix="icekeeper-chaos-") as folder:
        for form in forms:
            home = (options.home or Path(folder)) / form
            home.mkdir(parents=True, exist_ok=True)
            print(f"form {form}, seed {options.seed}, {options.minutes / len(forms):g} minutes")
            found += run(home, seconds=options.minutes * 60 / len(forms), seed=options.seed, form=form)
    for each in found[:MAX_PROBLEMS]:
        print(f"PROBLEM: {each[:MAX_LENGTH]}")
    print(f"{len(found)} problems" if found else "no problem was found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
