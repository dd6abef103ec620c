"""Warnings of `serve` at startup about warehouses whose writes are not signed."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from storage.models import Warehouse
from storage.signing.enforcement import Enforcement, warn_of_unsigned_writes
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import keep_secrets, use_settings
from tests.signing_fixtures import authorize_signatures, sign_writes

pytestmark = pytest.mark.django_db
api = ApiClient("/management/v1")
STORE = {"endpoint": "https://s3.example.com", "path-style-access": True}


def create(name: str, enforced: Enforcement | None = None, **members: Any) -> Warehouse:
    profile = {"type": "s3", "bucket": f"bucket-{name}", "region": "local-01", "sts-enabled": False, **STORE, **members}
    credential = {"type": "s3", "credential-type": "access-key", "aws-access-key-id": "a", "aws-secret-access-key": "b"}
    body = {"warehouse-name": name, "storage-profile": profile, "storage-credential": credential}
    response = api.post("/warehouse", body)
    assert response.status == 201, response.body
    Warehouse.objects.filter(name=name).update(enforced_signatures=enforced)
    return Warehouse.objects.get(name=name)


@pytest.fixture(autouse=True)
def _warehouses(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_secrets(monkeypatch)
    use_settings(monkeypatch, skip_storage_validation=True)
    create("unprobed")
    create("open", Enforcement.NONE)
    create("seaweed", Enforcement.REQUESTS)
    create("strict", Enforcement.REQUESTS_AND_BODIES)
    create("sts", **{"sts-enabled": True, "flavor": "s3-compat"})
    create("unsigned", **{"remote-signing-enabled": False})
    create("aws", endpoint=None, **{"path-style-access": False})
    unreadable = create("unreadable")
    Warehouse.objects.filter(pk=unreadable.pk).update(storage_profile={"type": "s3", "bucket": 1})


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    with CaptureQueriesContext(connection) as queries:
        warn_of_unsigned_writes()
    assert len(queries) <= 1
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_warehouses_with_unsigned_writes_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    authorize_signatures(monkeypatch)
    [warning] = warnings(caplog)
    assert warning.startswith("writes are not signed in 2 warehouses on S3-compatible stores")
    assert "/storage/validate-access" in warning
    Warehouse.objects.exclude(name__in=["seaweed", "strict", "sts"]).delete()
    assert warnings(caplog) == []


def test_nothing_is_reported_where_writes_are_signed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert warnings(caplog) == [], "authorization is off"
    sign_writes(monkeypatch)
    assert warnings(caplog) == []
