"""Credentials vended to creators of tables: for exclusive locations, with permissions at the time of the response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.models import LocationClaim
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from storage.vending import vend
from tenancy.authz.actions import Can
from tests.catalog_fixtures import SCHEMA
from tests.harness.wsgi_client import ApiClient, Response
from tests.iceberg_rest.lake_fixtures import KEYS, VIEW, create_table, may_write, new_lake
from tests.management.warehouse_request_fixtures import keep_secrets, refuse
from tests.parts.minio import Minio

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("nothing_vended_before")]


# --- staged at shared locations --------------------------------------------------------------------------------------


def stage_at(lake: ApiClient, namespace: str, location: str) -> Response:
    body = {"name": "mine", "schema": SCHEMA, "stage-create": True, "location": location}
    return lake.post(f"/namespaces/{namespace}/tables", body)


@pytest.mark.parametrize("where", ["sales", "", "sales/eu", "sales/eu/x", "sales/orders"])
def test_nothing_is_vended_for_a_staged_table_in_the_path_of_a_namespace(
    lake: ApiClient, minio: Minio, bucket: str, where: str
) -> None:
    base = f"s3://{bucket}/wh/shared"
    for namespace, folder in (("sales", "sales"), ("eu", "sales/eu")):
        body = {"namespace": [namespace], "properties": {"location": f"{base}/{folder}"}}
        assert lake.post("/namespaces", body).status == 200
    assert stage_at(lake, "ns", f"{base}/{where}".rstrip("/")).refused(400, "InvalidLocation", "cannot be staged")
    assert not minio.keys(bucket)


@pytest.mark.parametrize(("namespace", "where"), [("ns", "other"), ("ns", "salesman"), ("sales", "sales/orders")])
def test_a_table_is_staged_below_its_namespace(lake: ApiClient, bucket: str, namespace: str, where: str) -> None:
    location = f"s3://{bucket}/wh/sales"
    assert lake.post("/namespaces", {"namespace": ["sales"], "properties": {"location": location}}).status == 200
    location = f"s3://{bucket}/wh/{where}"
    assert may_write(stage_at(lake, namespace, location).json()["config"], location)
    assert stage_at(lake, namespace, location).refused(400, "InvalidLocation", "empty")


# --- replayed responses ----------------------------------------------------------------------------------------------


def again(lake: ApiClient, route: str, body: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Create an object with an Idempotency-Key; return a function that repeats the request and returns the response."""
    key = str(new_id())
    client = ApiClient(lake.base.replace("/catalog", "/lakekeeper")) if route == "generic-tables" else lake

    def send() -> dict[str, Any]:
        response = client.post(f"/namespaces/ns/{route}", body, **{"Idempotency-Key": key})
        assert response.status == 200, response.body
        vend._cache_of.cache_clear()
        return dict(response.json())

    send()
    return send


def registered_body(lake: ApiClient) -> dict[str, Any]:
    created = create_table(lake, "r")
    assert lake.delete("/namespaces/ns/tables/r").status == 204
    return {"name": "own", "metadata-location": created["metadata-location"]}


CREATED: dict[str, Callable[[ApiClient], dict[str, Any]]] = {
    "tables": lambda _: {"name": "own", "schema": SCHEMA},
    "register": registered_body,
    "generic-tables": lambda _: {"name": "own", "format": "lance"},
}


_CREATING = (Can.CREATE_TABLE, Can.CREATE_GENERIC_TABLE)
"""Without these permissions the request is authorized again, and denied."""


@pytest.mark.parametrize("route", CREATED)
def test_the_creator_gets_the_current_rights_on_a_repeated_request(
    lake: ApiClient, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    send = again(lake, route, CREATED[route](lake))
    reported = send()
    location = reported["storage-credentials"][0]["prefix"]
    assert may_write(reported["config"], location)
    with monkeypatch.context() as patched:
        refuse(patched, Can.USE, *_CREATING, Can.GET_METADATA, Can.READ_DATA)
        assert not may_write(send()["config"], location)
    refuse(monkeypatch, Can.USE, *_CREATING, Can.GET_METADATA)
    reported = send()
    assert reported["config"] == {}
    assert "storage-credentials" not in reported


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("route", ["tables", "register"])
def test_dropped_objects_are_listed_again_and_not_vended(lake: ApiClient, route: str, soft: bool) -> None:
    body = CREATED[route](lake)
    if soft:
        Warehouse.objects.update(delete_profile={"type": "soft", "expiration-seconds": 60})
    send = again(lake, route, body)
    created = send()
    assert lake.delete("/namespaces/ns/tables/own?purgeRequested=false").status == 204
    reported = send()
    assert reported["config"] == {}
    assert "storage-credentials" not in reported
    assert (reported["metadata"], reported["metadata-location"]) == (created["metadata"], created["metadata-location"])


@pytest.mark.parametrize("soft", [False, True])
def test_a_dropped_view_is_reported_again(
    minio: Minio, bucket: str, bootstrapped: None, monkeypatch: pytest.MonkeyPatch, soft: bool
) -> None:
    keep_secrets(monkeypatch)
    lake = new_lake(minio, bucket, soft=soft)
    send = again(lake, "views", {"name": "v", "schema": SCHEMA, "view-version": VIEW})
    created = send()
    assert set(created["config"]) >= KEYS
    assert lake.delete("/namespaces/ns/views/v").status == 204
    assert send() == created | {"config": {}}


def test_a_staged_table_gets_credentials_again_while_its_location_is_free(lake: ApiClient, bucket: str) -> None:
    location = f"s3://{bucket}/wh/chosen"
    body = {"name": "mine", "schema": SCHEMA, "stage-create": True, "location": location}
    send = again(lake, "tables", body)
    reported = send()
    assert reported["storage-credentials"][0]["prefix"] == location
    closed = {"metadata-location": None, "metadata": reported["metadata"], "config": {}}
    LocationClaim.objects.all().delete()  # the reservation has expired and others may use the location
    create_table(lake, "bobs", location=f"{location}/t")
    assert send() == closed
    assert lake.delete("/namespaces/ns/tables/bobs?purgeRequested=false").status == 204
    assert may_write(send()["config"], location)
    LocationClaim.objects.all().delete()
    assert lake.post("/namespaces", {"namespace": ["sales"], "properties": {"location": location}}).status == 200
    assert send() == closed


@pytest.mark.parametrize("what", ["name", "namespace"])
def test_a_staged_table_gets_no_credentials_when_it_cannot_be_created_any_more(lake: ApiClient, what: str) -> None:
    send = again(lake, "tables", {"name": "mine", "schema": SCHEMA, "stage-create": True})
    reported = send()
    if what == "name":
        create_table(lake, "mine")
    else:
        assert lake.delete("/namespaces/ns").status == 204
    assert send() == {"metadata-location": None, "metadata": reported["metadata"], "config": {}}


def test_a_restorable_generic_table_is_returned_again_without_credentials(
    minio: Minio, bucket: str, bootstrapped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_secrets(monkeypatch)
    lake = new_lake(minio, bucket, soft=True)
    send = again(lake, "generic-tables", CREATED["generic-tables"](lake))
    created = send()
    assert created["storage-credentials"]
    generic = ApiClient(lake.base.replace("/catalog", "/lakekeeper"))
    assert generic.delete("/namespaces/ns/generic-tables/own").status == 204
    assert send() == {"table": created["table"], "config": {}}
