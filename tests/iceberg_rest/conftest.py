from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from catalog.selectors.tables.metadata_cache import MetadataCache, Version
from storage.models import Warehouse
from storage.vending import vend
from tests.harness.wsgi_client import ApiClient
from tests.iceberg_rest.lake_fixtures import new_lake
from tests.management.warehouse_request_fixtures import keep_secrets, use_settings
from tests.parts.minio import Minio
from tests.signing_fixtures import KEY, new_warehouse, s3_profile, sign_writes


@pytest.fixture(autouse=True)
def parsed_metadata_is_what_its_document_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that no caller changes the parsed metadata objects in the cache, which later commits start from."""
    documents: dict[Version, bytes] = {}
    put, parsed = MetadataCache.put_parsed, MetadataCache.parsed

    def put_and_compare(self: MetadataCache, version: Version, metadata: dict[str, Any], document: bytes) -> None:
        # repr also distinguishes 1 from 1.0 and a list from a tuple.
        assert repr(metadata) == repr(json.loads(document))
        documents[version] = document
        put(self, version, metadata, document)

    def compare_and_give(self: MetadataCache, version: Version) -> dict[str, Any] | None:
        metadata = parsed(self, version)
        if metadata is not None and version in documents:
            assert repr(metadata) == repr(json.loads(documents[version]))
        return metadata

    monkeypatch.setattr(MetadataCache, "put_parsed", put_and_compare)
    monkeypatch.setattr(MetadataCache, "parsed", compare_and_give)


@pytest.fixture
def nothing_vended_before() -> Iterator[None]:
    vend._cache_of.cache_clear()
    yield
    vend._cache_of.cache_clear()


@pytest.fixture
def lake(minio: Minio, bucket: str, bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> ApiClient:
    """A client of a warehouse on MinIO with vended credentials and remote signing."""
    keep_secrets(monkeypatch)
    return new_lake(minio, bucket)


@pytest.fixture
def create_signing(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Warehouse]:
    """Return a function that creates warehouses with remote signing of reads and writes."""
    keep_secrets(monkeypatch)
    use_settings(monkeypatch, skip_storage_validation=True)
    sign_writes(monkeypatch)
    return lambda **members: new_warehouse(s3_profile(**members), KEY)


@pytest.fixture
def signing(create_signing: Callable[..., Warehouse]) -> Warehouse:
    return create_signing()
