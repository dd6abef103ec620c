"""Scopes of tokens: for every prefix and method, and the error for a missing scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from icekeeper.kernel.errors.types import Forbidden
from storage.models import Warehouse
from tenancy.actor import SCOPES, Identity, InsufficientScope, narrow_scopes, require_scope
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import Response
from tests.token_fixtures import TokenClient, new_token

pytestmark = pytest.mark.django_db

READS = {
    "GET /catalog/v1/config?warehouse=wh": "catalog:read",
    "GET /catalog/v1/{prefix}/namespaces": "catalog:read",
    "HEAD /catalog/v1/{prefix}/namespaces/ns": "catalog:read",
    "GET /lakekeeper/v1/{prefix}/namespaces/ns/generic-tables": "catalog:read",
    "GET /management/v1/info": "management:read",
    "GET /management/v1/warehouse": "management:read",
    "GET /management/v1/token": "management:read",
    "POST /management/v1/endpoint-statistics": "management:read",
}
CHANGES = {
    "POST /catalog/v1/{prefix}/namespaces": "catalog",
    "DELETE /catalog/v1/{prefix}/namespaces/ns": "catalog",
    "POST /catalog/v1/{prefix}/namespaces/ns/tables": "catalog",
    "POST /catalog/v1/{prefix}/transactions/commit": "catalog",
    "POST /lakekeeper/v1/{prefix}/namespaces/ns/generic-tables": "catalog",
    "POST /management/v1/bootstrap": "management",
    "POST /management/v1/warehouse": "management",
    "DELETE /management/v1/warehouse/{prefix}": "management",
    "POST /management/v1/token": "management",
    "POST /management/v1/service-account": "management",
}
BODY = b'{"warehouse": {"type": "all"}}'


def send(client: TokenClient, operation: str, warehouse: Warehouse) -> Response:
    method, target = operation.replace("{prefix}", str(warehouse.pk)).split(" ")
    return client.send(method, target, BODY if method == "POST" else b"")


def was_refused(response: Response) -> bool:
    return response.status == 403 and 'error="insufficient_scope"' in response.headers.get("WWW-Authenticate", "")


@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_allows_its_routes_and_no_others(
    warehouse: Warehouse, access_tokens: None, scope: str, everything: Callable[[], Fingerprint]
) -> None:
    client = TokenClient(new_token(scopes=[scope]), base="")
    before = everything()
    for operation, needed in {**READS, **CHANGES}.items():
        is_open = needed in {scope, f"{scope}:read"}
        response = send(client, operation, warehouse)
        assert was_refused(response) is not is_open, (operation, response.status)
        if not is_open and not operation.startswith("HEAD"):
            assert response.refused(403, "InsufficientScope", f"the scope {needed}: it has {scope}")
        if operation in READS and is_open and "namespaces/" not in operation:
            assert response.status == 200, (operation, response.body)
        if not is_open:
            assert everything() == before


def test_the_usual_scopes_open_both(warehouse: Warehouse, alice: TokenClient) -> None:
    client = TokenClient(alice.token, base="")
    for operation in {**READS, **CHANGES}:
        assert not was_refused(send(client, operation, warehouse)), operation


def test_scopes_apply_to_unusual_paths(warehouse: Warehouse, access_tokens: None) -> None:
    client = TokenClient(new_token(scopes=["catalog:read"]), base="")
    for target in ("/management/v1/%69nfo", "/management//v1/info", "/management/v1/info?x=/catalog/"):
        assert client.get(target).status in {403, 404}
    for target in ("/catalog/../management/v1/info", "/catalog/%2e%2e/management/v1/info"):
        assert client.get(target).refused(400, "BadRequestException")
    assert client.send("PUT", "/management/v1/token").status in {403, 405}
    assert client.send("PATCH", f"/catalog/v1/{warehouse.pk}/namespaces").status in {403, 405}


def identity(scopes: Any) -> Identity:
    return Identity("local~x", "local", "human", scopes=scopes)


def test_no_scope_allows_paths_outside_the_apis() -> None:
    require_scope(identity(None), "/elsewhere", is_reading=False)
    for path in ("/elsewhere", "/", "/catalogs/v1", "/Catalog/v1", "//catalog/v1", "/ui/"):
        with pytest.raises(InsufficientScope):
            require_scope(identity(frozenset(SCOPES)), path, is_reading=True)
    for path in ("/catalog", "/catalog/", "/management/x"):
        with pytest.raises(Forbidden):
            require_scope(identity(frozenset()), path, is_reading=True)


@pytest.mark.parametrize(
    ("wanted", "held", "expected"),
    [
        ({"catalog"}, {"catalog"}, {"catalog"}),
        ({"catalog"}, {"catalog:read"}, {"catalog:read"}),
        ({"catalog:read"}, {"catalog"}, {"catalog:read"}),
        ({"catalog", "management"}, {"catalog", "management:read"}, {"catalog", "management:read"}),
        ({"catalog"}, {"management"}, set()),
        (set(), {"catalog"}, set()),
    ],
)
def test_narrowing(wanted: set[str], held: set[str], expected: set[str]) -> None:
    assert narrow_scopes(frozenset(wanted), frozenset(held)) == expected
