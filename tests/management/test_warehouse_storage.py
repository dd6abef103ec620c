"""Update storage profiles and credentials of existing warehouses, without leaking a secret."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from icekeeper.logs import JsonFormatter
from storage.io.stores import store_for
from storage.models import Secret, Warehouse, WarehouseStorage
from storage.secrets.port import SecretMissing
from storage.secrets.stores import CredentialChanged, secret_store, stored_credential
from storage.vending.delegation import FileAccess
from storage.vending.vend import vend
from tests.harness.fingerprint import Fingerprint
from tests.harness.threads import at_once
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import KEY, S3, keep_secrets, use_settings
from tests.storage.test_credentials import ALL
from tests.storage.test_profiles_azure import ADLS, ONELAKE
from tests.storage.test_profiles_gcs import GCS
from tests.storage.test_profiles_s3 import GROUP, STACKIT

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
in_threads = pytest.mark.django_db(transaction=True, serialized_rollback=True)

api = ApiClient("/management/v1")
CANARY = "canary-7f3a"
URIS = ("token_uri", "auth_uri")
NEW_KEY = KEY | {"secret-access-key": "another-secret"}


@pytest.fixture
def own(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> ApiClient:
    """A client of a warehouse on S3 with a key."""
    keep_secrets(monkeypatch)
    created = api.post("/warehouse", {"warehouse-name": "wh", "storage-profile": S3, "storage-credential": KEY})
    assert created.status == 201, created.body
    return ApiClient(f"/management/v1/warehouse/{created.json()['id']}")


def credential() -> dict[str, Any] | None:
    """Return the stored credential of the only warehouse."""
    secret_id = Warehouse.objects.get().secret_id
    assert [row.pk for row in Secret.objects.all()] == ([] if secret_id is None else [secret_id])
    return None if secret_id is None else secret_store().get(secret_id)


def credential_type(own: ApiClient) -> Any:
    return own.get().json()["storage-credential-type"]


def test_a_credential_is_replaced_and_removed(own: ApiClient) -> None:
    before = own.get().json()
    assert credential() == KEY
    response = own.post("/storage-credential", {"new-storage-credential": NEW_KEY})
    assert (response.status, response.json()) == (200, own.get().json())
    assert credential() == NEW_KEY
    assert Warehouse.objects.get().version == 2
    r2 = KEY | {"credential-type": "cloudflare-r2", "token": "t", "account-id": "i"}
    assert own.post("/storage-credential", {"new-storage-credential": r2}).refused(400, "Invalidendpoint")
    assert credential() == NEW_KEY
    for body in ({}, {"new-storage-credential": None}):
        assert own.post("/storage-credential", body).json()["storage-credential-type"] is None
        assert credential() is None
    assert own.get().json()["storage-profile"] == before["storage-profile"]


def test_a_profile_is_replaced_with_its_credential(own: ApiClient) -> None:
    layout = {"type": "full-hierarchy", "namespace": "{name}", "tabular": "{uuid}"}
    first = S3 | {"storage-layout": layout, "path-style-access": True}
    body = {"storage-profile": first, "storage-credential": NEW_KEY}
    response = own.post("/storage", body)
    assert (response.status, response.json()) == (200, own.get().json())
    assert first.items() <= response.json()["storage-profile"].items()
    assert credential() == NEW_KEY
    without = own.post("/storage", {"storage-profile": S3 | {"endpoint": "http://minio:9000", "region": "eu-2"}}).json()
    assert credential() is None
    assert without["storage-credential-type"] is None
    profile = without["storage-profile"]
    assert (profile["storage-layout"], profile["path-style-access"]) == (layout, None)
    assert (profile["endpoint"], profile["region"]) == ("http://minio:9000/", "eu-2")
    assert Warehouse.objects.get().version == 3


@pytest.mark.parametrize(
    ("profile", "wire_type"),
    [
        (S3 | {"bucket": "other-bucket"}, "UpdateError"),
        (S3 | {"key-prefix": "other"}, "UpdateError"),
        (S3 | {"region": "eu-2"}, "UpdateError"),
        (S3 | {"bucket": "x"}, "Invalidbucket"),
        (S3 | {"sts-enabled": True}, "Invalidsts-role-arn"),
        (S3 | {"type": "stackit"}, "IncompatibleProfiles"),
        ({"type": "gcs", "bucket": "my-bucket"}, "IncompatibleProfiles"),
        ({"type": "local", "path": "/x"}, "InvalidLocation"),
        ({"type": "nothing"}, "BadRequestException"),
        ({}, "BadRequestException"),
    ],
)
def test_storage_that_is_refused(
    own: ApiClient, everything: Callable[[], Fingerprint], profile: dict[str, Any], wire_type: str
) -> None:
    before = everything()
    response = own.post("/storage", {"storage-profile": profile, "storage-credential": NEW_KEY})
    assert response.refused(400, wire_type)
    assert everything() == before


def test_an_update_may_not_overlap_another_warehouse(own: ApiClient, everything: Callable[[], Fingerprint]) -> None:
    at_minio = S3 | {"endpoint": "http://minio:9000"}
    assert api.post("/warehouse", {"warehouse-name": "other", "storage-profile": at_minio}).status == 201
    before = everything()
    assert own.post("/storage", {"storage-profile": at_minio}).refused(400, "CreateWarehouseStorageProfileOverlap")
    assert everything() == before


def test_storage_of_a_local_warehouse(warehouse: Warehouse, everything: Callable[[], Fingerprint]) -> None:
    own = ApiClient(f"/management/v1/warehouse/{warehouse.pk}")
    profile = warehouse.storage_profile
    changed = own.post("/storage", {"storage-profile": profile | {"verify-metadata-on-load": False}}).json()
    assert changed["storage-profile"] == profile | {"verify-metadata-on-load": False}
    before = everything()
    elsewhere = profile | {"path": str(Path(profile["path"]).with_name("other"))}
    assert own.post("/storage", {"storage-profile": elsewhere}).refused(400, "UpdateError", "path")
    body = {"storage-profile": profile, "storage-credential": KEY}
    assert own.post("/storage", {"storage-profile": S3}).refused(400, "IncompatibleProfiles", "local")
    if connection.vendor == "sqlite":
        assert own.post("/storage", body).refused(400, "InvalidStorageCredential")
    assert own.post("/storage", {"storage-profile": profile | {"more": 1}}).refused(400, "BadRequestException", "more")
    assert everything() == before


def test_azure_and_google_keep_a_credential(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_secrets(monkeypatch)
    fitting = [(ADLS, "shared-access-key"), (ONELAKE, "client-credentials"), (GCS, "service-account-key")]
    for profile, kind in fitting:
        [given] = [each for each in ALL if each["credential-type"] == kind]
        body = {"warehouse-name": kind, "storage-profile": profile, "storage-credential": given}
        assert api.post("/warehouse", body | {"storage-credential": None}).refused(400, "MissingCredentialError")
        created = api.post("/warehouse", body).json()
        assert created["storage-credential-type"] == {"type": given["type"], "credential-type": kind}
        own = ApiClient(f"/management/v1/warehouse/{created['id']}")
        assert own.post("/storage-credential", {}).refused(400, "MissingCredentialError")
        assert credential_type(own) == created["storage-credential-type"]


ASKING: dict[str, Callable[[WarehouseStorage], object]] = {
    "store": store_for,
    "vend": lambda storage: vend(
        replace(storage, profile=storage.profile | {"sts-enabled": True}),
        location="s3://my-bucket/wh/t",
        rights=FileAccess.READ,
    ),
    "credential": lambda storage: stored_credential(storage.secret_id),
}


@pytest.mark.parametrize("change", ["other", "none", "deleted"])
@pytest.mark.parametrize("asking", ASKING)
def test_readers_of_a_warehouse_before_its_credential_changed_must_reload(
    own: ApiClient, asking: str, change: str
) -> None:
    before = Warehouse.objects.get().storage
    if change == "deleted":
        assert own.delete().status == 204
    else:
        body = {"new-storage-credential": NEW_KEY} if change == "other" else {}
        assert own.post("/storage-credential", body).status == 200
    with pytest.raises(CredentialChanged) as refused:
        ASKING[asking](before)
    assert (refused.value.status, refused.value.retry_after) == (503, 2)
    assert str(before.secret_id) not in refused.value.message
    if change == "other":
        assert stored_credential(Warehouse.objects.get().secret_id)


def test_a_credential_that_is_lost_is_no_change(own: ApiClient) -> None:
    Secret.objects.all().delete()
    with pytest.raises(SecretMissing):
        stored_credential(Warehouse.objects.get().secret_id)


def test_the_secret_is_deleted_with_the_warehouse(own: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the server can no longer decrypt it."""
    use_settings(monkeypatch, pg_encryption_key=None)
    assert own.delete().status == 204
    assert not Secret.objects.exists()


