"""Change the storage of a warehouse in the console: profile, credential, and what keeps a stored credential."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from storage.models import Warehouse
from storage.secrets.stores import stored_credential
from storage.services.warehouse_storage import CredentialRequired, update_storage
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project
from tests.console.visitor import Visitor
from tests.console.warehouses.conftest import Visit
from tests.management.warehouse_request_fixtures import keep_secrets, use_settings
from tests.parts.minio import Minio

SECRET = "storage-credential.secret-access-key"
KEY_ID = "storage-credential.access-key-id"


@pytest.fixture
def admin(visit: Visit) -> Visitor:
    return visit("anna", "project_admin")


@pytest.fixture
def lake(admin: Visitor, minio: Minio, bucket: str) -> Warehouse:
    """A warehouse on MinIO."""
    return create_warehouse(
        actor=INTERNAL,
        project=get_project(None),
        name="lake",
        storage_profile=minio.profile(bucket, "wh"),
        storage_credential=minio.credential,
    )


def pages(warehouse: Warehouse) -> tuple[str, str, str]:
    base = f"/ui/warehouse/{warehouse.pk}"
    return f"{base}/edit-storage/", f"{base}/edit-credential/", f"{base}/validate/"


@pytest.mark.django_db
def test_a_local_warehouse(admin: Visitor, warehouse: Warehouse) -> None:
    target = pages(warehouse)[0]
    page = admin.get(target)
    assert page.fields["storage-profile.path"] == [warehouse.storage_profile["path"]]
    forged = {"storage-profile.path": "/elsewhere", "storage-profile.allow-non-empty-locations": "on"}
    done = admin.submit(page, target, "save", **forged)
    assert (done.status, done.location) == (302, f"/ui/warehouse/{warehouse.pk}/storage/")
    changed = Warehouse.objects.get()
    assert changed.storage_profile["allow-non-empty-locations"] is True
    assert changed.storage_profile["path"] == warehouse.storage_profile["path"]
    assert changed.version == warehouse.version + 1

    stale = admin.submit(page, target, "save", **{"storage-profile.verify-metadata-on-load": "on"})
    assert stale.status == 409
    assert "Nothing was saved: local~anna changed the warehouse" in stale.plain
    assert "Allow tables at locations with files" in stale.plain
    assert admin.submit(stale, target, "save").status == 302


@pytest.mark.django_db
def test_users_without_the_permission(visit: Visit, warehouse: Warehouse) -> None:
    reader, stranger = visit("reader", "select", on="warehouse"), visit("stranger")
    fields = {"version": str(warehouse.version), "action": "save"}
    shown = reader.get(f"/ui/warehouse/{warehouse.pk}/").text
    for target in pages(warehouse):
        assert target not in shown
        assert (reader.get(target).status, stranger.get(target).status) == (403, 404)
        assert (reader.post(target, fields).status, stranger.post(target, fields).status) == (403, 404)
    assert Warehouse.objects.get().version == warehouse.version


@pytest.mark.django_db
def test_empty_fields_keep_the_credential(admin: Visitor, lake: Warehouse, minio: Minio) -> None:
    target = pages(lake)[0]
    page = admin.get(target)
    assert "Stored, leave empty to keep" in page.plain
    assert (page.fields[KEY_ID], page.fields[SECRET]) == ([""], [""])
    assert minio.password not in page.text
    checked = admin.submit(page, target, "validate")
    assert checked.check("Vended credentials can read and write")[0] == "passed", checked.plain
    done = admin.submit(page, target, "save", **{"storage-profile.sts-token-validity-seconds": "1800"})
    assert done.status == 302, done.plain
    changed = Warehouse.objects.get(pk=lake.pk)
    assert changed.storage_profile["sts-token-validity-seconds"] == 1800
    assert (changed.secret_id, changed.credential_type) == (lake.secret_id, "access-key")
    kept = stored_credential(changed.secret_id)
    assert kept is not None
    assert kept.reveal()["secret-access-key"] == minio.password


@pytest.mark.django_db
def test_a_kept_credential_is_not_sent_elsewhere(admin: Visitor, lake: Warehouse, minio: Minio) -> None:
    target = pages(lake)[0]
    other = {"storage-profile.endpoint": minio.endpoint.replace("127.0.0.1", "localhost")}
    page = admin.submit(admin.get(target), target, "save", **other)
    assert page.status == 400
    assert page.errors(KEY_ID) == ["Required, as the address of the store changes"]
    again = admin.submit(admin.get(target), target, "save", **other, **{KEY_ID: minio.user, SECRET: minio.password})
    assert again.status == 302, again.plain


@pytest.mark.django_db
def test_replace_the_credential(
    admin: Visitor, lake: Warehouse, minio: Minio, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    target = pages(lake)[1]
    page = admin.get(target)
    assert "storage-profile." not in page.text
    wrong = admin.submit(page, target, "save", **{KEY_ID: minio.user, SECRET: "no-such-secret"})
    assert wrong.status == 412
    assert wrong.errors(SECRET) == ["The secret does not belong to this access key: enter it again."]
    assert Warehouse.objects.get(pk=lake.pk).secret_id == lake.secret_id
    empty = admin.submit(page, target, "save")
    assert empty.status == 400, "this page replaces the credential"
    done = admin.submit(page, target, "save", **{KEY_ID: minio.user, SECRET: minio.password})
    assert done.status == 302, done.plain
    changed = Warehouse.objects.get(pk=lake.pk)
    assert changed.secret_id != lake.secret_id
    assert changed.storage_profile == lake.storage_profile
    for secret in ("no-such-secret", minio.password):
        assert secret not in wrong.text + done.text + caplog.text


@pytest.mark.django_db
def test_validate_again(admin: Visitor, lake: Warehouse) -> None:
    target = pages(lake)[2]
    page = admin.post(target, {})
    assert page.check("Server can write, read, list and delete")[0] == "passed"
    assert Warehouse.objects.get(pk=lake.pk).version == lake.version


ONELAKE: dict[str, Any] = {
    "type": "onelake", "workspace-id": "0198e0f4-3f6e-7c31-8c7d-000000000001",
    "lakehouse-id": "0198e0f4-3f6e-7c31-8c7d-000000000002",
}  # fmt: skip
APPLICATION = {
    "type": "az", "credential-type": "client-credentials", "client-id": "c", "tenant-id": "t", "client-secret": "s",
}  # fmt: skip


GCS_KEY = dict.fromkeys(
    ("type", "project_id", "private_key_id", "private_key", "client_email", "client_id", "auth_provider_x509_cert_url",
     "client_x509_cert_url"), "x"
) | {
    "auth_uri": "https://accounts.google.com/o/oauth2/auth", "token_uri": "https://oauth2.googleapis.com/token",
    "universe_domain": "",
}  # fmt: skip
S3: dict[str, Any] = {"type": "s3", "bucket": "data", "region": "eu-west-1"}
KEY = {"type": "s3", "credential-type": "access-key", "access-key-id": "hush-id", "secret-access-key": "hush-key"}
STORED: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "s3": (S3 | {"sts-session-tags": {"a": "b", "c": "d"}, "storage-layout": {"type": "full-hierarchy",
                 "namespace": "{name}", "tabular": "{uuid}"}, "path-style-access": False}, KEY),
    "s3 without a credential": (S3, None),
    "aliyun": (S3 | {"endpoint": "https://oss-eu-central-1.aliyuncs.com/", "sts-role-arn": "acs:ram::1:role/x"},
               KEY | {"credential-type": "aliyun-oss"}),
    "stackit": ({"type": "stackit", "bucket": "data", "region": "eu01", "sts-enabled": False},
                KEY | {"type": "stackit"}),
    "adls": ({"type": "adls", "filesystem": "data", "account-name": "acme"},
             {"type": "az", "credential-type": "shared-access-key", "key": "YQ=="}),
    "adls of another cloud": (
        {"type": "adls", "filesystem": "data", "account-name": "acme", "host": "dfs.core.chinacloudapi.cn",
         "authority-host": "https://login.chinacloudapi.cn/"}, APPLICATION),
    "onelake": (ONELAKE | {"endpoint-mode": {"type": "regional", "region": "westus"}, "top-level-folder": "Tables"},
                APPLICATION),
    "gcs": ({"type": "gcs", "bucket": "data"},
            {"type": "gcs", "credential-type": "service-account-key", "key": GCS_KEY}),
}  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize(("profile", "credential"), STORED.values(), ids=STORED)
def test_saving_an_untouched_form_changes_nothing(
    visit: Visit, monkeypatch: pytest.MonkeyPatch, profile: dict[str, Any], credential: dict[str, Any] | None
) -> None:
    admin = visit("anna", "project_admin")
    use_settings(monkeypatch, skip_storage_validation=True)
    created = create_warehouse(
        actor=INTERNAL, project=get_project(None), name="one", storage_profile=profile, storage_credential=credential
    )
    target = pages(created)[0]
    page = admin.get(target)
    for secret in ("hush", "YQ=="):
        assert secret not in page.text
    done = admin.submit(page, target, "save")
    assert done.status == 302, done.plain
    kept = Warehouse.objects.get(pk=created.pk)
    assert kept.storage_profile == created.storage_profile
    assert (kept.secret_id, kept.credential_type) == (created.secret_id, created.credential_type)
    assert stored_credential(kept.secret_id) == stored_credential(created.secret_id)


@pytest.mark.django_db
def test_a_key_file(admin: Visitor) -> None:
    target = "/ui/warehouse/add/?store=gcs"
    page = admin.submit(admin.get(target), target, "validate", **{"storage-credential.key": "{hush"})
    assert page.status == 400
    assert page.errors("storage-credential.key") == ["This is no JSON object: paste the whole key file."]
    assert "hush" not in page.text
    key = '{"type": "x", "private_key": "hush"}'
    page = admin.submit(admin.get(target), target, "validate", **{"storage-credential.key": key})
    assert page.check("Storage profile is complete")[0] == "failed"
    assert page.errors("storage-credential.key")
    assert "hush" not in page.text


@pytest.mark.django_db
def test_a_kept_secret_is_not_sent_to_another_authority(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client secret itself is sent there, so a user who can change the profile would learn it."""
    keep_secrets(monkeypatch)
    use_settings(monkeypatch, skip_storage_validation=True)
    created = create_warehouse(
        actor=INTERNAL, project=get_project(None), name="one", storage_profile=ONELAKE, storage_credential=APPLICATION
    )
    with pytest.raises(CredentialRequired):
        update_storage(
            actor=INTERNAL,
            warehouse_id=created.pk,
            storage_profile=ONELAKE | {"authority-host": "https://login.example.com/"},
            storage_credential=None,
            keeps_credential=True,
        )
    kept = update_storage(
        actor=INTERNAL,
        warehouse_id=created.pk,
        storage_profile=ONELAKE | {"sas-enabled": False},
        storage_credential=None,
        keeps_credential=True,
    )
    assert (kept.secret_id, kept.credential_type) == (created.secret_id, "client-credentials")
    assert stored_credential(kept.secret_id) is not None
