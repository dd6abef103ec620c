"""Storage profiles `adls` and `onelake`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings

from icekeeper.kernel.errors.types import CatalogError
from storage.credentials import read_credential
from storage.profiles.kinds import read_profile
from storage.profiles.location import build_location_key
from storage.profiles.profile import max_credential_lifetime

ADLS: dict[str, Any] = {"type": "adls", "filesystem": "my-files", "account-name": "account1"}
WORKSPACE, LAKEHOUSE = "0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44", "0198e0f4-3f6e-7c31-8c7d-000000000001"
ONELAKE: dict[str, Any] = {"type": "onelake", "workspace-id": WORKSPACE, "lakehouse-id": LAKEHOUSE}
CLIENT = {
    "type": "az", "credential-type": "client-credentials", "client-id": "c", "tenant-id": "t", "client-secret": "s",
}  # fmt: skip
SHARED = {"type": "az", "credential-type": "shared-access-key", "key": "k"}
SYSTEM = {"type": "az", "credential-type": "azure-system-identity"}


def stored(document: dict[str, Any], credential: dict[str, Any] | None = CLIENT) -> dict[str, Any]:
    return read_profile(document, credential and read_credential(credential)).as_json()


def location(document: dict[str, Any]) -> str:
    return read_profile(document, read_credential(CLIENT)).location


def error(document: dict[str, Any], credential: dict[str, Any] | None = CLIENT) -> str:
    with pytest.raises(CatalogError) as refused:
        stored(document, credential)
    assert refused.value.status == 400
    return refused.value.wire_type


def test_adls_is_shown_with_its_defaults() -> None:
    assert location(ADLS) == "abfss://my-files@account1.dfs.core.windows.net"
    assert location(ADLS | {"key-prefix": "/a/b/", "host": ""}).endswith(".dfs.core.windows.net/a/b")
    once = stored(ADLS)
    assert once == {
        "type": "adls",
        "filesystem": "my-files",
        "account-name": "account1",
        "key-prefix": None,
        "host": None,
        "authority-host": None,
        "sas-enabled": True,
        "sas-token-validity-seconds": None,
        "allow-alternative-protocols": False,
        "storage-layout": None,
    }
    assert stored(once) == stored(once | {"type": "azdls"}) == once
    assert stored(dict.fromkeys(once, None) | ADLS | {"unknown": 1}) == once


@pytest.mark.parametrize(
    ("change", "wire_type"),
    [
        *(({"filesystem": name}, "Invalidfilesystem") for name in ("ab", "a--b", "-ab", "A-b", "a.b", "x" * 64)),
        *(({"account-name": name}, "Invalidaccount-name") for name in ("ab", "a-b", "Abc", "x" * 25)),
        *(({"host": name}, "Invalidhost") for name in ("a/b", "a b", "-a.b", "a..b", "a:80", "https://h")),
        *(({"key-prefix": text}, "Invalidkey-prefix") for text in ("x" * 513, "a//b", "..", "a\x1f")),
        ({"key-prefix": "a/%2E%2E/b"}, "InvalidLocation"),
        ({"key-prefix": "a/%20/b"}, "InvalidLocation"),
        ({"authority-host": "nothing"}, "Invalidauthority-host"),
        ({"filesystem": None}, "BadRequestException"),
        ({"account-name": 7}, "BadRequestException"),
        ({"sas-token-validity-seconds": 0}, "BadRequestException"),
        ({"sas-token-validity-seconds": 604_801}, "BadRequestException"),
        ({"sas-enabled": "true"}, "BadRequestException"),
    ],
)
def test_adls_refuses(change: dict[str, Any], wire_type: str) -> None:
    assert error(ADLS | change) == wire_type


def test_azure_needs_an_azure_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = settings.ICEKEEPER.model_copy(update={"skip_storage_validation": False})
    monkeypatch.setattr(settings, "ICEKEEPER", asking)
    key = {"type": "s3", "credential-type": "access-key", "access-key-id": "a", "secret-access-key": "s"}
    for profile in (ADLS, ONELAKE):
        assert error(profile, None) == "MissingCredentialError"
        assert error(profile, key) == "InvalidStorageCredential"
        assert error(profile, SYSTEM) == "SystemIdentityDisabled"
    assert stored(ADLS, SHARED) == stored(ADLS)
    assert error(ONELAKE, SHARED) == "InvalidStorageCredential"


def test_the_identity_of_the_server_is_used_where_the_settings_allow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = settings.ICEKEEPER.model_copy(update={"enable_azure_system_credentials": True})
    monkeypatch.setattr(settings, "ICEKEEPER", allowed)
    assert stored(ADLS, SYSTEM) == stored(ADLS)
    assert stored(ONELAKE, SYSTEM) == stored(ONELAKE)
    for host in ("dfs.core.chinacloudapi.cn", "dfs.core.usgovcloudapi.net", "z7.dfs.storage.azure.net"):
        assert stored(ADLS | {"host": host}, SYSTEM) == stored(ADLS | {"host": host})


@pytest.mark.parametrize(
    "host",
    ["blob.core.windows.net", "core.windows.net", "dfs.core.windows.net.evil.com", "z7.blob.storage.azure.net",
     "privatelink.dfs.core.windows.net", "dfs.fabric.microsoft.com", "blob.fabric.microsoft.com", "evil.com"],
)  # fmt: skip
def test_with_the_identity_of_the_server_nothing_has_a_second_name(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = settings.ICEKEEPER.model_copy(update={"enable_azure_system_credentials": True})
    monkeypatch.setattr(settings, "ICEKEEPER", allowed)
    assert error(ADLS | {"host": host}, SYSTEM) == "Invalidhost"
    assert stored(ADLS | {"host": host})["host"] == host


def test_onelake_is_shown_with_its_defaults() -> None:
    once = stored(ONELAKE | {"workspace-id": WORKSPACE.upper()})
    assert once == {
        "type": "onelake",
        "workspace-id": WORKSPACE,
        "lakehouse-id": LAKEHOUSE,
        "top-level-folder": "Files",
        "directory-rel-path": None,
        "endpoint-mode": {"type": "default"},
        "authority-host": None,
        "sas-enabled": True,
        "sas-token-validity-seconds": None,
        "storage-layout": None,
    }
    assert stored(once) == once


@pytest.mark.parametrize(
    ("change", "host", "path"),
    [
        ({}, "onelake", "Files"),
        ({"top-level-folder": "Tables"}, "onelake", "Tables"),
        ({"directory-rel-path": "/a/b/"}, "onelake", "Files/a/b"),
        ({"endpoint-mode": {"type": "regional", "region": " WestUS "}}, "westus-onelake", "Files"),
        (
            {"endpoint-mode": {"type": "workspace-private-link"}},
            "0198e0f43f6e7c318c7d9b7b8f2a1d44.z01",
            "Files",
        ),
    ],
)
def test_where_a_lakehouse_is(change: dict[str, Any], host: str, path: str) -> None:
    assert location(ONELAKE | change) == f"abfss://{WORKSPACE}@{host}.dfs.fabric.microsoft.com/{LAKEHOUSE}/{path}"


@pytest.mark.parametrize(
    ("change", "wire_type"),
    [
        ({"workspace-id": "x"}, "Invalidworkspace-id"),
        ({"lakehouse-id": LAKEHOUSE.replace("-", "")}, "Invalidlakehouse-id"),
        ({"directory-rel-path": ""}, "Invaliddirectory-rel-path"),
        ({"directory-rel-path": "/"}, "Invaliddirectory-rel-path"),
        ({"directory-rel-path": "a/../b"}, "Invaliddirectory-rel-path"),
        ({"directory-rel-path": "a%20b"}, "Invaliddirectory-rel-path"),
        ({"directory-rel-path": "x" * 513}, "Invaliddirectory-rel-path"),
        ({"endpoint-mode": {"type": "regional"}}, "BadRequestException"),
        ({"endpoint-mode": {"type": "regional", "region": "west.us"}}, "BadRequestException"),
        ({"endpoint-mode": {"type": "global"}}, "BadRequestException"),
        ({"endpoint-mode": "default"}, "BadRequestException"),
        ({"top-level-folder": "files"}, "BadRequestException"),
        ({"sas-token-validity-seconds": 3601}, "BadRequestException"),
        ({"storage-layout": {"type": "tabular-only", "tabular": "{uuid}"}}, "BadRequestException"),
    ],
)
def test_onelake_refuses(change: dict[str, Any], wire_type: str) -> None:
    assert error(ONELAKE | change) == wire_type


GIVEN = {"authority-host": "https://login.microsoftonline.com/", "sas-token-validity-seconds": 3600}


@pytest.mark.parametrize("document", [ADLS | GIVEN | {"host": "dfs.core.windows.net"}, ONELAKE | GIVEN])
def test_defaults_that_are_given_are_shown_and_mean_the_same(document: dict[str, Any]) -> None:
    given = stored(document)
    assert given.items() >= document.items()
    left_out = {name: value for name, value in document.items() if name not in {*GIVEN, "host"}}
    short = stored(left_out)
    assert {name for name in given if given[name] != short[name]} == document.keys() - left_out.keys()
    assert build_location_key(given, location(document)) == build_location_key(short, location(left_out))
    assert location(document) == location(left_out)
    credential = read_credential(CLIENT)
    for before, after in ((given, left_out), (short, document)):
        assert read_profile(after, credential, before=before).as_json() == stored(after), "an update"
    assert max_credential_lifetime(short) == max_credential_lifetime(given) == timedelta(hours=1)


@pytest.mark.parametrize(
    ("before", "change"),
    [
        (ADLS, {"filesystem": "other-files"}),
        (ADLS, {"account-name": "account2"}),
        (ADLS, {"key-prefix": "a"}),
        (ADLS, {"host": "dfs.core.usgovcloudapi.net"}),
        (ADLS, {"authority-host": "https://login.microsoftonline.us"}),
        (ONELAKE, {"workspace-id": LAKEHOUSE}),
        (ONELAKE, {"lakehouse-id": WORKSPACE}),
        (ONELAKE, {"top-level-folder": "Tables"}),
        (ONELAKE, {"directory-rel-path": "a"}),
        (ONELAKE, {"endpoint-mode": {"type": "workspace-private-link"}}),
    ],
)
def test_files_do_not_move(before: dict[str, Any], change: dict[str, Any]) -> None:
    credential = read_credential(CLIENT)
    with pytest.raises(CatalogError, match="cannot be updated") as refused:
        read_profile(before | change, credential, before=stored(before))
    assert refused.value.wire_type == "UpdateError"
    free = {"sas-enabled": False, "sas-token-validity-seconds": 60}
    assert read_profile(before | free, credential, before=stored(before)).as_json() == stored(before) | free