def test_a_refused_warehouse_leaves_no_secret(own: ApiClient, everything: Callable[[], Fingerprint]) -> None:
    before = everything()
    body = {"warehouse-name": "other", "storage-profile": S3, "storage-credential": NEW_KEY}
    assert api.post("/warehouse", body).refused(400, "CreateWarehouseStorageProfileOverlap")
    elsewhere = S3 | {"key-prefix": "other"}
    assert api.post("/warehouse", body | {"warehouse-name": "WH", "storage-profile": elsewhere}).refused(
        409, "WarehouseAlreadyExists"
    )
    assert everything() == before


def test_without_a_key_nothing_is_kept_on_postgresql(
    bootstrapped: None, everything: Callable[[], Fingerprint], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings(monkeypatch, pg_encryption_key=None)
    body = {"warehouse-name": "wh", "storage-profile": S3}
    before = everything()
    with_key = api.post("/warehouse", body | {"storage-credential": KEY})
    if connection.vendor == "sqlite":
        assert with_key.status == 201
        assert credential() == KEY
        return
    assert with_key.refused(412, "SecretStoreNotConfigured", "LAKEKEEPER__PG_ENCRYPTION_KEY")
    assert everything() == before
    own = ApiClient(f"/management/v1/warehouse/{api.post('/warehouse', body).json()['id']}")
    before = everything()
    for response in (
        own.post("/storage-credential", {"new-storage-credential": KEY}),
        own.post("/storage", {"storage-profile": S3, "storage-credential": KEY}),
    ):
        assert response.refused(412, "SecretStoreNotConfigured")
    assert everything() == before


@in_threads
def test_concurrent_credential_updates_keep_one_secret(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_secrets(monkeypatch)
    created = api.post("/warehouse", {"warehouse-name": "wh", "storage-profile": S3, "storage-credential": KEY}).json()
    own = ApiClient(f"/management/v1/warehouse/{created['id']}")
    for number in range(6):
        keys = [KEY | {"secret-access-key": f"{number}-{which}"} for which in "abc"]
        responses = at_once(
            lambda: own.post("/storage-credential", {"new-storage-credential": keys[0]}),  # noqa: B023
            lambda: own.post("/storage-credential", {"new-storage-credential": keys[1]}),  # noqa: B023
            lambda: own.post("/storage", {"storage-profile": S3, "storage-credential": keys[2]}),  # noqa: B023
        )
        assert [response.status for response in responses] == [200] * 3
        assert credential() in keys
    assert Warehouse.objects.get().version == 19


class Kept(logging.Handler):
    """Record every log line as the server writes it."""

    def __init__(self) -> None:
        super().__init__(level=logging.DEBUG)
        self.setFormatter(JsonFormatter())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record) + repr(vars(record)))


