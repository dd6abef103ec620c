"""`.parts/`: servers that tests need and the machine lacks, downloaded once and kept."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.parts.process import PartError

PARTS = Path(__file__).resolve().parents[2] / ".parts"
COMPLETE = "complete"
"""A file in each completely installed environment; environments cannot be moved after their installation."""


@contextmanager
def one_process(installs: str) -> Iterator[None]:
    """Wait until no other process installs the same: each removes the unfinished folders that it finds."""
    PARTS.mkdir(exist_ok=True)
    with (PARTS / f"{installs}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install_environment(requirements: Path, home: Path) -> None:
    """Create a virtual environment with exactly the pinned `requirements` in `home`; remove it on failure."""
    PARTS.mkdir(exist_ok=True)
    shutil.rmtree(home, ignore_errors=True)
    python = home / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-compile"]
    for command in (
        [sys.executable, "-m", "venv", home],
        [*pip, "--requirement", requirements],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(home, ignore_errors=True)
            raise PartError(f"pip could not install {requirements}: {done.stderr.strip()[-3000:]}")
    (home / COMPLETE).touch()


def install_wheel(requirement: str, home: Path) -> None:
    """Unpack one wheel without its dependencies into `home`; a failed download leaves no incomplete installation."""
    PARTS.mkdir(exist_ok=True)
    unfinished = home.with_name(home.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps",
         "--no-compile", "--only-binary", ":all:", "--target", unfinished, requirement],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise PartError(f"pip could not fetch {requirement}: {done.stderr.strip()}")
    shutil.rmtree(home, ignore_errors=True)
    unfinished.rename(home)
