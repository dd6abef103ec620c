"""Warehouses with the identity of the server, where the settings do not allow it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from storage.credentials import Credential, read_credential
from storage.identity.azure import token_credential
from storage.identity.google import google_credentials, google_transport
from storage.identity.keys import CredentialNotIssued
from storage.identity.s3 import base_keys
from storage.models import Warehouse
from tests.harness.wsgi_client import ApiClient
from tests.management.test_server_identity_locations import KINDS
from tests.management.warehouse_request_fixtures import keep_secrets, use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

api = ApiClient("/management/v1")
DISABLED = dict.fromkeys((f"enable_{cloud}_system_credentials" for cloud in ("aws", "azure", "gcp")), False)
USES: dict[str, Callable[[Any], object]] = {
    "s3": base_keys,
    "adls": partial(token_credential, authority=None),
    "onelake": partial(token_credential, authority=None),
    "gcs": partial(google_credentials, request=google_transport),
}


def body(kind: str) -> dict[str, Any]:
    profile, credential, _ = KINDS[kind]
    return {"warehouse-name": "wh", "storage-profile": profile, "storage-credential": credential}


@pytest.mark.parametrize("kind", KINDS)
def test_a_disabled_identity_is_stored_only_where_storage_validation_is_skipped(
    bootstrapped: None, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    keep_secrets(monkeypatch)
    use_settings(monkeypatch, skip_storage_validation=False, **DISABLED)
    assert api.post("/warehouse", body(kind)).refused(400, "SystemIdentityDisabled", "LAKEKEEPER__ENABLE_")
    assert not Warehouse.objects.exists()
    use_settings(monkeypatch, skip_storage_validation=True)
    created = api.post("/warehouse", body(kind))
    assert created.status == 201, created.body
    system = KINDS[kind][1]
    assert created.json()["storage-credential-type"]["credential-type"] == system["credential-type"]


@pytest.mark.parametrize("kind", USES)
@pytest.mark.parametrize("skips_validation", [False, True])
def test_a_disabled_identity_is_never_used(
    monkeypatch: pytest.MonkeyPatch, kind: str, *, skips_validation: bool
) -> None:
    token_credential.cache_clear()
    credential: Credential = read_credential(KINDS[kind][1])
    use_settings(monkeypatch, skip_storage_validation=skips_validation, **DISABLED)
    with pytest.raises(CredentialNotIssued, match="is disabled by LAKEKEEPER__ENABLE_"):
        USES[kind](credential)
