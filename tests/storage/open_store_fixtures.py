"""Open stores for a storage profile and a credential of the management API."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from icekeeper.kernel.errors.types import RequestTimeout
from icekeeper.kernel.request_context import current_context, deadline
from storage.credentials import read_credential
from storage.io.object_store import RemoteStore
from storage.io.stores import open_store
from storage.profiles.kinds import read_profile
from tests.management.warehouse_request_fixtures import use_settings
from tests.parts.recorder import Recorder, Reply


def opened(profile: dict[str, Any], credential: dict[str, Any] | None) -> RemoteStore:
    known = None if credential is None else read_credential(credential)
    store = open_store(read_profile(profile, known), known)
    assert isinstance(store, RemoteStore)
    return store


def use_storage_settings(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    use_settings(monkeypatch, storage=settings.ICEKEEPER.storage.model_copy(update=changed))


def count_requests_until_the_deadline(recorder: Recorder, act: Callable[[], Any], *earlier: Reply) -> int:
    """Return the requests of a call whose deadline passes while the store responds 503, after the `earlier` responses.

    Fails unless the call raises `RequestTimeout`.
    """
    context, replies = current_context(), list(earlier)

    def fail(*_: Any) -> Reply:
        if replies:
            return replies.pop(0)
        context.deadline = time.monotonic()
        return Reply(503, {}, b"")

    recorder.answerer = fail
    recorder.requests.clear()
    with deadline(time.monotonic() + 600), pytest.raises(RequestTimeout):
        act()
    return len(recorder.requests)
