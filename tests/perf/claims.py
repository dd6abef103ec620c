"""Measures claims of tasks: `python -m tests.perf.claims NUMBER`, run by `tests.perf.tasks` with the environment of the
catalog. Prints JSON: the milliseconds of each claim, and the number of full scans of the table.
"""

from __future__ import annotations

import json
import os
import sys
import time

SLOTS = {"soft_deletion": 2, "tabular_purge": 2}


def main(number: int) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "icekeeper.settings")
    import django

    django.setup()

    from django.db import connection

    from tasks.models import NO_ID
    from tasks.queue.leases import claim_tasks

    def full_scans() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
            cursor.execute("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'tasks_task'")
            (scans,) = cursor.fetchone()
        return int(scans)

    claim_tasks(SLOTS)
    before, last, durations = full_scans(), NO_ID, []
    for _ in range(number):
        began = time.perf_counter()
        leases = claim_tasks(SLOTS, after=last)
        durations.append((time.perf_counter() - began) * 1000)
        last = leases[-1].warehouse_id
    print(json.dumps({"ms": durations, "full_scans": full_scans() - before}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