def with_canaries(document: dict[str, Any]) -> dict[str, Any]:
    """Return the credential with a secret in each member except those that name its type; addresses stay addresses."""
    secret: dict[str, Any] = {}
    for member, value in document.items():
        if isinstance(value, dict):
            secret[member] = dict.fromkeys(value, CANARY) | dict.fromkeys(URIS, f"https://{CANARY}.example.com/")
            secret[member]["universe_domain"] = f"{CANARY}.example.com"
        else:
            secret[member] = value if member in {"type", "credential-type"} else CANARY
    return secret


PROFILES: dict[str, dict[str, Any]] = {
    "s3": S3 | {"endpoint": "http://minio:9000", "assume-role-arn": "arn:x"},
    "stackit": STACKIT | {"credentials-group-urn": GROUP},
    "az": ADLS,
    "gcs": GCS,
}


@pytest.mark.parametrize("given", ALL)
def test_a_secret_is_in_no_response_no_log_line_and_no_row(
    bootstrapped: None, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    keep_secrets(monkeypatch)
    use_settings(
        monkeypatch,
        enable_aws_system_credentials=True,
        enable_azure_system_credentials=True,
        enable_gcp_system_credentials=True,
    )
    secret, kept = with_canaries(given), Kept()
    loggers = [logging.getLogger(), logging.getLogger("django.db.backends")]
    for logger in loggers:
        logger.addHandler(kept)
        monkeypatch.setattr(logger, "level", logging.DEBUG)
    logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]
    profile = PROFILES[given["type"]]
    if given["credential-type"] == "aws-system-identity":
        profile = profile | {"endpoint": None}  # the server's own identity works with AWS only
    body = {"warehouse-name": "wh", "storage-profile": profile, "storage-credential": secret}
    try:
        responses = [api.post("/warehouse", body), *hostile_requests(body, secret)]
    finally:
        for logger in loggers:
            logger.removeHandler(kept)
        logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]
    assert responses[0].status == 201, responses[0].body
    assert {response.status for response in responses} <= {200, 201, 400, 409}
    reported = b"".join(response.body + repr(response.headers).encode() for response in responses)
    assert CANARY.encode() not in reported
    assert kept.lines
    assert CANARY not in "".join(kept.lines)
    assert CANARY.encode() not in rows()
    assert Warehouse.objects.get().secret_id is not None


