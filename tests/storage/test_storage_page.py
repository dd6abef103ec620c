"""`docs/storage.md`: profiles are valid, policies equal those that are sent, output and errors are as shown."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from storage.credentials import read_credential
from storage.identity.keys import Keys
from storage.io.stores import open_vended_store
from storage.profiles.kinds import read_profile
from storage.profiles.s3 import S3Profile
from storage.services.warehouses import create_warehouse
from storage.vending.delegation import FileAccess
from storage.vending.gcs_boundary import access_boundary
from storage.vending.s3_sts import s3_policy, vended_keys
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project
from tests.catalog_fixtures import SCHEMA
from tests.harness.page_transcripts import blocks_of, commands_of
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import keep_secrets, use_settings
from tests.parts.minio import Minio
from tests.signing_fixtures import KEY, new_warehouse, s3_profile
from tests.storage.cloud_fixtures import Cloud

PAGE = Path(__file__).parents[2] / "docs" / "storage.md"
BLOCKS = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)]
STORAGES = [block for block in BLOCKS if "storage-profile" in block]
OWN, _TRUST, CLIENTS = (block for block in BLOCKS if "Statement" in block)


@pytest.mark.parametrize("storage", STORAGES, ids=lambda storage: storage["storage-credential"]["credential-type"])
def test_each_profile_and_its_credential_can_be_read(storage: dict[str, Any]) -> None:
    credential = read_credential(storage["storage-credential"])
    profile = read_profile(storage["storage-profile"], credential)
    assert profile.type == storage["storage-profile"]["type"]


def test_every_type_and_every_kind_of_credential_has_one_but_the_servers_own() -> None:
    assert {storage["storage-profile"]["type"] for storage in STORAGES} == {"s3", "stackit", "adls", "onelake", "gcs"}
    assert {storage["storage-credential"]["credential-type"] for storage in STORAGES} == {
        "access-key", "cloudflare-r2", "aliyun-oss", "client-credentials", "shared-access-key", "service-account-key",
    }  # fmt: skip


def test_the_policy_of_clients_is_the_one_that_is_sent() -> None:
    storage = STORAGES[0]
    profile = read_profile(storage["storage-profile"], read_credential(storage["storage-credential"]))
    assert isinstance(profile, S3Profile)
    folder = CLIENTS["Statement"][0]["Resource"].removeprefix("arn:aws:s3:::lake/").removesuffix("/*")
    assert json.loads(s3_policy(profile, folder, FileAccess.READ_WRITE)) == CLIENTS


def test_the_boundary_of_google_is_the_one_that_is_sent() -> None:
    [shown] = [block for block in BLOCKS if "availableResource" in block]
    sent = access_boundary("lake", "warehouse/t1", FileAccess.READ_WRITE).to_json()
    assert sent["accessBoundary"]["accessBoundaryRules"] == [shown]


@pytest.mark.django_db
def test_the_catalogs_policy_is_enough_for_the_catalog(minio: Minio, bucket: str) -> None:
    """As a session policy: creating a MinIO user needs another API than S3."""
    policy = json.dumps(OWN).replace(":::lake", f":::{bucket}")
    vended = minio.client("sts").assume_role(RoleSessionName="catalog", DurationSeconds=3600, Policy=policy)[
        "Credentials"
    ]
    keys = Keys(vended["AccessKeyId"], vended["SecretAccessKey"], vended["SessionToken"], vended["Expiration"])
    profile = read_profile(minio.profile(bucket, "warehouse"), read_credential(minio.credential))
    store = open_vended_store(profile, vended_keys(keys))
    locations = [f"{profile.location}/t/metadata/{number}" for number in range(3)]
    for location in locations:
        store.put_new(location, b"content")
    assert store.get(locations[0], limit=7) == b"content"
    store.delete(locations[0])
    assert not store.is_empty(f"{profile.location}/t", ignore=lambda _: False)
    store.delete_below(f"{profile.location}/t", lambda: None)
    assert minio.keys(bucket) == []


@pytest.mark.django_db
def test_the_checks_of_a_cloud_are_the_ones_that_are_shown(
    bootstrapped: None, monkeypatch: pytest.MonkeyPatch, cloud: Cloud
) -> None:
    kind = cloud.profile["type"]
    vending = {"adls": "sas-enabled", "gcs": "sts-enabled"}[kind]
    command = {"adls": "check_storage azurite", "gcs": "check_storage gcs"}[kind]
    printed = _checks_of(monkeypatch, cloud.profile | {vending: False}, cloud.credential)
    assert printed == _timeless(_shown(command))
    assert cloud.list_names() == []


@pytest.mark.django_db
def test_the_checks_of_minio_are_the_ones_that_are_shown(
    bootstrapped: None, monkeypatch: pytest.MonkeyPatch, minio: Minio, bucket: str
) -> None:
    printed = _checks_of(monkeypatch, minio.profile(bucket, "warehouse"), minio.credential)
    assert printed == _timeless(_shown("check_storage minio"))


@pytest.mark.django_db
def test_the_error_of_a_location_with_a_pattern_is_the_one_that_is_shown(
    bootstrapped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_secrets(monkeypatch)
    use_settings(monkeypatch, skip_storage_validation=True)
    profile = s3_profile(**{"bucket": "lake", "key-prefix": "warehouse", "sts-enabled": True})
    catalog = ApiClient(f"/catalog/v1/{new_warehouse(profile, KEY).pk}")
    assert catalog.post("/namespaces", {"namespace": ["shop"]}).status == 200
    body = {"name": "star", "schema": SCHEMA, "location": "s3://lake/warehouse/a*b"}
    response = catalog.post("/namespaces/shop/tables", body)
    [line] = _shown('"name": "star"')
    shown = json.loads(line)["error"]
    assert response.error | {"stack": None} == shown | {"stack": None}
    assert response.status == shown["code"]


def _shown(part_of_command: str) -> list[str]:
    """Return the block that the page shows below the only command that contains this text."""
    commands = [each for kind, block in blocks_of(PAGE.read_text()) if kind == "console" for each in commands_of(block)]
    [command] = [each for each in commands if part_of_command in each.text]
    return command.response


def _checks_of(monkeypatch: pytest.MonkeyPatch, profile: dict[str, Any], credential: dict[str, Any]) -> list[str]:
    """Return the output of `check_storage` for a new warehouse."""
    keep_secrets(monkeypatch)
    create_warehouse(
        actor=INTERNAL, project=get_project(None), name="w", storage_profile=profile, storage_credential=credential
    )
    out = StringIO()
    call_command("check_storage", "w", stdout=out)
    return _timeless(out.getvalue().splitlines())


def _timeless(lines: list[str]) -> list[str]:
    """Return the storage type and its checks without durations and without the location, which differs in each run."""
    [first, *checks] = lines
    return [first.split()[0], *(re.sub(r"\(\d+ ms\)", "", check) for check in checks)]
