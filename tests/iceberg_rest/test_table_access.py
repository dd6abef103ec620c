"""Credentials endpoint for table files; local files need no credentials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenancy.authz.actions import Can
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import forbid, refuse, reported

pytestmark = pytest.mark.django_db

CreateTable = Callable[..., dict[str, Any]]

TABLE = "/namespaces/ns/tables/t"


def test_local_files_have_no_credentials(
    catalog: ApiClient, create_table: CreateTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_table()
    asked = refuse(monkeypatch, *Can).asked
    for query in ("", "?referenced-by=ns%1Fv", "?planId=x", "?referenced-by="):
        response = catalog.get(f"{TABLE}/credentials{query}")
        assert (response.status, response.json()) == (200, {"storage-credentials": []})
    assert asked == [(Can.READ_DATA, "table"), (Can.WRITE_DATA, "table")] * 4


def test_the_chain_of_views_is_bounded_wherever_it_is_taken(catalog: ApiClient, create_table: CreateTable) -> None:
    loaded = create_table()
    ten = ",".join(f"a%1Fb%1Fv{number}" for number in range(10))
    for target in (TABLE, f"{TABLE}/credentials"):
        assert catalog.get(f"{target}?referenced-by={ten}").status == 200
        for eleven in (f"{ten},ns%1Fv", f"{ten},", "," * 10, "," * 10_000):
            response = catalog.get(f"{target}?referenced-by={eleven}")
            assert response.refused(400, "ReferencedByDepthExceeded", "more than 10 views")
    for few in (ten, "%2C" * 10_000):
        assert catalog.get(f"{TABLE}?referenced-by={few}").json() == loaded
    assert catalog.get(f"/namespaces/ns/tables/no?referenced-by={ten},x").refused(400, "ReferencedByDepthExceeded")
    assert catalog.get(f"/namespaces/ns/views/no?referenced-by={ten},x").refused(400, "ReferencedByDepthExceeded")


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("/namespaces/ns/tables/no", "Table does not exist: ns.no"),
        ("/namespaces/no/tables/t", "Table does not exist: no.t"),
        ("/namespaces/ns%1Ft/tables/credentials", "Table does not exist: ns.t.credentials"),
        ("/namespaces/ns/tables/t%2Fcredentials", "Table does not exist: ns.t/credentials"),
        ("/namespaces/ns/tables/..%2Ft", "Table does not exist: ns.../t"),
        ("/namespaces//tables/t", "Table does not exist: .t"),
    ],
)
def test_a_missing_table(catalog: ApiClient, create_table: CreateTable, target: str, text: str) -> None:
    create_table()
    assert catalog.get(f"{target}/credentials").refused(404, "NoSuchTableException", text)


def test_users_who_may_not_read_get_no_credentials(
    catalog: ApiClient, create_table: CreateTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_table()
    forbid(monkeypatch)
    assert catalog.get(f"{TABLE}/credentials").refused(403, "TableActionForbidden", "read_data")
    refuse(monkeypatch, Can.USE)
    hidden, missing = (catalog.get(f"/namespaces/ns/tables/{name}/credentials") for name in ("t", "none"))
    assert hidden.refused(404, "NoSuchTableException")
    assert reported(hidden, "ns.t") == reported(missing, "ns.none")


def test_config_advertises_credentials_and_signing(catalog: ApiClient) -> None:
    config = ApiClient("/catalog/v1").get("/config?warehouse=wh").json()
    table = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
    assert f"GET {table}/credentials" in config["endpoints"]
    assert f"POST {table}/sign" in config["endpoints"]
