"""Remote signing for staged tables, whose files are written before the table is created."""

from __future__ import annotations

import base64
import json
import re
from datetime import timedelta
from uuid import uuid4

import pytest

from catalog.models import Tabular
from catalog.services.tables import staging
from catalog.services.tables.staging import StagingTicket
from storage.models import Warehouse
from tenancy.actor import ANONYMOUS
from tenancy.authz.actions import Can
from tests.catalog_fixtures import SCHEMA
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import refuse
from tests.signing_fixtures import (
    BASE,
    HOST,
    add_tabular,
    ask,
    by_location,
    by_ticket,
    to_sign,
)

pytestmark = pytest.mark.django_db

OF_T = f"{BASE}/wh/t/a"
MISSING = "NoSuchTableLocationException"


@pytest.fixture
def catalog(signing: Warehouse) -> ApiClient:
    client = ApiClient(f"/catalog/v1/{signing.pk}")
    assert client.post("/namespaces", {"namespace": ["ns"]}).status == 200
    return client


def stage(catalog: ApiClient) -> tuple[str, str]:
    """Stage a table and return the signer's address and the address of a file of the table."""
    response = catalog.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA, "stage-create": True})
    assert response.status == 200, response.body
    config, location = response.json()["config"], response.json()["metadata"]["location"]
    assert config["signer.endpoint"] == config["s3.signer.endpoint"]
    return f"/catalog/{config['s3.signer.endpoint']}", f"http://{HOST}/{location.removeprefix('s3://')}/a"


def test_a_staged_table_is_written_and_read(catalog: ApiClient, signing: Warehouse) -> None:
    signer, uri = stage(catalog)
    for method in ("GET", "PUT"):
        assert ask(signer, method, uri).status == 200
        assert ask(signer, method, f"{uri.rpartition('/')[0]}2/a").refused(400, "RequestUriMismatch")
        assert ask(by_location(signing), method, uri).refused(400, MISSING)


def test_once_it_is_there_it_is_a_table_as_others(
    catalog: ApiClient, signing: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer, uri = stage(catalog)
    location = f"s3://{uri.removeprefix(f'http://{HOST}/').rpartition('/')[0]}"
    created = add_tabular(signing, "t", location=location)
    assert ask(signer, "PUT", uri).status == 200
    refuse(monkeypatch, Can.USE, Can.CREATE_TABLE)
    assert ask(signer, "PUT", uri).refused(400, MISSING)
    created.delete()
    assert ask(signer, "PUT", uri).status == 200
    refuse(monkeypatch, Can.USE, Can.GET_METADATA)
    assert ask(signer, "PUT", uri).refused(403, "NamespaceActionForbidden", "create_table")
    refuse(monkeypatch, Can.USE)
    assert ask(signer, "PUT", uri).refused(400, MISSING)


@pytest.mark.parametrize("where", ["", "/below"])
def test_nothing_is_signed_where_others_came_to_be(catalog: ApiClient, signing: Warehouse, where: str) -> None:
    signer, uri = stage(catalog)
    location = f"s3://{uri.removeprefix(f'http://{HOST}/').rpartition('/')[0]}"
    add_tabular(signing, "v", location=f"{location}{where}", kind=Tabular.Kind.VIEW)
    assert ask(signer, "PUT", uri).refused(400, MISSING)


def test_nothing_is_signed_for_a_dropped_namespace(catalog: ApiClient) -> None:
    signer, uri = stage(catalog)
    assert catalog.delete("/namespaces/ns").status == 204
    assert ask(signer, "PUT", uri).refused(400, MISSING)


def test_tickets_of_others(catalog: ApiClient, signing: Warehouse, callers: NamedCallers) -> None:
    location = f"{signing.location}/t"
    callers.user("alice")
    ticket = StagingTicket.of(actor=ANONYMOUS, warehouse_id=signing.pk, levels=("ns",), location=location).encode()
    alice = CallerClient(by_ticket(signing, ticket), "alice")
    assert alice.post("", to_sign("PUT", OF_T)).refused(400, MISSING)


def test_tickets_of_other_warehouses(catalog: ApiClient, signing: Warehouse) -> None:
    location = f"{signing.location}/t"
    ticket = StagingTicket.of(actor=ANONYMOUS, warehouse_id=uuid4(), levels=("ns",), location=location).encode()
    assert ask(by_ticket(signing, ticket), "PUT", OF_T).refused(400, MISSING)


def test_tickets_that_are_none(catalog: ApiClient, signing: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    good, uri = stage(catalog)
    ticket = good.split("/")[6]
    assert re.fullmatch(r"[A-Za-z0-9_:-]+", ticket)
    head, _, tail = ticket.partition(":")
    members = json.loads(base64.urlsafe_b64decode(head + "=="))
    members[3] = f"{signing.location}/other"
    forged = base64.urlsafe_b64encode(json.dumps(members).encode()).decode().strip("=") + ":" + tail
    for bad in ("", "x", ticket[:-1], forged, ticket + "x", "x" * 100_000, ":::"):
        assert ask(good.replace(ticket, bad), "PUT", uri).refused(400, "InvalidStagingTicket"), bad[:50]
    monkeypatch.setattr(staging, "TICKET_LIFETIME", timedelta(seconds=-1))
    assert ask(good, "PUT", uri).refused(400, "InvalidStagingTicket")


def test_no_ticket_without_a_request_for_signing(catalog: ApiClient) -> None:
    response = ApiClient(catalog.base).post(
        "/namespaces/ns/tables",
        {"name": "t", "schema": SCHEMA, "stage-create": True},
        **{"x-iceberg-access-delegation": "client-managed"},
    )
    assert not any("signer" in name for name in response.json()["config"])
