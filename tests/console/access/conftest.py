"""Fixtures: the catalog of `tests.console.access.lake`, and browsers of four kinds of users."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from management.sign_in.addresses import create_sign_in_address
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.authz import port
from tests.console.access.lake import HOSTILE, Lake, create_lake
from tests.management.warehouse_request_fixtures import use_settings

SignIn = Callable[[str], Client]


@pytest.fixture
def builtin(monkeypatch: pytest.MonkeyPatch, storage_root: object) -> Iterator[None]:
    """The built-in evaluator, and `local~admin` as instance admin."""
    use_settings(monkeypatch, authz_backend="builtin", instance_admins=["local~admin"])
    port.authorizer.cache_clear()
    yield
    port.authorizer.cache_clear()


@pytest.fixture
def lake(builtin: None, warehouse: Warehouse) -> Lake:
    return create_lake(warehouse, names=(f"sales {HOSTILE}", f"orders {HOSTILE}", f"lines {HOSTILE}"))


@pytest.fixture
def sign_in(lake: Lake) -> SignIn:
    return new_client


def new_client(name: str) -> Client:
    """Return a browser in which the local user of that name is signed in."""
    client = Client(HTTP_HOST="testserver")
    address = create_sign_in_address(actor=INTERNAL, user_id=f"local~{name}", base_url="http://testserver")
    (code,) = parse_qs(urlsplit(address).query)["code"]
    assert client.post("/ui/sign-in/once/", {"code": code}).status_code == 302
    return client
