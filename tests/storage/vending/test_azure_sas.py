"""Shared access signatures of Azure for one directory.

No directory SAS can run here: Azurite rejects them, and it has no Entra ID. The fields and signature of the token are
proved by a second implementation from Microsoft's pages, the requests to Entra ID and the account with a fake of both.
Not proved: that Azure accepts the token and limits it to one directory.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from azure.storage.blob import UserDelegationKey
from django.conf import settings
from hypothesis import given

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import InvalidLocation
from storage.credentials import AzureClientCredentials, AzureSystemIdentity, Credential, read_credential
from storage.errors import StoreUnavailable
from storage.identity import azure
from storage.identity.azure import DelegationKeys, account_url
from storage.identity.keys import CredentialNotIssued
from storage.profiles.azure import AdlsProfile, OneLakeProfile
from storage.profiles.kinds import read_profile
from storage.vending import azure_sas
from storage.vending.delegation import FileAccess, Vended
from storage.vending.vend import UnsupportedCredential, issue
from tests.storage.vending.fake_service import FakeService, Said, said
from tests.storage.vending.folder_name_fixtures import PLAIN, UNICODE, folders

pytestmark = pytest.mark.django_db

ACCOUNT_KEY = base64.b64encode(b"canary account key").decode()
SHARED = {"type": "az", "credential-type": "shared-access-key", "key": ACCOUNT_KEY}
APPLICATION = {
    "type": "az", "credential-type": "client-credentials", "client-id": "app", "tenant-id": "tenant-1",
    "client-secret": "canary-client-secret",
}  # fmt: skip
SYSTEM = {"type": "az", "credential-type": "azure-system-identity"}
ADLS = {"type": "adls", "filesystem": "lake", "account-name": "acct", "key-prefix": "wh"}
WORKSPACE, LAKEHOUSE = "11111111-2222-3333-4444-555555555555", "99999999-8888-7777-6666-555555555555"
ONELAKE = {"type": "onelake", "workspace-id": WORKSPACE, "lakehouse-id": LAKEHOUSE}
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EXPIRY = datetime(2026, 1, 2, 4, 4, 5, tzinfo=UTC)


def adls(credential: dict[str, Any] = SHARED, **members: Any) -> AdlsProfile:
    read = read_profile(ADLS | members, read_credential(credential))
    assert isinstance(read, AdlsProfile)
    return read


def onelake(**members: Any) -> OneLakeProfile:
    read = read_profile(ONELAKE | members, read_credential(APPLICATION))
    assert isinstance(read, OneLakeProfile)
    return read


def fields(token: str) -> dict[str, str]:
    pairs = parse_qsl(token, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def signed(key: bytes, *lines: str) -> str:
    return base64.b64encode(hmac.new(key, "\n".join(lines).encode(), hashlib.sha256).digest()).decode()


def signed_with_account_key(sent: dict[str, str], resource: str) -> str:
    """https://learn.microsoft.com/rest/api/storageservices/create-service-sas, version 2020-12-06 and later."""
    return signed(
        b"canary account key",
        sent["sp"], sent["st"], sent["se"], resource, "", "", sent["spr"], sent["sv"], sent["sr"],
        "", "", "", "", "", "", "",
    )  # fmt: skip


def delegation_key() -> UserDelegationKey:
    key = UserDelegationKey()
    key.signed_oid, key.signed_tid, key.signed_service, key.signed_version = "oid", "tid", "b", "2024-08-04"
    key.signed_start, key.signed_expiry = "2026-01-02T03:04:05Z", "2026-01-02T09:04:05Z"
    key.value = base64.b64encode(b"canary delegation key").decode()
    return key


