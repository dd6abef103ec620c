"""What is lent to who makes a table: where nobody else comes to be, and by the rights he has when he is answered."""

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
from tests.iceberg_rest.lake_fixtures import KEYS, VIEW, make_table, may_write, new_lake
from tests.management.warehouse_request_fixtures import keep_secrets, refuse
from tests.parts.minio import Minio
from tests.wsgi_client import Answer, ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("nothing_lent_before")]


# --- staged where others may come to be ------------------------------------------------------------------------------


def stage_at(lake: ApiClient, namespace: str, location: str) -> Answer:
    body = {"name": "mine", "schema": SCHEMA, "stage-create": True, "location": location}
    return lake.post(f"/namespaces/{namespace}/tables", body)


@pytest.mark.parametrize("where", ["sales", "", "sales/eu", "sales/eu/x", "sales/orders"])
def test_nothing_is_lent_for_a_staged_table_in_the_way_of_a_namespace(
    lake: ApiClient, minio: Minio, bucket: str, where: str
) -> None:
    base = f"s3://{bucket}/wh/shared"
    for namespace, folder in (("sales", "sales"), ("eu", "sales/eu")):
        body = {"namespace": [namespace], "properties": {"location": f"{base}/{folder}"}}
        assert lake.post("/namespaces", body).status == 200
    assert stage_at(lake, "ns", f"{base}/{where}".rstrip("/")).refused(400, "InvalidLocation", "cannot be staged")
    assert not minio.keys(bucket)


@pytest.mark.parametrize(("namespace", "where"), [("ns", "other"), ("ns", "salesman"), ("sales", "sales/orders")])
def test_a_table_is_staged_at_a_place_of_its_namespace(
    lake: ApiClient, bucket: str, namespace: str, where: str
) -> None:
    location = f"s3://{bucket}/wh/sales"
    assert lake.post("/namespaces", {"namespace": ["sales"], "properties": {"location": location}}).status == 200
    location = f"s3://{bucket}/wh/{where}"
    assert may_write(stage_at(lake, namespace, location).json()["config"], location)
    assert stage_at(lake, namespace, location).refused(400, "InvalidLocation", "empty")


# --- answers that are told again -------------------------------------------------------------------------------------


def again(lake: ApiClient, route: str, body: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Make something by a request with an Idempotency-Key; what is returned sends it again and gives the answer."""
    key = str(new_id())
    client = ApiClient(lake.base.replace("/catalog", "/lakekeeper")) if route == "generic-tables" else lake

    def send() -> dict[str, Any]:
        answer = client.post(f"/namespaces/ns/{route}", body, **{"Idempotency-Key": key})
        assert answer.status == 200, answer.body
        vend._cache_of.cache_clear()
        return dict(answer.json())

    send()
    return send


def registered_body(lake: ApiClient) -> dict[str, Any]:
    made = make_table(lake, "r")
    assert lake.delete("/namespaces/ns/tables/r").status == 204
    return {"name": "own", "metadata-location": made["metadata-location"]}


MADE: dict[str, Callable[[ApiClient], dict[str, Any]]] = {
    "tables": lambda _: {"name": "own", "schema": SCHEMA},
    "register": registered_body,
    "generic-tables": lambda _: {"name": "own", "format": "lance"},
}


_MAKING = (Can.CREATE_TABLE, Can.CREATE_GENERIC_TABLE)
"""Without which the request is judged anew, and refused."""


@pytest.mark.parametrize("route", MADE)
def test_who_made_it_gets_what_he_may_have_now_when_he_asks_again(
    lake: ApiClient, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    send = again(lake, route, MADE[route](lake))
    told = send()
    place = told["storage-credentials"][0]["prefix"]
    assert may_write(told["config"], place)
    with monkeypatch.context() as patched:
        refuse(patched, Can.USE, *_MAKING, Can.GET_METADATA, Can.READ_DATA)
        assert not may_write(send()["config"], place)
    refuse(monkeypatch, Can.USE, *_MAKING, Can.GET_METADATA)
    told = send()
    assert told["config"] == {}
    assert "storage-credentials" not in told


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("route", ["tables", "register"])
def test_what_was_dropped_is_told_again_and_not_lent(lake: ApiClient, route: str, soft: bool) -> None:
    body = MADE[route](lake)
    if soft:
        Warehouse.objects.update(delete_profile={"type": "soft", "expiration-seconds": 60})
    send = again(lake, route, body)
    made = send()
    assert lake.delete("/namespaces/ns/tables/own?purgeRequested=false").status == 204
    told = send()
    assert told["config"] == {}
    assert "storage-credentials" not in told
    assert (told["metadata"], told["metadata-location"]) == (made["metadata"], made["metadata-location"])


@pytest.mark.parametrize("soft", [False, True])
def test_a_view_that_was_dropped_is_told_again(
    minio: Minio, bucket: str, bootstrapped: None, monkeypatch: pytest.MonkeyPatch, soft: bool
) -> None:
    keep_secrets(monkeypatch)
    lake = new_lake(minio, bucket, soft=soft)
    send = again(lake, "views", {"name": "v", "schema": SCHEMA, "view-version": VIEW})
    made = send()
    assert set(made["config"]) >= KEYS
    assert lake.delete("/namespaces/ns/views/v").status == 204
    assert send() == made | {"config": {}}


def test_a_staged_table_is_opened_again_while_its_place_is_free(lake: ApiClient, bucket: str) -> None:
    location = f"s3://{bucket}/wh/place"
    body = {"name": "mine", "schema": SCHEMA, "stage-create": True, "location": location}
    send = again(lake, "tables", body)
    told = send()
    assert told["storage-credentials"][0]["prefix"] == location
    closed = {"metadata-location": None, "metadata": told["metadata"], "config": {}}
    LocationClaim.objects.all().delete()  # its time is over: others come
    make_table(lake, "bobs", location=f"{location}/t")
    assert send() == closed
    assert lake.delete("/namespaces/ns/tables/bobs?purgeRequested=false").status == 204
    assert may_write(send()["config"], location)
    LocationClaim.objects.all().delete()
    assert lake.post("/namespaces", {"namespace": ["sales"], "properties": {"location": location}}).status == 200
    assert send() == closed


@pytest.mark.parametrize("what", ["name", "namespace"])
def test_a_staged_table_is_not_opened_when_it_cannot_be_made_any_more(lake: ApiClient, what: str) -> None:
    send = again(lake, "tables", {"name": "mine", "schema": SCHEMA, "stage-create": True})
    told = send()
    if what == "name":
        make_table(lake, "mine")
    else:
        assert lake.delete("/namespaces/ns").status == 204
    assert send() == {"metadata-location": None, "metadata": told["metadata"], "config": {}}


def test_a_generic_table_that_can_be_restored_is_told_again_and_not_lent(
    minio: Minio, bucket: str, bootstrapped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_secrets(monkeypatch)
    lake = new_lake(minio, bucket, soft=True)
    send = again(lake, "generic-tables", MADE["generic-tables"](lake))
    made = send()
    assert made["storage-credentials"]
    generic = ApiClient(lake.base.replace("/catalog", "/lakekeeper"))
    assert generic.delete("/namespaces/ns/generic-tables/own").status == 204
    assert send() == {"table": made["table"], "config": {}}
