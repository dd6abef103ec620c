"""`make test`: one pytest run on SQLite, one on PostgreSQL, one exit status, and which real parts were there.

Both run at once: each waits for databases, servers and Spark most of the time. What the PostgreSQL run says comes
behind what the SQLite run says. What the two would only repeat is left to one of them (`--split`, see
`tests/conftest.py`). Arguments go to pytest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Thread
from typing import IO, Any

from tests.parts import registry

DATABASES = ("sqlite", "postgres")
NOTHING_COLLECTED = 5
LOOK_SECONDS = 0.5


class Run:
    """A pytest run on `database` with its output on the file `output`, None for ours; `seconds` is what it took."""

    def __init__(self, database: str, arguments: list[str], output: Any) -> None:
        self.database, self.seconds = database, 0.0
        # Django's settings must be read after tests/conftest.py has prepared the environment, never before.
        inherited = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "--split", *arguments],
            env=inherited | {"ICEKEEPER_TEST_DATABASE": database},
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
        )
        self._clock = Thread(target=self._measure, daemon=True)
        self._clock.start()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self) -> int:
        self._clock.join()
        return self._process.wait()

    def _measure(self) -> None:
        self._process.wait()
        self.seconds = time.monotonic() - self._started


def show(run: Run, written: IO[bytes]) -> None:
    """What a run has written and still writes, until it ends."""
    has_ended = False
    while not has_ended:
        has_ended = run.has_ended
        shutil.copyfileobj(written, sys.stdout.buffer)
        sys.stdout.flush()
        if not has_ended:
            time.sleep(LOOK_SECONDS)


def head(database: str) -> None:
    print(f"\n=== Tests on {database} ===", flush=True)


def main(arguments: list[str]) -> int:
    first, second = DATABASES
    with tempfile.NamedTemporaryFile(prefix="icekeeper-tests-") as written, Path(written.name).open("rb") as so_far:
        later = Run(second, arguments, output=written.file)
        head(first)
        runs = [Run(first, arguments, output=None), later]
        runs[0].wait()
        head(second)
        show(later, so_far)
        statuses = [run.wait() for run in runs]
    print("\nReal parts:")
    for line in registry.report():
        print(f"  {line}")
    # A selection (`-k`) may leave one of the runs empty, but not both.
    has_failed = any(status not in {0, NOTHING_COLLECTED} for status in statuses)
    is_empty = all(status == NOTHING_COLLECTED for status in statuses)
    outcome = "failed" if has_failed else "no tests" if is_empty else "passed"
    told = [f"{run.database} status {run.wait()} in {run.seconds:.0f} s" for run in runs]
    print(f"Tests {outcome}: {', '.join(told)}", flush=True)
    return int(has_failed or is_empty)


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