def signed_with_delegation_key(sent: dict[str, str], resource: str) -> str:
    """https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas, version 2025-07-05 and later,
    with the headers and parameters of requests added since (none here).
    """
    return signed(
        b"canary delegation key",
        sent["sp"], sent["st"], sent["se"], resource, "oid", "tid", "2026-01-02T03:04:05Z", "2026-01-02T09:04:05Z", "b",
        "2024-08-04", "", "", "", "", "", "", sent["spr"], sent["sv"], sent["sr"], "", "", "", "", "", "", "", "", "",
    )  # fmt: skip


@pytest.mark.parametrize(("rights", "permissions"), [(FileAccess.READ, "rl"), (FileAccess.READ_WRITE, "rawdl")])
def test_a_signature_with_the_key_of_the_account(rights: FileAccess, permissions: str) -> None:
    token = azure_sas.directory_sas(adls(), "wh/ns/t1", rights, signer=ACCOUNT_KEY, start=AT, expiry=EXPIRY)
    sent = fields(token)
    signature, version = sent.pop("sig"), sent["sv"]
    assert sent == {
        "st": "2026-01-02T03:04:05Z",
        "se": "2026-01-02T04:04:05Z",
        "sp": permissions,
        "spr": "https",
        "sv": version,
        "sr": "d",
        "sdd": "3",
    }
    assert version >= "2020-12-06"
    assert signature == signed_with_account_key(sent, "/blob/acct/lake/wh/ns/t1")


REGIONAL = {"endpoint-mode": {"type": "regional", "region": "westus"}}
PRIVATE = {"endpoint-mode": {"type": "workspace-private-link"}}


@pytest.mark.parametrize("mode", [{}, REGIONAL, PRIVATE])
def test_onelake_is_one_account_for_every_host(mode: dict[str, Any]) -> None:
    sent = delegated_signature(onelake(**mode))
    assert sent["sig"] == signed_with_delegation_key(sent, f"/blob/onelake/{WORKSPACE}/wh/t1")


def test_a_signature_with_a_delegated_key() -> None:
    sent = delegated_signature(adls())
    assert (sent["skoid"], sent["sktid"], sent["sks"], sent["skv"]) == ("oid", "tid", "b", "2024-08-04")
    assert (sent["sr"], sent["sdd"], sent["sp"]) == ("d", "2", "rl")
    assert sent["sig"] == signed_with_delegation_key(sent, "/blob/acct/lake/wh/t1")


def delegated_signature(profile: AdlsProfile | OneLakeProfile) -> dict[str, str]:
    signer = delegation_key()
    return fields(azure_sas.directory_sas(profile, "wh/t1", FileAccess.READ, signer=signer, start=AT, expiry=EXPIRY))


@given(folders("*?$%" + PLAIN + UNICODE))
def test_the_path_is_signed_byte_by_byte(folder: str) -> None:
    token = azure_sas.directory_sas(adls(), folder, FileAccess.READ, signer=ACCOUNT_KEY, start=AT, expiry=EXPIRY)
    sent = fields(token)
    assert sent["sdd"] == str(folder.count("/") + 1)
    assert sent["sig"] == signed_with_account_key(sent, f"/blob/acct/lake/{folder}")


def vend(document: dict[str, Any], location: str, **members: Any) -> Vended:
    credential = read_credential(document)
    found = issue(adls(document, **members), credential, location=location, rights=FileAccess.READ)
    assert found is not None
    return found


@pytest.mark.parametrize(("seconds", "life"), [(3600, 3600), (604_800, 604_800), (1, 120), (119, 120), (121, 121)])
def test_how_long_it_lives(seconds: int, life: int) -> None:
    vended = vend(SHARED, "abfss://lake@acct.dfs.core.windows.net/wh/t1", **{"sas-token-validity-seconds": seconds})
    ((name, token),) = vended.config.items()
    assert name == "adls.sas-token.acct.dfs.core.windows.net"
    sent = fields(token)
    start, end = (datetime.fromisoformat(sent[each]) for each in ("st", "se"))
    assert end - start == timedelta(seconds=life)
    assert end == vended.expires_at
    assert timedelta(seconds=55) < now() - start < timedelta(seconds=70)
    assert token not in repr(vended)


