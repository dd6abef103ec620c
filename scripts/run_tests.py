"""`make test` and `make test-all`: concurrent runs of pytest, one exit status, and the parts that were found.

Each run selects its tests by `--run` (`tests/conftest.py`). Several runs for each core are executed at once, as each
waits for databases, servers and Spark much of the time; more would only take the caches of the processor from each
other. Their output is printed one run after another. Other arguments go to pytest.

    python -m scripts.run_tests --runs "sqlite postgres" -k commits
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from tests.parts import registry

DATABASES = {
    "sqlite": "sqlite",
    "postgres": "postgres",
    "spark": "postgres",
    "parts": "postgres",
    "generated": "postgres",
    "servers-sqlite": "sqlite",
    "servers-postgres": "postgres",
    "browser": "postgres",
}
"""The database of each run, in the order in which they start: first those that cannot be split."""
SHARES = {"sqlite": 2, "postgres": 2, "servers-sqlite": 2, "servers-postgres": 2}
"""Runs that are split into several processes, so that all cores are busy to the end."""
NICENESS = {"generated": 5}
"""Runs that compute all the time give way to those that mostly wait, which would otherwise end last."""
RUNS_A_CORE = 2.5
NOTHING_COLLECTED = 5
LOOK_SECONDS = 0.5


class Run:
    """One run of pytest with its output on the file `output`, None for ours; `seconds` is what it took.

    It has all tests of the run `name`, or those of `share`, such as `1/2`.
    """

    def __init__(self, name: str, share: str, arguments: list[str], output: IO[bytes] | None) -> None:
        self.label = f"{name} {share}" if share else name
        self.output, self.seconds = output, 0.0
        arguments = [f"--run={name}", *([f"--share={share}"] if share else []), *arguments]
        self._command = ["nice", "-n", str(NICENESS.get(name, 0)), sys.executable, "-m", "pytest", *arguments]
        # Django's settings must be read after tests/conftest.py has prepared the environment, never before.
        inherited = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
        self._environment = inherited | {"ICEKEEPER_TEST_DATABASE": DATABASES[name]}
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: Future[int] = Future()

    def begin(self, threads: ThreadPoolExecutor) -> None:
        """Start pytest as soon as a thread is free."""
        self._ended = threads.submit(self._execute)

    def _execute(self) -> int:
        started = time.monotonic()
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdout=self.output,
            stderr=None if self.output is None else subprocess.STDOUT,
        )
        status = self._process.wait()
        self.seconds = time.monotonic() - started
        return status

    @property
    def has_ended(self) -> bool:
        return self._ended.done()

    def terminate(self) -> None:
        """End pytest, and with it the servers that it started; do nothing if it has ended or was not started."""
        self._ended.cancel()
        if self._process is not None:
            self._process.terminate()

    def wait(self) -> int:
        """Return the exit status of pytest."""
        return self._ended.result()


def shares(name: str) -> list[str]:
    """The shares of the run `name`, such as `["1/2", "2/2"]`; one that is empty if it is not split."""
    count = SHARES.get(name, 1)
    return [f"{number}/{count}" for number in range(1, count + 1)] if count > 1 else [""]


def show(run: Run) -> None:
    """What a run has written and still writes, until it ends; the first one writes by itself."""
    print(f"\n=== Tests: {run.label} ===", flush=True)
    if run.output is None:
        run.wait()
        return
    with Path(run.output.name).open("rb") as written:
        has_ended = False
        while not has_ended:
            has_ended = run.has_ended
            shutil.copyfileobj(written, sys.stdout.buffer)
            sys.stdout.flush()
            if not has_ended:
                time.sleep(LOOK_SECONDS)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="run_tests", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", default=" ".join(DATABASES), help=f"names of {', '.join(DATABASES)} (default: all)")
    options, pytest_arguments = parser.parse_known_args(arguments)
    names = options.runs.split()
    unknown = set(names) - set(DATABASES)
    if unknown or not names:
        parser.error(f"--runs takes names of {', '.join(DATABASES)}, not {unknown or 'none'}")
    # A run that is stopped from outside leaves no pytest behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with ExitStack() as stack:
        runs: list[Run] = []
        for name, share in [(run, share) for run in names for share in shares(run)]:
            output = stack.enter_context(NamedTemporaryFile(prefix=f"icekeeper-tests-{name}-")) if runs else None
            runs.append(Run(name, share, pytest_arguments, output))
        threads = stack.enter_context(ThreadPoolExecutor(round(RUNS_A_CORE * (os.cpu_count() or 1))))
        for run in runs:
            stack.callback(run.terminate)  # before the threads are waited for
            run.begin(threads)
        for run in runs:
            show(run)
        statuses = [run.wait() for run in runs]
    if {"spark", "generated", "browser", "parts"} & set(names):
        print("\nReal parts:")
        for line in registry.report():
            print(f"  {line}")
    # A selection (`-k`) may leave some of the runs empty, but not all.
    has_failed = any(status not in {0, NOTHING_COLLECTED} for status in statuses)
    is_empty = all(status == NOTHING_COLLECTED for status in statuses)
    result = "failed" if has_failed else "no tests" if is_empty else "passed"
    details = [f"{run.label} status {run.wait()} in {run.seconds:.0f} s" for run in runs]
    print(f"Tests {result}: {', '.join(details)}", flush=True)
    return int(has_failed or is_empty)


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
