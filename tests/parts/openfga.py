"""A real OpenFGA for one run: its stores, models and tuples are in its memory, and gone at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.parts import process
from tests.parts.golang import GoProgram
from tests.parts.relayed import RelayedServer

PROGRAM = GoProgram("openfga", "github.com/openfga/openfga/cmd/openfga", "v1.22.1")


class OpenFga(RelayedServer):
    """With `preshared_key` it answers nobody who does not send that as a bearer token; without, everybody."""

    health_path = "/healthz"
    foreign_variables = ("OPENFGA_",)

    def __init__(self, home: Path, *, preshared_key: str | None = None) -> None:
        super().__init__(home)
        self.grpc_port = process.free_port()
        self.preshared_key = preshared_key

    @property
    def url(self) -> str:
        """Of its HTTP interface."""
        return self.base_url

    @property
    def headers(self) -> dict[str, str]:
        """What a request to it needs."""
        return {"Authorization": f"Bearer {self.preshared_key}"} if self.preshared_key else {}

    def command(self) -> Sequence[str | Path]:
        return [
            PROGRAM.require(), "run", "--http-addr", f"127.0.0.1:{self.port}",
            "--grpc-addr", f"127.0.0.1:{self.grpc_port}", "--datastore-engine", "memory", "--log-level", "warn",
            "--playground-enabled=false", "--metrics-enabled=false", "--profiler-enabled=false",
        ]  # fmt: skip

    def variables(self) -> dict[str, str]:
        """The key is no word of the command, which everybody on the machine may read."""
        chosen = {"GOGC": "800"}  # it holds little, and would collect garbage for a third of its time
        if self.preshared_key is not None:
            chosen |= {"OPENFGA_AUTHN_METHOD": "preshared", "OPENFGA_AUTHN_PRESHARED_KEYS": self.preshared_key}
        return chosen
