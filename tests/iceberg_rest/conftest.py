from __future__ import annotations

import json
from typing import Any

import pytest

from catalog.selectors.metadata_cache import MetadataCache, Version


@pytest.fixture(autouse=True)
def parsed_metadata_is_what_its_document_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits go on from objects that earlier ones left in memory: nobody may have changed those meanwhile."""
    documents: dict[Version, bytes] = {}
    put, parsed = MetadataCache.put_parsed, MetadataCache.parsed

    def put_and_compare(self: MetadataCache, version: Version, metadata: dict[str, Any], document: bytes) -> None:
        assert repr(metadata) == repr(json.loads(document))  # which also tells 1 from 1.0 and a list from a tuple
        documents[version] = document
        put(self, version, metadata, document)

    def compare_and_give(self: MetadataCache, version: Version) -> dict[str, Any] | None:
        metadata = parsed(self, version)
        if metadata is not None and version in documents:
            assert repr(metadata) == repr(json.loads(documents[version]))
        return metadata

    monkeypatch.setattr(MetadataCache, "put_parsed", put_and_compare)
    monkeypatch.setattr(MetadataCache, "parsed", compare_and_give)
