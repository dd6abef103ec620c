"""The exact properties in the table config of clients (storage.md §3.2-3.4)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from storage.credentials import read_credential
from storage.profiles.kinds import read_profile
from storage.vending.client_config import SignerEndpoint, client_config, credential_config
from storage.vending.delegation import Vended

AT = datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC)
AT_MS = "1767323045678"
KEYS = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.session-token": "c"}
VENDED = Vended(KEYS, AT)
SIGNER = SignerEndpoint("https://c/catalog/", "v1/signer/w/tabular-id/t/v1/aws/s3/sign")
REFRESH = "https://c/catalog/v1/w/namespaces/n/tables/t/credentials"
PLAIN: dict[str, Any] = {"type": "s3", "bucket": "lake", "region": "eu-1", "sts-enabled": False}
FULL = PLAIN | {"endpoint": "http://h:9000", "path-style-access": True, "aws-kms-key-arn": "arn:aws:kms:eu-1:1:key/k"}
PLAIN_STORE = {"s3.region": "eu-1", "client.region": "eu-1"}
FULL_STORE = PLAIN_STORE | {
    "s3.endpoint": "http://h:9000/",
    "s3.path-style-access": "true",
    "s3.sse.type": "kms",
    "s3.sse.key": "arn:aws:kms:eu-1:1:key/k",
}
SIGNING = {
    "s3.remote-signing-enabled": "true",
    "s3.signer": "S3V4RestSigner",
    "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
    "s3.signer.uri": "https://c/catalog/",
    "signer.uri": "https://c/catalog/",
    "s3.signer.endpoint": "v1/signer/w/tabular-id/t/v1/aws/s3/sign",
    "signer.endpoint": "v1/signer/w/tabular-id/t/v1/aws/s3/sign",
}
AZURE_KEY = {"type": "az", "credential-type": "shared-access-key", "key": "a2V5"}


def stored(document: dict[str, Any], credential: dict[str, Any] | None = None) -> dict[str, Any]:
    found = None if credential is None else read_credential(credential)
    return read_profile(document, found).as_json()


@pytest.mark.parametrize(("document", "store"), [(PLAIN, PLAIN_STORE), (FULL, FULL_STORE)])
def test_s3(document: dict[str, Any], store: dict[str, str]) -> None:
    profile = stored(document)
    reported = {"region": "eu-1"} | store
    assert client_config(profile) == reported
    assert client_config(profile, vended=VENDED, refresh_endpoint=REFRESH) == reported | KEYS
    assert client_config(profile, signer=SIGNER) == reported | SIGNING
    assert client_config(profile, vended=VENDED, signer=SIGNER) == reported | KEYS | SIGNING
    lives = {"s3.session-token-expires-at-ms": AT_MS, "expiration-time": AT_MS}
    assert credential_config(profile, VENDED) == store | KEYS | lives
    refreshed = {"client.refresh-credentials-endpoint": REFRESH}
    assert credential_config(profile, VENDED, refresh_endpoint=REFRESH) == store | KEYS | lives | refreshed


@pytest.mark.parametrize("path_style", [None, False])
def test_path_style_is_returned_only_when_it_is_on(path_style: bool | None) -> None:
    assert "s3.path-style-access" not in client_config(stored(PLAIN | {"path-style-access": path_style}))


def test_stackit() -> None:
    document = {"type": "stackit", "bucket": "lake", "region": "eu01", "sts-enabled": False}
    assert client_config(stored(document), vended=VENDED) == KEYS | {
        "region": "eu01",
        "s3.region": "eu01",
        "client.region": "eu01",
        "s3.endpoint": "https://object.storage.eu01.onstackit.cloud/",
    }


@pytest.mark.parametrize(
    "user_agent", ["", "Spark", "PyIceberg/0.10.1", "PyIceberg/0.11.0", "PyIceberg/1.0", "x PyIceberg/0.9.0"]
)
def test_azure(user_agent: str) -> None:
    profile = stored({"type": "adls", "filesystem": "lake", "account-name": "acct"}, AZURE_KEY)
    vended_credentials = Vended({"adls.sas-token.acct.dfs.core.windows.net": "sig=1"}, AT)
    reported = vended_credentials.config | {
        "adls.sas-token-expires-at-ms.acct.dfs.core.windows.net": AT_MS,
        "expiration-time": AT_MS,
    }
    assert client_config(profile) == client_config(profile, signer=SIGNER) == {}
    for config in (client_config, credential_config):
        assert config(profile, vended=vended_credentials, user_agent=user_agent) == reported
        refreshed = {"adls.refresh-credentials-endpoint": REFRESH}
        assert (
            config(profile, vended=vended_credentials, user_agent=user_agent, refresh_endpoint=REFRESH)
            == reported | refreshed
        )


@pytest.mark.parametrize(
    "user_agent", ["PyIceberg/0.10.0", "PyIceberg/0.9.1", "PyIceberg/0.10", "PyIceberg/0.10.0rc1 x"]
)
def test_older_pyiceberg_does_not_get_the_expiry_of_a_token(user_agent: str) -> None:
    profile = stored({"type": "adls", "filesystem": "lake", "account-name": "acct"}, AZURE_KEY)
    vended_credentials = Vended({"adls.sas-token.acct.dfs.core.windows.net": "sig=1"}, AT)
    assert client_config(profile, vended=vended_credentials, user_agent=user_agent) == vended_credentials.config | {
        "expiration-time": AT_MS
    }


def test_gcs() -> None:
    profile = {"type": "gcs", "bucket": "lake", "sts-enabled": True}
    vended_credentials = Vended({"gcs.oauth2.token": "ya29", "gcs.project-id": "p"}, AT)
    reported = vended_credentials.config | {"gcs.oauth2.token-expires-at": AT_MS, "expiration-time": AT_MS}
    assert client_config(profile) == {}
    for config in (client_config, credential_config):
        assert config(profile, vended=vended_credentials) == reported
        refreshed = {"gcs.oauth2.refresh-credentials-endpoint": REFRESH}
        assert config(profile, vended=vended_credentials, refresh_endpoint=REFRESH) == reported | refreshed


def test_local_files_have_no_client_config() -> None:
    assert client_config({"type": "local", "path": "/srv"}) == {}


def test_shared_config_is_not_changed() -> None:
    before = dict(KEYS)
    credential_config(stored(FULL), VENDED, refresh_endpoint=REFRESH)["s3.access-key-id"] = "changed"
    client_config(stored(FULL), vended=VENDED)["s3.access-key-id"] = "changed"
    assert VENDED.config == before