@pytest.mark.parametrize(
    "location",
    [
        "abfss://lake@acct.dfs.core.windows.net/wh",
        "abfss://lake@acct.dfs.core.windows.net/wh2/t",
        "abfss://lake@acct.dfs.core.windows.net/",
        "abfss://lake2@acct.dfs.core.windows.net/wh/t",
        "abfss://lake@acct2.dfs.core.windows.net/wh/t",
        "abfss://lake@acct.dfs.core.windows.net/wh/%2e%2e/t",
        "abfss://lake@acct.dfs.core.windows.net/wh/%2F",
        "s3://lake/wh/t",
    ],
)
def test_nothing_is_signed_outside_the_warehouse(location: str) -> None:
    with pytest.raises(InvalidLocation):
        vend(SHARED, location)


def test_the_whole_container_is_rejected_as_folder() -> None:
    with pytest.raises(ValueError, match="whole container"):
        azure_sas.directory_sas(adls(), "", FileAccess.READ, signer=ACCOUNT_KEY, start=AT, expiry=EXPIRY)


@pytest.mark.parametrize("key", ["canary-key-that-is-none", "canary ü", "a"])
def test_a_key_that_cannot_sign(key: str) -> None:
    with pytest.raises(CredentialNotIssued) as refused:
        vend(SHARED | {"key": key}, "abfss://lake@acct.dfs.core.windows.net/wh/t1")
    assert "canary" not in refused.value.message


def test_onelake_has_no_account_key() -> None:
    with pytest.raises(UnsupportedCredential) as refused:
        issue(
            onelake(),
            read_credential(SHARED),
            location=f"abfss://{WORKSPACE}@onelake.dfs.fabric.microsoft.com/{LAKEHOUSE}/Files/t",
            rights=FileAccess.READ,
        )
    assert refused.value.status == 501


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("dfs.core.windows.net", "https://acct.blob.core.windows.net"),
        ("dfs.core.chinacloudapi.cn", "https://acct.blob.core.chinacloudapi.cn"),
        ("z12.dfs.storage.azure.net", "https://acct.z12.blob.storage.azure.net"),
    ],
)
def test_the_address_of_key_requests(host: str, url: str) -> None:
    assert account_url(adls(host=host)) == url


@pytest.mark.parametrize("mode", [{}, REGIONAL, PRIVATE])
def test_the_address_of_key_requests_of_onelake(mode: dict[str, Any]) -> None:
    assert account_url(onelake(**mode)) == "https://onelake.blob.fabric.microsoft.com"


# --- Entra ID and the account, as fakes -------------------------------------------------------------------------

KEY_RESPONSE = b"""<?xml version="1.0" encoding="utf-8"?><UserDelegationKey><SignedOid>oid</SignedOid>
<SignedTid>tid</SignedTid><SignedStart>2026-01-02T03:04:05Z</SignedStart><SignedExpiry>2026-01-02T09:04:05Z</SignedExpiry>
<SignedService>b</SignedService><SignedVersion>2024-08-04</SignedVersion><Value>Y2FuYXJ5IGRlbGVnYXRpb24ga2V5</Value>
</UserDelegationKey>"""
KEYS_AT, TOKENS_AT = "/", "/tenant-1/oauth2/v2.0/token"


@pytest.fixture
def azure_fake(tmp_path: Path, limit: Callable[..., None]) -> Iterator[FakeService]:
    """A fake of Entra ID and of the blob service of an account at one address, over TLS with the CA file of the
    warehouse.
    """
    with FakeService(tmp_path) as running:
        limit(ca_bundle=running.ca_file, retries=0)
        running.responses["/tenant-1/v2.0/.well-known/openid-configuration"] = [
            said({
                "issuer": f"{running.address}/tenant-1/v2.0",
                "token_endpoint": f"{running.address}{TOKENS_AT}",
                "authorization_endpoint": f"{running.address}/tenant-1/oauth2/v2.0/authorize",
            })
        ]  # fmt: skip
        running.responses[TOKENS_AT] = [
            said({"token_type": "Bearer", "expires_in": 3600, "access_token": "entra-token"})
        ]
        running.responses[KEYS_AT] = [Said(200, KEY_RESPONSE, "application/xml")]
        azure.token_credential.cache_clear()
        yield running


