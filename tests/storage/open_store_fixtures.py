"""Open stores for a storage profile and a credential of the management API."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings

from storage.credentials import read_credential
from storage.io.object_store import RemoteStore
from storage.io.stores import open_store
from storage.profiles.kinds import read_profile
from tests.management.warehouse_request_fixtures import use_settings


def opened(profile: dict[str, Any], credential: dict[str, Any] | None) -> RemoteStore:
    known = None if credential is None else read_credential(credential)
    store = open_store(read_profile(profile, known), known)
    assert isinstance(store, RemoteStore)
    return store


def use_storage_settings(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    use_settings(monkeypatch, storage=settings.ICEKEEPER.storage.model_copy(update=changed))
