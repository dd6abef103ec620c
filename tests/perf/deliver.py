"""Delivers what is in the outbox once: `python -m tests.perf.deliver`, run by `tests.perf.events` with the environment
of the catalog. Prints JSON: the seconds, and the CPU seconds of this process.
"""

from __future__ import annotations

import json
import os
import time


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "icekeeper.settings")
    import django

    django.setup()

    from events.worker import dispatcher_of_process

    dispatcher = dispatcher_of_process()
    began, cpu = time.perf_counter(), time.process_time()
    dispatcher.run_once()
    print(json.dumps({"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}))


if __name__ == "__main__":
    main()