class AtFake(DelegationKeys):
    """Send requests for the account to the address of the fake; otherwise unchanged."""

    def __init__(self, service: FakeService) -> None:
        super().__init__()
        self.service = service
        self.asked: list[str] = []

    def fetch(self, account: str, credential: Any, *, start: datetime, expiry: datetime) -> UserDelegationKey:  # type: ignore[override]
        self.asked.append(account)
        return super().fetch(self.service.address, credential, start=start, expiry=expiry)


def delegated(keys: AtFake, *, folder: str = "t1", document: dict[str, Any] = APPLICATION, **members: Any) -> Vended:
    profile = adls(document, **{"authority-host": keys.service.address} | members)
    credential: Credential = read_credential(document)
    assert isinstance(credential, AzureClientCredentials | AzureSystemIdentity)
    return azure_sas.issue(
        profile, credential, location=f"{profile.location}/{folder}", rights=FileAccess.READ, keys=keys
    )


def test_a_key_is_requested_once(azure_fake: FakeService) -> None:
    keys = AtFake(azure_fake)
    one, other = delegated(keys, folder="t1"), delegated(keys, folder="t2/x")
    sent = fields(one.config["adls.sas-token.acct.dfs.core.windows.net"])
    assert sent["sig"] == signed_with_delegation_key(sent, "/blob/acct/lake/wh/t1")
    sent = fields(other.config["adls.sas-token.acct.dfs.core.windows.net"])
    assert sent["sig"] == signed_with_delegation_key(sent, "/blob/acct/lake/wh/t2/x")
    assert keys.asked == ["https://acct.blob.core.windows.net"]
    (token,) = [asked for asked in azure_fake.asked if asked.path == TOKENS_AT]
    assert token.form["client_id"] == "app"
    assert token.form["client_secret"] == "canary-client-secret"
    assert token.form["grant_type"] == "client_credentials"
    assert token.form["scope"] == "https://storage.azure.com/.default"
    (key,) = [asked for asked in azure_fake.asked if asked.path == KEYS_AT]
    assert (key.method, key.query) == ("POST", {"restype": "service", "comp": "userdelegationkey"})
    assert key.headers["Authorization"] == "Bearer entra-token"
    assert b"<Start>" in key.body
    assert b"<Expiry>" in key.body


def test_a_key_that_ends_too_soon_is_not_used(azure_fake: FakeService) -> None:
    keys = AtFake(azure_fake)
    delegated(keys, **{"sas-token-validity-seconds": 3600})
    delegated(keys, **{"sas-token-validity-seconds": 12 * 3600})
    assert len(keys.asked) == 1
    delegated(keys, **{"sas-token-validity-seconds": 604_800})
    assert len(keys.asked) == 2


def test_another_secret_gets_another_key(azure_fake: FakeService) -> None:
    keys = AtFake(azure_fake)
    delegated(keys)
    delegated(keys, document=APPLICATION | {"client-secret": "canary-other"})
    assert len(keys.asked) == 2
    assert {a.form["client_secret"] for a in azure_fake.asked if a.path == TOKENS_AT} == {
        "canary-client-secret",
        "canary-other",
    }


REFUSED = {"error": "invalid_client", "error_description": "AADSTS7000215: canary secret", "error_codes": [7000215]}
XML = "application/xml"
FORBIDDEN = b"<Error><Code>AuthorizationPermissionMismatch</Code><Message>canary</Message></Error>"


