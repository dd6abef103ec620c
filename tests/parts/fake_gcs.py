"""fake-gcs-server for one run: the interfaces of Google Cloud Storage, with preconditions.

It asks nobody for a token, so that nothing about rights can be proved by it. It knows no uploads in parts by the XML
interface, and whole ones by way of `xml_uploads` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client

from tests.parts.golang import GoProgram
from tests.parts.relay import Relay
from tests.parts.relayed import RelayedServer
from tests.parts.xml_uploads import XmlUploads

PROGRAM = GoProgram("fake-gcs-server", "github.com/fsouza/fake-gcs-server", "v1.56.1")


class FakeGcs(RelayedServer):
    """One server that keeps everything in its memory."""

    health_path = "/_internal/healthcheck"

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._uploads = XmlUploads(self.port)
        self.relay = Relay(self._uploads.port)

    def __enter__(self) -> Self:
        self._uploads.__enter__()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._uploads.__exit__()

    @property
    def endpoint(self) -> str:
        """In the place of `https://storage.googleapis.com`."""
        return self.base_url

    def command(self) -> Sequence[str | Path]:
        return [
            PROGRAM.require(), "-scheme", "http", "-host", "127.0.0.1", "-port", str(self.port), "-backend", "memory",
            "-public-host", f"127.0.0.1:{self.relay.port}", "-external-url", self.base_url,
        ]  # fmt: skip

    def client(self) -> Client:
        return Client("tests", credentials=AnonymousCredentials(), client_options={"api_endpoint": self.endpoint})

    def create_bucket(self, name: str) -> str:
        self.client().create_bucket(name)
        return name

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Every object's name, in order."""
        return sorted(blob.name for blob in self.client().list_blobs(bucket, prefix=prefix))