def hostile_requests(body: dict[str, Any], secret: dict[str, Any]) -> list[Response]:
    """Requests with the secret in valid, invalid and malformed forms."""
    own = ApiClient(f"/management/v1/warehouse/{Warehouse.objects.get().pk}")
    responses = [api.get("/warehouse"), own.get(), own.post("/storage-credential", {"new-storage-credential": secret})]
    responses.append(own.post("/storage", {"storage-profile": body["storage-profile"], "storage-credential": secret}))
    wrong: list[Any] = [CANARY, [CANARY], {CANARY: CANARY}, {"type": CANARY}, {"type": [CANARY]}]
    for member in secret:
        wrong.extend(secret | {member: each} for each in ([CANARY], {CANARY: CANARY}, None, f"{CANARY}\x00", 7))
    wrong += [secret | {"aws-access-key-id": CANARY, "aws-secret-access-key": CANARY}]
    for each in wrong:
        responses.append(api.post("/warehouse", body | {"warehouse-name": "other", "storage-credential": each}))
        responses.append(own.post("/storage-credential", {"new-storage-credential": each}))
    broken = json.dumps({"new-storage-credential": secret})
    malformed = (broken[:-1], broken[:-2] + f',"type":"{CANARY}"}}}}', broken.replace("{", "{{", 1))
    responses += [own.post("/storage-credential", raw=raw.encode()) for raw in malformed]
    responses.append(own.post("/storage-credential", {"new-storage-credential": secret}))
    return responses


def rows() -> bytes:
    """Return the complete content of the database."""
    cells: list[Any] = []
    with connection.cursor() as cursor:
        for model in apps.get_models():
            cursor.execute(f'SELECT * FROM "{model._meta.db_table}"')  # noqa: S608 - a name of our own
            cells += [cell for row in cursor.fetchall() for cell in row]
    return b"\n".join(bytes(cell) if isinstance(cell, bytes | memoryview) else repr(cell).encode() for cell in cells)
