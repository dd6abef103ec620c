"""fake-gcs-server for one test run: the APIs of Google Cloud Storage, with preconditions.

It does not check tokens, so tests on it prove nothing about permissions. Its XML API has no multipart uploads, and
simple uploads only through `xml_uploads`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import requests

from tests.parts.golang import GoProgram
from tests.parts.relay import Relay
from tests.parts.relayed import RelayedServer
from tests.parts.xml_uploads import XmlUploads

PROGRAM = GoProgram("fake-gcs-server", "github.com/fsouza/fake-gcs-server", "v1.56.1")


class FakeGcs(RelayedServer):
    """One server that keeps all objects in memory."""

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
        """The URL that replaces `https://storage.googleapis.com`."""
        return self.base_url

    def command(self) -> Sequence[str | Path]:
        return [
            PROGRAM.require(), "-scheme", "http", "-host", "127.0.0.1", "-port", str(self.port), "-backend", "memory",
            "-public-host", f"127.0.0.1:{self.relay.port}", "-external-url", self.base_url,
        ]  # fmt: skip

    def create_bucket(self, name: str) -> str:
        created = requests.post(f"{self.endpoint}/storage/v1/b?project=tests", json={"name": name}, timeout=10)
        created.raise_for_status()
        return name

    def put(self, bucket: str, name: str, data: bytes = b"", **preconditions: int) -> requests.Response:
        """Upload with the JSON API; `ifGenerationMatch=0` permits new objects only."""
        asked = {"uploadType": "media", "name": name, **preconditions}
        return requests.post(f"{self.endpoint}/upload/storage/v1/b/{bucket}/o", data, params=asked, timeout=10)

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """List the names of all objects, in order."""
        names: list[str] = []
        asked = {"prefix": prefix}
        while True:
            page = requests.get(f"{self.endpoint}/storage/v1/b/{bucket}/o", asked, timeout=10)
            page.raise_for_status()
            response = page.json()
            names += [item["name"] for item in response.get("items", ())]
            if "nextPageToken" not in response:
                return sorted(names)
            asked["pageToken"] = response["nextPageToken"]
