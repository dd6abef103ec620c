"""The access pages of the console with a real OpenFGA: open the tab, grant, explain, revoke."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.core import signals
from django.db import close_old_connections
from django.test import Client

from storage.models import Warehouse
from tenancy.authz.openfga.store import openfga_store
from tests.console.access.conftest import new_client
from tests.console.access.lake import Lake, create_lake
from tests.openfga_fixtures import deliver_as_recorded

pytestmark = pytest.mark.django_db


@pytest.fixture
def lake(by_openfga: object, warehouse: Warehouse) -> Iterator[Lake]:
    yield create_lake(warehouse)
    for signal in (signals.request_started, signals.request_finished):
        signal.disconnect(close_old_connections)


def explained(client: Client, lake: Lake) -> str:
    deliver_as_recorded(openfga_store())  # the transaction of a test is never committed
    query = {"who": "user:local~guest", "action": "read_data"}
    return client.get(lake.form("lines", "explain"), query).content.decode()


def test_grant_explain_and_revoke(lake: Lake) -> None:
    deliver_as_recorded(openfga_store())
    client = new_client("steward")
    assert 'id="grants"' in client.get(lake.url("lines")).content.decode()
    assert "Denied" in explained(client, lake)
    grant = {"grantee": "user:local~guest", "privilege": "select"}
    assert client.post(lake.form("lines", "grant"), grant).status_code == 302
    text = explained(client, lake)
    assert "Allowed" in text
    assert "still being delivered" not in text
    preview = client.post(lake.form("lines", "preview"), {"principal": "user:local~guest", "privilege": "select"})
    digest = re.search(r'name="digest" value="(\w+)"', preview.content.decode())
    assert digest is not None
    save = {"revoke": "select user:local~guest", "digest": digest[1]}
    assert client.post(lake.form("lines", "save"), save).status_code == 302
    assert "Denied" in explained(client, lake)
    assert new_client("guest").get(lake.url("lines")).status_code == 404
