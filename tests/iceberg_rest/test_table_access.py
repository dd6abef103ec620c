"""Credentials and signatures for a table's files. Local files need neither, and say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenancy.authz import port
from tenancy.authz.actions import Can
from tests.wsgi_client import ApiClient

pytestmark = pytest.mark.django_db

MakeTable = Callable[..., dict[str, Any]]

TABLE = "/namespaces/ns/tables/t"
REQUEST: dict[str, Any] = {
    "region": "eu-1",
    "uri": "https://s3.example/bucket/key",
    "method": "GET",
    "headers": {"host": ["s3.example"], "x-empty": []},
    "properties": {"a": "b"},
    "body": "",
    "provider": "s3",
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Can, str]]:
    """What the authorization port is asked, all of which it allows."""
    seen: list[tuple[Can, str]] = []

    class Watching(port.AllowAll):
        def allows(self, actor: Any, action: Can, securable_type: Any, object_id: object) -> bool:
            seen.append((action, str(securable_type.value)))
            return True

    monkeypatch.setattr(port, "authorizer", Watching)
    return seen


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(port.AllowAll):
        def allows(self, actor: Any, action: Can, securable_type: Any, object_id: object) -> bool:
            return action in {Can.CREATE_NAMESPACE, Can.CREATE_TABLE}

    monkeypatch.setattr(port, "authorizer", Refusing)


def test_local_files_have_no_credentials(catalog: ApiClient, make_table: MakeTable, asked: list[Any]) -> None:
    make_table()
    asked.clear()
    for query in ("", "?referenced-by=ns%1Fv", "?planId=x", "?referenced-by="):
        answer = catalog.get(f"{TABLE}/credentials{query}")
        assert (answer.status, answer.json()) == (200, {"storage-credentials": []})
    assert set(asked) == {(Can.READ_DATA, "table")}


def test_the_chain_of_views_is_bounded_wherever_it_is_taken(catalog: ApiClient, make_table: MakeTable) -> None:
    loaded = make_table()
    ten = ",".join(f"a%1Fb%1Fv{number}" for number in range(10))
    for target in (TABLE, f"{TABLE}/credentials"):
        assert catalog.get(f"{target}?referenced-by={ten}").status == 200
        for eleven in (f"{ten},ns%1Fv", f"{ten},", "," * 10, "%2C" * 10_000):
            answer = catalog.get(f"{target}?referenced-by={eleven}")
            assert answer.refused(400, "ReferencedByDepthExceeded", "more than 10 views")
    assert catalog.get(f"{TABLE}?referenced-by={ten}").json() == loaded
    assert catalog.get(f"/namespaces/ns/tables/no?referenced-by={ten},x").refused(400, "ReferencedByDepthExceeded")
    assert catalog.get(f"/namespaces/ns/views/no?referenced-by={ten},x").refused(400, "ReferencedByDepthExceeded")


@pytest.mark.parametrize("method", ["PUT", "GET", "HEAD", "POST", "DELETE", "PATCH", "OPTIONS"])
def test_requests_to_local_files_are_not_signed(
    catalog: ApiClient, make_table: MakeTable, asked: list[Any], method: str
) -> None:
    make_table()
    asked.clear()
    assert catalog.post(f"{TABLE}/sign", REQUEST | {"method": method}).refused(400, "UnsupportedStorageType")
    right = Can.READ_DATA if method in {"GET", "HEAD", "OPTIONS"} else Can.WRITE_DATA
    assert asked == [(right, "table")]


def test_only_what_must_be_there_is_needed(catalog: ApiClient, make_table: MakeTable) -> None:
    make_table()
    body = {name: REQUEST[name] for name in ("region", "uri", "method", "headers")}
    absent = {"properties": None, "body": None, "provider": None, "unknown": 1}
    for request in (body, body | absent):
        assert catalog.post(f"{TABLE}/sign", request).refused(400, "UnsupportedStorageType")


@pytest.mark.parametrize(
    "change",
    [
        {"region": None},
        {"region": 7},
        {"uri": None},
        {"uri": ["x"]},
        {"method": None},
        {"method": "TRACE"},
        {"method": "get"},
        {"method": {}},
        {"headers": None},
        {"headers": []},
        {"headers": {"host": "s3.example"}},
        {"headers": {"host": None}},
        {"headers": {"host": [1]}},
        {"properties": {"a": 1}},
        {"properties": []},
        {"body": 7},
        {"provider": []},
    ],
)
def test_a_malformed_request_is_told_so(catalog: ApiClient, make_table: MakeTable, change: dict[str, Any]) -> None:
    make_table()
    answer = catalog.post(f"{TABLE}/sign", REQUEST | change)
    assert answer.refused(400, "BadRequestException", next(iter(change)))


def test_a_large_body_is_read_and_refused(catalog: ApiClient, make_table: MakeTable) -> None:
    make_table()
    body = REQUEST | {"method": "POST", "body": "x" * 10_000_000}
    assert catalog.post(f"{TABLE}/sign", body).refused(400, "UnsupportedStorageType")


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("/namespaces/ns/tables/no", "Table does not exist: ns.no"),
        ("/namespaces/no/tables/t", "Table does not exist: no.t"),
        ("/namespaces/ns%1Ft/tables/sign", "Table does not exist: ns.t.sign"),
        ("/namespaces/ns/tables/t%2Fsign", "Table does not exist: ns.t/sign"),
        ("/namespaces/ns/tables/..%2Ft", "Table does not exist: ns.../t"),
        ("/namespaces//tables/t", "Table does not exist: .t"),
    ],
)
def test_a_missing_table(catalog: ApiClient, make_table: MakeTable, target: str, text: str) -> None:
    make_table()
    assert catalog.get(f"{target}/credentials").refused(404, "NoSuchTableException", text)
    assert catalog.post(f"{target}/sign", REQUEST).refused(404, "NoSuchTableException", text)


def test_who_may_not_read_gets_neither(catalog: ApiClient, forbidden: None, make_table: MakeTable) -> None:
    make_table()
    assert catalog.get(f"{TABLE}/credentials").refused(403, "ForbiddenException", "read_data")
    assert catalog.post(f"{TABLE}/sign", REQUEST).refused(403, "ForbiddenException", "read_data")
    put = REQUEST | {"method": "PUT"}
    assert catalog.post(f"{TABLE}/sign", put).refused(403, "ForbiddenException", "write_data")


def test_config_advertises_credentials_and_no_signing(catalog: ApiClient) -> None:
    config = ApiClient("/catalog/v1").get("/config?warehouse=wh").json()
    table = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
    assert f"GET {table}/credentials" in config["endpoints"]
    assert not any(endpoint.endswith("/sign") for endpoint in config["endpoints"])
