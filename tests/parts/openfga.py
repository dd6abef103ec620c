"""OpenFGA for one test run: its stores, models and tuples are in memory and deleted at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.parts import process
from tests.parts.golang import GoProgram
from tests.parts.relayed import RelayedServer

PROGRAM = GoProgram("openfga", "github.com/openfga/openfga/cmd/openfga", "v1.22.1")


class OpenFga(RelayedServer):
    """A server; with `preshared_key` it requires this bearer token, without it requires no authentication."""

    health_path = "/healthz"
    foreign_variables = ("OPENFGA_",)

    def __init__(self, home: Path, *, preshared_key: str | None = None) -> None:
        super().__init__(home)
        self.grpc_port = process.free_port()
        self.preshared_key = preshared_key

    @property
    def url(self) -> str:
        """URL of its HTTP API."""
        return self.base_url

    @property
    def headers(self) -> dict[str, str]:
        """Headers that a request to it needs."""
        return {"Authorization": f"Bearer {self.preshared_key}"} if self.preshared_key else {}

    def command(self) -> Sequence[str | Path]:
        return [
            PROGRAM.require(), "run", "--http-addr", f"127.0.0.1:{self.port}",
            "--grpc-addr", f"127.0.0.1:{self.grpc_port}", "--datastore-engine", "memory", "--log-level", "warn",
            "--playground-enabled=false", "--metrics-enabled=false", "--profiler-enabled=false",
            # Tests with hundreds of roles ask much of it, on a busy machine; the client's own timeout ends a request.
            "--request-timeout", "60s",
        ]  # fmt: skip

    def variables(self) -> dict[str, str]:
        """Pass the key as a variable: all users of the machine can read the command line."""
        chosen = {"GOGC": "800"}  # its heap is small; garbage collection would take a third of its time
        if self.preshared_key is not None:
            chosen |= {"OPENFGA_AUTHN_METHOD": "preshared", "OPENFGA_AUTHN_PRESHARED_KEYS": self.preshared_key}
        return chosen
