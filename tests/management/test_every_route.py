"""Every route that the URL resolver serves authenticates its caller, except those of the listed public views."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import time
from typing import Any

import pytest

from catalog.api.base import CatalogViewSet
from management.api.base import ManagementViewSet
from storage.models import Warehouse
from tenancy.actor import AuthenticationFailed, Identity
from tenancy.authn import requests
from tenancy.authn.authenticator import Authenticator, VerifiedToken
from tests.harness.fingerprint import Fingerprint
from tests.harness.routes import OPEN, ROUTES, Route
from tests.harness.wsgi_client import ApiClient, call

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
API_PREFIXES = ("catalog/", "lakekeeper/", "management/")

TOKEN = "the-token-of-ann"


GUARDED = [route for route in ROUTES if route.name not in OPEN]


def is_guarded(view: Any) -> bool:
    """Return whether the view is of one of the two classes that authenticate first."""
    return issubclass(getattr(view, "cls", object), (CatalogViewSet, ManagementViewSet))


class Ann(Authenticator):
    """Accept one token, of one user."""

    def may_accept(self, token: str) -> bool:
        return True

    def verify(self, token: str) -> VerifiedToken:
        if token != TOKEN:
            raise AuthenticationFailed("an unknown token")
        identity = Identity(user_id="test~ann", provider_id="test", user_type="human", name="Ann")
        return VerifiedToken(identity, time() + 60)


@pytest.fixture
def authentication(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(requests, "authenticators", lambda: (Ann(),))
    requests.verified_tokens.clear()
    yield
    requests.verified_tokens.clear()


@pytest.fixture
def names(warehouse: Warehouse, catalog: ApiClient, create_table: Callable[..., dict[str, Any]]) -> dict[str, str]:
    """Values for the parameters of routes, created before authentication is enabled."""
    table = create_table("t")["metadata"]["table-uuid"]
    return {
        "prefix": str(warehouse.pk),
        "warehouse_id": str(warehouse.pk),
        "project_id": str(warehouse.project_id),
        "namespace": "ns",
        "table": "t",
        "view": "v",
        "object_id": table,
        "table_id": table,
    }


def test_every_view_of_an_api_knows_its_caller_first() -> None:
    assert {route.name for route in ROUTES if not is_guarded(route.view)} == OPEN.keys()
    assert all(route.pattern.startswith(API_PREFIXES) for route in GUARDED)
    assert {route.pattern.split("/")[0] + "/" for route in GUARDED} == set(API_PREFIXES)


def test_every_route_has_a_name_of_its_own() -> None:
    named = [route.name for route in ROUTES]
    assert len(set(named)) == len(named)
    assert "" not in named


@pytest.mark.parametrize("route", GUARDED, ids=str)
def test_no_access_without_a_valid_token(
    route: Route, names: dict[str, str], authentication: None, everything: Callable[[], Fingerprint]
) -> None:
    before = everything()
    target = route.target(names)
    for method in METHODS:
        for header, wire_type in (
            (None, "MissingAuthorizationHeader"),
            ("", "MissingAuthorizationHeader"),
            ("Bearer", "MissingAuthorizationHeader"),
            (f"Basic {TOKEN}", "MissingAuthorizationHeader"),
            (TOKEN, "MissingAuthorizationHeader"),
            ("Bearer garbage", "AuthenticationFailed"),
            (f"Bearer {TOKEN}x", "AuthenticationFailed"),
        ):
            response = call(method, target, body=b"{}", headers={} if header is None else {"authorization": header})
            assert response.status == 401, (method, header)
            assert response.headers["WWW-Authenticate"].startswith("Bearer")
            if method != "HEAD":
                assert response.refused(401, wire_type)
    assert everything() == before


@pytest.mark.parametrize("route", GUARDED, ids=str)
def test_a_valid_token_opens_every_route(route: Route, names: dict[str, str], authentication: None) -> None:
    """Without this, the errors of the previous test would prove nothing."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    for method in ("GET", "OPTIONS"):
        assert call(method, route.target(names), headers=headers).status not in {401, 500, 503}
