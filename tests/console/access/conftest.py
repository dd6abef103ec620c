"""Fixtures: the catalog of `tests.console.access.lake`, and browsers of four kinds of users."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.test import Client
from django.test.client import ClientHandler

from storage.models import Warehouse
from tenancy.authz import port
from tests.console.access.lake import HOSTILE, Lake, create_lake, find_lake
from tests.console.session_cookies import session_cookies
from tests.harness.prepared import Prepared
from tests.management.warehouse_request_fixtures import use_settings

SignIn = Callable[[str], Client]
NAMES = (f"sales {HOSTILE}", f"orders {HOSTILE}", f"lines {HOSTILE}")

HANDLER = ClientHandler(enforce_csrf_checks=False)
"""Of all clients: each handler would read the list of static files again."""


@pytest.fixture
def builtin(monkeypatch: pytest.MonkeyPatch, storage_root: object) -> Iterator[None]:
    """The built-in evaluator, and `local~admin` as instance admin."""
    use_settings(monkeypatch, authz_backend="builtin", instance_admins=["local~admin"])
    port.authorizer.cache_clear()
    yield
    port.authorizer.cache_clear()


@pytest.fixture
def lake(builtin: None, warehouse: Warehouse, prepared: Prepared) -> Lake:
    prepared.create_or_copy("lake of the access pages", lambda: create_lake(warehouse, names=NAMES))
    return find_lake(warehouse, names=NAMES)


@pytest.fixture
def sign_in(lake: Lake) -> SignIn:
    return new_client


def new_client(name: str) -> Client:
    """Return a browser in which the local user of that name is signed in."""
    client = Client(HTTP_HOST="testserver")
    client.handler = HANDLER
    client.cookies.load(session_cookies(f"local~{name}"))
    return client
