"""Storage profile `gcs`."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings

from icekeeper.kernel.errors.types import CatalogError
from storage.credentials import read_credential
from storage.profiles.kinds import read_profile

GCS: dict[str, Any] = {"type": "gcs", "bucket": "my-bucket"}
MEMBERS = (
    "type", "project_id", "private_key_id", "private_key", "client_email", "client_id", "auth_uri", "token_uri",
    "auth_provider_x509_cert_url", "client_x509_cert_url", "universe_domain",
)  # fmt: skip
ADDRESSES = {
    "token_uri": "https://oauth2.googleapis.com/token",
    "auth_uri": "https://accounts.google.com/o/oauth2/auth",
    "universe_domain": "googleapis.com",
}
ACCOUNT: dict[str, Any] = {
    "type": "gcs",
    "credential-type": "service-account-key",
    "key": {name: f"a {name}" for name in MEMBERS} | ADDRESSES,
}
SYSTEM = {"type": "gcs", "credential-type": "gcp-system-identity"}


def stored(document: dict[str, Any], credential: dict[str, Any] | None = ACCOUNT) -> dict[str, Any]:
    return read_profile(document, credential and read_credential(credential)).as_json()


def error(document: dict[str, Any], credential: dict[str, Any] | None = ACCOUNT) -> str:
    with pytest.raises(CatalogError) as refused:
        stored(document, credential)
    assert refused.value.status == 400
    return refused.value.wire_type


def test_a_profile_is_shown_with_its_defaults() -> None:
    once = stored(GCS)
    assert once == {
        "type": "gcs",
        "bucket": "my-bucket",
        "key-prefix": None,
        "sts-enabled": True,
        "storage-layout": None,
    }
    assert stored(once) == once
    with_prefix = read_profile(GCS | {"key-prefix": "/a/b/"}, read_credential(ACCOUNT))
    assert with_prefix.location == "gs://my-bucket/a/b"


@pytest.mark.parametrize(
    ("change", "wire_type"),
    [
        *(
            ({"bucket": name}, "Invalidbucket")
            for name in ("ab", "a_b", "goog-x", "google", "10.0.0.1", "A-b", "-abc", "a..b", "x" * 64)
        ),
        *(
            ({"key-prefix": text}, "Invalidkey-prefix")
            for text in ("x" * 897, ".well-known/acme-challenge", "/.well-known/acme-challenge/x/", "a//b")
        ),
        ({"bucket": None}, "BadRequestException"),
        ({"sts-enabled": 1}, "BadRequestException"),
    ],
)
def test_invalid_profiles_are_rejected(change: dict[str, Any], wire_type: str) -> None:
    assert error(GCS | change) == wire_type


def test_gcs_needs_a_gcs_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    assert error(GCS, None) == "MissingCredentialError"
    assert error(GCS, {"type": "az", "credential-type": "shared-access-key", "key": "k"}) == "InvalidStorageCredential"
    asking = settings.ICEKEEPER.model_copy(update={"skip_storage_validation": False})
    monkeypatch.setattr(settings, "ICEKEEPER", asking)
    assert error(GCS, SYSTEM) == "SystemIdentityDisabled"
    allowed = settings.ICEKEEPER.model_copy(update={"enable_gcp_system_credentials": True})
    monkeypatch.setattr(settings, "ICEKEEPER", allowed)
    assert stored(GCS, SYSTEM) == stored(GCS)


@pytest.mark.parametrize("change", [{"bucket": "other-bucket"}, {"key-prefix": "a"}])
def test_files_do_not_move(change: dict[str, Any]) -> None:
    credential = read_credential(ACCOUNT)
    with pytest.raises(CatalogError, match="cannot be updated"):
        read_profile(GCS | change, credential, before=stored(GCS))


def test_the_type_stays() -> None:
    s3 = {"type": "s3", "bucket": "my-bucket", "region": "eu-1"}
    with pytest.raises(CatalogError) as refused:
        read_profile(s3, None, before=stored(GCS))
    assert (refused.value.status, refused.value.wire_type) == (400, "IncompatibleProfiles")
