"""Fetch of one JSON document over HTTP. Hostile documents are tested in tests/authn/test_keys.py."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tenancy.authn.provider_documents import Fetcher, FetchFailed
from tests.harness.identity_provider import KEYS, IdentityProvider, responses, running


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    yield from running()


def test_a_document(provider: IdentityProvider) -> None:
    assert Fetcher(2.0).get(provider.address + KEYS) == provider.documents()[KEYS]


@pytest.mark.parametrize("status", [302, 401, 500])
def test_no_connection_stays_open_after_an_error(
    status: int, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_open: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: left_open.append(found.exc_value))
    provider.misbehave[KEYS] = responses(status, b"x" * 200_000)
    for _ in range(5):
        with pytest.raises(FetchFailed) as refused:
            Fetcher(2.0).get(provider.address + KEYS)
        refused.value.args = (refused.value,)  # kept alive, as by a log record, until the garbage collection
        del refused
    gc.collect()
    assert left_open == []


@pytest.mark.parametrize(
    "address", ["file:///etc/passwd", "ftp://127.0.0.1/x", "", "/keys", "http://", "http://127.0.0.1:1/x"]
)
def test_invalid_urls(address: str) -> None:
    with pytest.raises(FetchFailed):
        Fetcher(2.0).get(address)


def test_the_presented_token_is_not_shown() -> None:
    fetcher = Fetcher(2.0, bearer="canary")
    assert "canary" not in repr(fetcher)
    with pytest.raises(FetchFailed) as refused:
        fetcher.post("http://127.0.0.1:1/x", {"token": "canary"})
    assert "canary" not in repr(refused.value)
