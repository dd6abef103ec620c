"""Azurite for one test run: the blob service of Azure with account keys and SAS; its data is deleted at the end.

It has no `dfs` endpoint and rejects the SAS of a directory.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from azure.storage.blob import BlobServiceClient

from tests.parts.node import NpmPackage
from tests.parts.relayed import RelayedServer

PACKAGE = NpmPackage("azurite", "3.37.0", as_of="2026-09-30", script="dist/src/blob/main.js")


class Azurite(RelayedServer):
    """One server with one storage account, `account` with the key `key`."""

    health_path = "/"
    account = "icekeepertests"
    key = base64.b64encode(b"the account key of the tests, no secret").decode()

    @property
    def endpoint(self) -> str:
        """The URL of the account's blob service."""
        return f"{self.base_url}/{self.account}"

    def command(self) -> Sequence[str | Path]:
        return [
            *PACKAGE.require(), "--blobHost", "127.0.0.1", "--blobPort", str(self.port),
            "--location", self.home / "data", "--disableProductStyleUrl", "--skipApiVersionCheck", "--disableTelemetry",
        ]  # fmt: skip

    def variables(self) -> dict[str, str]:
        return {"AZURITE_ACCOUNTS": f"{self.account}:{self.key}"}

    def client(self) -> BlobServiceClient:
        """A client with the account key."""
        return BlobServiceClient(self.endpoint, {"account_name": self.account, "account_key": self.key})

    def create_container(self, name: str) -> str:
        with self.client() as client:
            client.create_container(name)
        return name

    def keys(self, container: str, prefix: str = "") -> list[str]:
        """List the names of all blobs, in order."""
        with self.client() as client:
            return sorted(client.get_container_client(container).list_blob_names(name_starts_with=prefix))
