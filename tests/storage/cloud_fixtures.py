"""Warehouses on the emulators of Azure Blob Storage and Google Cloud Storage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import pytest
from azure.storage.blob import ContainerClient
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from storage.io.object_store import RemoteStore
from tests.parts.azurite import Azurite
from tests.parts.fake_gcs import FakeGcs
from tests.parts.relayed import RelayedServer
from tests.storage.open_store_fixtures import opened, use_storage_settings
from tests.storage.vending.fake_service import FakeService, said

_numbers = count(1)


@dataclass(frozen=True)
class Cloud:
    """An emulator, with the profile and credential of a warehouse at `wh` in a new, empty container."""

    part: RelayedServer
    profile: dict[str, Any]
    credential: dict[str, Any]
    base: str
    list_names: Callable[[], list[str]]
    put: Callable[[str], None]
    setting: str
    address: str

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.part.relay.port}"

    def open(self) -> RemoteStore:
        return opened(self.profile, self.credential)


def azure(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    name = azurite.create_container(f"container-{next(_numbers)}")
    address = azurite.endpoint.replace(azurite.account, "{account}")
    use_storage_settings(monkeypatch, azure_endpoint=address)
    profile = {"type": "adls", "filesystem": name, "account-name": azurite.account, "key-prefix": "wh"}
    client = azurite.client().get_container_client(name)
    return Cloud(
        azurite, profile, {"type": "az", "credential-type": "shared-access-key", "key": azurite.key},
        f"abfss://{name}@{azurite.account}.dfs.core.windows.net/wh",
        lambda: azurite.keys(name), lambda blob: put_blob(client, blob), "azure_endpoint", address,
    )  # fmt: skip


def put_blob(client: ContainerClient, name: str, **metadata: str) -> None:
    client.upload_blob(name, b"", metadata=metadata, overwrite=True)


@lru_cache(maxsize=1)
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, *form).decode()


def gcs(fake_gcs: FakeGcs, tokens: FakeService, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    name = fake_gcs.create_bucket(f"bucket-{next(_numbers)}")
    use_storage_settings(monkeypatch, gcs_endpoint=fake_gcs.endpoint)
    tokens.responses["/token"] = [said({"access_token": "a-token", "expires_in": 3600, "token_type": "Bearer"})]
    key = {
        "type": "service_account", "project_id": "p", "private_key_id": "1", "private_key": private_key(),
        "client_email": "a@p.iam.gserviceaccount.com", "client_id": "1", "universe_domain": "googleapis.com",
        "auth_uri": "https://accounts.google.com/o/oauth2/auth", "token_uri": f"{tokens.address}/token",
        "auth_provider_x509_cert_url": "https://www.googleapis.com/oauth2/v1/certs",
        "client_x509_cert_url": "https://www.googleapis.com/robot/v1/metadata/x509/a",
    }  # fmt: skip
    return Cloud(
        fake_gcs, {"type": "gcs", "bucket": name, "key-prefix": "wh"},
        {"type": "gcs", "credential-type": "service-account-key", "key": key}, f"gs://{name}/wh",
        lambda: fake_gcs.keys(name), lambda blob: fake_gcs.put(name, blob).raise_for_status(),
        "gcs_endpoint", fake_gcs.endpoint,
    )  # fmt: skip
