"""Fixtures of tests about OpenFGA as the one who decides."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import pytest

from tenancy.authz.openfga.connection import Connection, Reply


@pytest.fixture
def requests_sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What OpenFGA is asked from now on: the last word of each path."""
    sent: list[str] = []
    original = Connection.request

    def request(self: Connection, method: str, url: str, *, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        sent.append(urlsplit(url).path.rpartition("/")[2])
        return original(self, method, url, body=body, headers=headers)

    monkeypatch.setattr(Connection, "request", request)
    return sent