@pytest.mark.parametrize(
    ("path", "response", "reported"),
    [
        (TOKENS_AT, said(REFUSED, 401), "AADSTS7000215"),
        (TOKENS_AT, said({"error": "canary"}, 400), "ClientAuthenticationError"),
        (KEYS_AT, Said(403, FORBIDDEN, XML), "AuthorizationPermissionMismatch"),
        (KEYS_AT, Said(200, b"<canary", XML), "DecodeError"),
        (KEYS_AT, Said(200, b"<UserDelegationKey/>", XML), "no delegation key"),
        (KEYS_AT, Said(200, KEY_RESPONSE.replace(b"Y2Fu", b"%%%%"), XML), "no delegation key"),
        (KEYS_AT, Said(302, location="/elsewhere"), "HttpResponseError"),
    ],
)  # fmt: skip
def test_an_error(
    azure_fake: FakeService, caplog: pytest.LogCaptureFixture, path: str, response: Said, reported: str
) -> None:
    caplog.set_level(logging.INFO)
    azure_fake.responses[path] = [response]
    with pytest.raises(CredentialNotIssued) as refused:
        delegated(AtFake(azure_fake))
    assert refused.value.status == 412
    assert reported in refused.value.message
    assert "canary" not in refused.value.message
    assert "canary-client-secret" not in caplog.text  # the SDK itself logs errors of Entra ID
    assert "entra-token" not in caplog.text
    assert "/elsewhere" not in {asked.path for asked in azure_fake.asked}


@pytest.mark.parametrize("status", [500, 503])
def test_entra_id_fails(azure_fake: FakeService, status: int) -> None:
    azure_fake.responses[TOKENS_AT] = [Said(status)]
    with pytest.raises(StoreUnavailable):
        delegated(AtFake(azure_fake))


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_failure_passes_or_stays(azure_fake: FakeService, limit: Callable[..., None], status: int) -> None:
    azure_fake.responses[KEYS_AT] = [Said(status)]
    with pytest.raises(StoreUnavailable, match=f"status {status}"):
        delegated(AtFake(azure_fake))
    limit(ca_bundle=azure_fake.ca_file, retries=1)
    azure_fake.responses[KEYS_AT] = [Said(status), Said(200, KEY_RESPONSE, XML)]
    delegated(AtFake(azure_fake))


def test_an_untrusted_certificate_is_rejected(azure_fake: FakeService, limit: Callable[..., None]) -> None:
    limit(ca_bundle=None, retries=0)
    with pytest.raises(StoreUnavailable):
        delegated(AtFake(azure_fake))
    assert azure_fake.asked == []


@pytest.mark.parametrize("tenant", ["../evil", "a/b", "a b"])
def test_a_tenant_that_is_none(azure_fake: FakeService, tenant: str) -> None:
    with pytest.raises(CredentialNotIssued):
        delegated(AtFake(azure_fake), document=APPLICATION | {"tenant-id": tenant})
    assert azure_fake.asked == []


def test_this_servers_identity_is_shown_to_azure_only(azure_fake: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warehouse that names an authority or host would receive the secret or token of the server."""
    monkeypatch.setattr(
        settings,
        "ICEKEEPER",
        settings.ICEKEEPER.model_copy(update={"enable_azure_system_credentials": True}),
    )
    keys = AtFake(azure_fake)
    own = AzureSystemIdentity.model_construct(type="az", credential_type="azure-system-identity")
    for host in ("evil.example.com", "dfs.core.windows.net.evil.com", "core.windows.net.evil"):
        profile = adls(APPLICATION, host=host)  # as an earlier version stored it
        with pytest.raises(CredentialNotIssued, match="hosts of Azure only"):
            azure_sas.issue(profile, own, location=f"{profile.location}/t", rights=FileAccess.READ, keys=keys)
    assert (keys.asked, azure_fake.asked) == ([], [])
    profile = adls(SYSTEM, **{"authority-host": azure_fake.address})
    assert azure._authority(profile, own) is None
