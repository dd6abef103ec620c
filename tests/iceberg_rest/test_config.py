from __future__ import annotations

import re

import pytest
from django.urls import URLPattern

from catalog.api.config import ENDPOINTS
from catalog.api.urls import urlpatterns
from storage.models import Warehouse
from tests.harness.wsgi_client import call

pytestmark = pytest.mark.django_db


def test_config_lists_the_prefix_and_endpoints(warehouse: Warehouse) -> None:
    response = call("GET", "/catalog/v1/config?warehouse=wh")
    assert response.status == 200
    config = response.json()
    assert config["defaults"]["prefix"] == str(warehouse.pk)
    assert config["overrides"] == {"uri": "http://testserver/catalog"}
    assert config["endpoints"] == ENDPOINTS


@pytest.mark.parametrize("argument", ["WH", "00000000-0000-0000-0000-000000000000/wh"])
def test_a_warehouse_is_found_by_name_and_by_project_and_name(warehouse: Warehouse, argument: str) -> None:
    response = call("GET", f"/catalog/v1/config?warehouse={argument}")
    assert response.json()["defaults"]["prefix"] == str(warehouse.pk)


@pytest.mark.parametrize("argument", ["nope", "other/wh", "wh/", "%2Fwh", "a" * 3000, "w%E2%80%AEh", "';--"])
def test_an_unknown_warehouse(warehouse: Warehouse, argument: str) -> None:
    assert call("GET", f"/catalog/v1/config?warehouse={argument}").refused(404, "NoSuchWarehouseException")


def test_the_warehouse_must_be_named(warehouse: Warehouse) -> None:
    assert call("GET", "/catalog/v1/config").refused(400, "GetConfigNoWarehouseProvided")
    assert call("GET", "/catalog/v1/config?warehouse=").refused(400, "GetConfigNoWarehouseProvided")


def test_an_inactive_warehouse_is_not_found(warehouse: Warehouse) -> None:
    Warehouse.objects.update(status="inactive")
    assert call("GET", "/catalog/v1/config?warehouse=wh").refused(404, "NoSuchWarehouseException")
    assert call("GET", f"/catalog/v1/{warehouse.pk}/namespaces").refused(404, "NoSuchWarehouseException")


def test_the_endpoints_are_exactly_the_routes() -> None:
    """Every advertised endpoint works, and every endpoint that works is advertised.

    Clients with a credential call the token route before they read this list, so the specification does not list it. It
    does not list signing routes either: tables send their addresses to clients.
    """
    served = set()
    for pattern in urlpatterns:
        assert isinstance(pattern, URLPattern)
        path = "/" + re.sub(r"<segment:(\w+)>", r"{\1}", str(pattern.pattern))
        actions = pattern.callback.actions  # type: ignore[attr-defined]
        own = [method for method in actions if method != "head" or actions["head"] != actions.get("get")]
        served |= {f"{method.upper()} {path}" for method in own}
    assert served - set(ENDPOINTS) == {
        "POST /v1/oauth/tokens",
        "POST /v1/aws/s3/sign",
        "POST /v1/{prefix}/v1/aws/s3/sign",
        "POST /v1/signer/{prefix}/tabular-id/{tabular_id}/v1/aws/s3/sign",
        "POST /v1/signer/{prefix}/staged/{ticket}/v1/aws/s3/sign",
    }
    assert set(ENDPOINTS) <= served
