"""Open Policy Agent: a server that decides by the policies of one folder, and a program that checks them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import requests

from tests.parts.golang import GoProgram
from tests.parts.relayed import RelayedServer

PROGRAM = GoProgram("opa", "github.com/open-policy-agent/opa", "v1.22.2")
INHERITED = ("PATH", "HOME", "TMPDIR", "LANG")
SECONDS_TO_RUN = 60
SECONDS_TO_RESPONSE = 60


class Opa(RelayedServer):
    """A server of the policies below `policies`, with `settings` as their whole environment.

    `options` are additional arguments of `opa run`.
    """

    health_path = "/health"

    def __init__(self, home: Path, policies: Path, settings: Mapping[str, str] | None = None, *options: str) -> None:
        super().__init__(home)
        self.policies = policies
        self._settings, self._options = dict(settings or {}), options

    @property
    def url(self) -> str:
        return self.base_url

    def command(self) -> Sequence[str | Path]:
        return [
            PROGRAM.require(), "run", "--server", "--addr", f"127.0.0.1:{self.port}", "--disable-telemetry",
            "--log-level", "error", *self._options, self.policies,
        ]  # fmt: skip

    def environment(self) -> dict[str, str]:
        return {name: os.environ[name] for name in INHERITED if name in os.environ} | self._settings

    def decide(self, path: str, given: Mapping[str, Any]) -> Any:
        """Return the value at `path` (`trino/allow`) for this input; None where the policies leave it undefined."""
        response = requests.post(f"{self.url}/v1/data/{path}", json={"input": given}, timeout=SECONDS_TO_RESPONSE)
        response.raise_for_status()
        return response.json().get("result")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `opa` with these arguments and return its output and exit status; raise `PartError` where it is missing."""
    return subprocess.run(
        [PROGRAM.require(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=SECONDS_TO_RUN,
    )  # fmt: skip
