"""Errors of storage profiles and credentials name the request member, so that a form can mark it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from icekeeper.kernel.errors.types import CatalogError
from storage.credentials import read_credential
from storage.network.endpoints import read_endpoint
from storage.profiles.kinds import read_profile
from storage.services.warehouses import (
    validate_delete_profile,
    validate_format_policy,
    validate_warehouse_name,
)

S3: dict[str, Any] = {"type": "s3", "bucket": "data", "region": "eu-west-1"}
KEY = {
    "type": "s3",
    "credential-type": "access-key",
    "access-key-id": "id",
    "secret-access-key": "secret",
}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"type": "floppy"}, "storage-profile.type"),
        (S3 | {"bucket": "Data"}, "storage-profile.bucket"),
        (S3 | {"region": 5}, "storage-profile.region"),
        (S3 | {"endpoint": "ftp://store/"}, "storage-profile.endpoint"),
        ({"type": "local", "path": "relative"}, "storage-profile.path"),
        ({"type": "gcs", "bucket": "data"}, "storage-credential"),
    ],
)
def test_a_storage_profile(storage_root: Path, document: dict[str, Any], field: str) -> None:
    with pytest.raises(CatalogError) as caught:
        read_profile(document, None)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (KEY | {"type": "tape"}, "storage-credential.type"),
        (KEY | {"credential-type": "az"}, "storage-credential.credential-type"),
        (KEY | {"access-key-id": ""}, "storage-credential.access-key-id"),
    ],
)
def test_a_storage_credential(document: dict[str, Any], field: str) -> None:
    with pytest.raises(CatalogError) as caught:
        read_credential(document)
    assert caught.value.field == field


def test_an_endpoint() -> None:
    with pytest.raises(CatalogError) as caught:
        read_endpoint("https://user@store.example/", "sts-endpoint")
    assert caught.value.field == "storage-profile.sts-endpoint"


def test_rules_of_warehouses() -> None:
    with pytest.raises(CatalogError) as caught:
        validate_warehouse_name("a/b")
    assert caught.value.field == "warehouse-name"
    with pytest.raises(CatalogError) as caught:
        validate_delete_profile({"type": "soft", "expiration-seconds": -1})
    assert caught.value.field == "delete-profile.expiration-seconds"
    with pytest.raises(CatalogError) as caught:
        validate_format_policy([1, 2], 3)
    assert caught.value.field == "default-format-version"
