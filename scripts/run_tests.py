"""`make test`: one pytest run on SQLite, one on PostgreSQL, one exit status, and which real parts were there.

What the two runs would only repeat is left to one of them (`--split`, see `tests/conftest.py`). Arguments go to pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from tests.parts import registry

DATABASES = ("sqlite", "postgres")
NOTHING_COLLECTED = 5


def run_pytest(database: str, arguments: list[str]) -> int:
    """One run with its output on ours; returns pytest's exit status."""
    # Django's settings must be read after tests/conftest.py has prepared the environment, never before.
    inherited = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    print(f"\n=== Tests on {database} ===", flush=True)
    command = [sys.executable, "-m", "pytest", "--split", *arguments]
    return subprocess.run(command, env=inherited | {"ICEKEEPER_TEST_DATABASE": database}, check=False).returncode


def main(arguments: list[str]) -> int:
    statuses, seconds = {}, {}
    for database in DATABASES:
        started = time.monotonic()
        statuses[database] = run_pytest(database, arguments)
        seconds[database] = time.monotonic() - started
    print("\nReal parts:")
    for line in registry.report():
        print(f"  {line}")
    # A selection (`-k`) may leave one of the runs empty, but not both.
    has_failed = any(status not in {0, NOTHING_COLLECTED} for status in statuses.values())
    is_empty = all(status == NOTHING_COLLECTED for status in statuses.values())
    outcome = "failed" if has_failed else "no tests" if is_empty else "passed"
    runs = ", ".join(f"{database} status {statuses[database]} in {seconds[database]:.0f} s" for database in DATABASES)
    print(f"Tests {outcome}: {runs}", flush=True)
    return int(has_failed or is_empty)


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
