"""Warehouses on a real MinIO: what a validation shows, and that secrets stay where they were entered."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from storage.models import Warehouse
from tenancy.models import AuditRecord
from tests.console.visitor import Visitor
from tests.console.warehouses.conftest import Visit
from tests.parts.minio import Minio
from tests.parts.recorder import Recorded, Recorder, Reply

pytestmark = pytest.mark.django_db

S3 = "/ui/warehouse/add/?store=s3&credential=access-key"
SECRET = "storage-credential.secret-access-key"
KEY_ID = "storage-credential.access-key-id"
WRITES = "Server can write, read, list and delete"
DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>"


@pytest.fixture
def admin(visit: Visit) -> Visitor:
    return visit("anna", "project_admin")


@pytest.fixture
def entered(minio: Minio, bucket: str) -> dict[str, str]:
    return {
        "warehouse-name": "lake",
        "storage-profile.bucket": bucket,
        "storage-profile.key-prefix": "wh2",
        "storage-profile.region": "us-east-1",
        "storage-profile.endpoint": minio.endpoint,
        "storage-profile.flavor": "s3-compat",
        "storage-profile.path-style-access": "true",
        "storage-profile.sts-enabled": "on",
        KEY_ID: minio.user,
        SECRET: minio.password,
    }


def test_a_wrong_key_and_its_cure(
    admin: Visitor, entered: dict[str, str], minio: Minio, bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    form = admin.get(S3)
    wrong = "not-the-secret-of-this-key"
    page = admin.submit(form, S3, "validate", **(entered | {SECRET: wrong}))
    state, text = page.check(WRITES)
    assert state == "failed"
    assert "SignatureDoesNotMatch" in text
    assert "Cure: The secret does not belong to this access key" in text
    assert page.errors(SECRET) == ["The secret does not belong to this access key: enter it again."]
    assert "Fix the failure above first." in page.check("Credentials for engines are issued")[1]
    assert page.errors("storage-profile.sts-role-arn") == []
    assert page.fields[KEY_ID] == [minio.user]
    assert page.fields[SECRET] == [""]

    page = admin.submit(form, S3, "create", **(entered | {SECRET: wrong}))
    assert page.status == 412
    assert page.check(WRITES)[0] == "failed"
    assert page.check("Credentials for engines are issued")[0] == "skipped"
    assert page.errors(SECRET)
    assert not Warehouse.objects.filter(name="lake").exists()
    assert minio.keys(bucket) == []

    page = admin.submit(form, S3, "create", **entered)
    assert page.status == 302, page.plain
    created = Warehouse.objects.get(name="lake")
    assert created.credential_type == "access-key"
    shown = [admin.get(f"/ui/warehouse/{created.pk}/{tab}").text for tab in ("", "storage/", "rules/")]
    for secret in (wrong, minio.password):
        assert secret not in page.text + "".join(shown)
        assert secret not in caplog.text
        assert not any(secret in str(record.details) for record in AuditRecord.objects.all())


def test_all_checks_pass(admin: Visitor, entered: dict[str, str], minio: Minio, bucket: str) -> None:
    page = admin.submit(admin.get(S3), S3, "validate", **entered)
    assert page.status == 200
    for name in (WRITES, "Vended credentials can read and write", "Vended credentials cannot leave", "Test objects"):
        state, text = page.check(name)
        assert state == "passed"
        assert " ms" in text
    assert minio.keys(bucket) == []


def test_an_unknown_key(admin: Visitor, entered: dict[str, str]) -> None:
    page = admin.submit(admin.get(S3), S3, "validate", **(entered | {KEY_ID: "unknown"}))
    assert page.errors(KEY_ID) == ["The store does not know this access key: correct its id."]


def test_a_missing_bucket(admin: Visitor, entered: dict[str, str]) -> None:
    page = admin.submit(admin.get(S3), S3, "validate", **(entered | {"storage-profile.bucket": "no-such-bucket"}))
    assert page.errors("storage-profile.bucket") == ["Create the bucket in the store, or correct its name."]


def test_a_store_that_does_not_respond(admin: Visitor, entered: dict[str, str]) -> None:
    page = admin.submit(
        admin.get(S3), S3, "validate", **(entered | {"storage-profile.endpoint": "http://127.0.0.1:9/"})
    )
    (error,) = page.errors("storage-profile.endpoint")
    assert "this server can reach the store" in error


def test_a_key_that_may_not_write_gets_a_policy(
    admin: Visitor, entered: dict[str, str], bucket: str, recorder: Recorder
) -> None:
    def deny_puts(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        return Reply(403, {"Content-Type": "application/xml"}, DENIED) if request.method == "PUT" else ask()

    recorder.answerer = deny_puts
    page = admin.submit(admin.get(S3), S3, "validate", **(entered | {"storage-profile.endpoint": recorder.endpoint}))
    state, text = page.check(WRITES)
    assert state == "failed"
    assert "AccessDenied" in text
    assert "Add this policy to the user of the key" in text
    assert '"s3:PutObject"' in text
    assert f"arn:aws:s3:::{bucket}/wh2/*" in text
    assert page.errors(KEY_ID) == ["Add this policy to the user of the key, then validate again."]
