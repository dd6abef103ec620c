"""Reading another catalog that is busy, unusual or hostile: a server of this process with scripted responses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from catalog.models import Tabular
from catalog.services.tables.bulk_register import ImportEntry
from icekeeper.kernel.errors.types import BadRequest
from management.table_import.rest_client import RestClient, SourceAccess, read_headers, read_one_line, read_secret
from management.table_import.rest_source import RestCatalog
from management.table_import.source import (
    NamespaceEntry,
    NamespaceFilter,
    SourceFailed,
    SourceUnreachable,
    UnreadableEntry,
)

Response = tuple[int, dict[str, str], bytes]
CONFIG = {"defaults": {"prefix": "default"}, "overrides": {"prefix": "wh%7C1"}}
TABLE = Tabular.Kind.TABLE
VIEW = Tabular.Kind.VIEW


class Scripted(ThreadingHTTPServer):
    """Returns the response for `METHOD path` in `responses`, items of a list in turn; records the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.responses: dict[str, Any] = {}
        self.asked: list[tuple[str, dict[str, str], dict[str, list[str]], bytes]] = []

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/catalog"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close the connection early; other errors show in the client's result."""

    def paths(self) -> list[str]:
        return [path for path, *_ in self.asked]


class _Handler(BaseHTTPRequestHandler):
    server: Scripted
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._response("GET")

    def do_POST(self) -> None:
        self._response("POST")

    def _response(self, method: str) -> None:
        parts = urlsplit(self.path)
        key = f"{method} {parts.path.removeprefix('/catalog/v1')}"
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = parse_qs(parts.query, keep_blank_values=True)
        self.server.asked.append((key, dict(self.headers), query, body))
        response = self.server.responses.get(key, (404, {}, b"{}"))
        if isinstance(response, list):
            response = response.pop(0)
        if callable(response):
            response = response(query)
        status, headers, content = response if isinstance(response, tuple) else (200, {}, json.dumps(response).encode())
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def other() -> Iterator[Scripted]:
    with Scripted() as server:
        server.responses["GET /config"] = CONFIG
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def source(other: Scripted) -> Iterator[Callable[..., RestCatalog]]:
    clients = []

    def create(*chosen: tuple[str, ...], access: SourceAccess | None = None, limit: int = 1_000_000) -> RestCatalog:
        client = RestClient(other.uri, access=access or SourceAccess(), connections=2, backoff=0.0, limit=limit)
        clients.append(client)
        return RestCatalog(client, warehouse="main", namespace_filter=NamespaceFilter(list(chosen)))

    yield create
    for client in clients:
        client.close()


def at(path: str) -> str:
    return f"GET /wh%7C1/namespaces{path}"


def described(items: Any) -> list[Any]:
    """Return items in a short form."""
    found: list[Any] = []
    for item in items:
        match item:
            case NamespaceEntry():
                found.append((item.levels, item.properties))
            case ImportEntry():
                found.append((item.kind.value, item.levels, item.name))
            case UnreadableEntry():
                found.append((item.where, item.error.message))
    return found


def test_pages_branches_and_views(other: Scripted, source: Any) -> None:
    def namespaces(query: dict[str, list[str]]) -> dict[str, Any]:
        if query.get("parent") == ["a"]:
            return {"namespaces": [["a", "x.y"]]}
        if query.get("parent"):
            return {"namespaces": []}
        if query["pageToken"] == ["two"]:
            return {"namespaces": [["c/d"]], "next-page-token": ""}
        return {"namespaces": [["a"], ["dropped"]], "next-page-token": "two"}

    other.responses |= {
        at(""): namespaces,
        at("/a"): {"namespace": ["a"], "properties": {"k": "v"}},
        at("/a%1Fx.y"): {"namespace": ["a", "x.y"], "properties": None},
        at("/c%2Fd"): {"namespace": ["c/d"]},
        at("/a/tables"): [
            {"identifiers": [{"namespace": ["a"], "name": "t1"}], "next-page-token": "more"},
            {"identifiers": [{"namespace": ["a"], "name": "t2"}], "next-page-token": None},
        ],
        at("/a/views"): {"identifiers": [{"namespace": ["a"], "name": "v"}]},
        at("/c%2Fd/tables"): {"identifiers": [{"namespace": ["c/d"], "name": "t/3"}]},
    }
    assert described(source().items()) == [
        (("a",), {"k": "v"}),
        ("table", ("a",), "t1"),
        ("table", ("a",), "t2"),
        ("view", ("a",), "v"),
        (("a", "x.y"), None),
        (("c/d",), None),
        ("table", ("c/d",), "t/3"),
    ]
    assert other.asked[0][2] == {"warehouse": ["main"]}
    assert [query["pageToken"] for path, _, query, _ in other.asked if path == at("/a/tables")] == [[""], ["more"]]
    assert {query["pageSize"][0] for path, _, query, _ in other.asked if path.endswith("/tables")} == {"500"}


def test_a_catalog_that_spells_a_namespace_in_several_ways(other: Scripted, source: Any) -> None:
    def namespaces(query: dict[str, list[str]]) -> dict[str, Any]:
        below = {"Sales": [["sales", "eu"]], "sales": [["sales", "eu"]], "Sales\x1feu": [["SALES", "EU", "n"]]}
        odd = [["sales", "eu", "x"], [7, "x"], [None, "x"], ["other", "x"], ["sales"], []]
        return {
            "namespaces": [*below.get(query.get("parent", [""])[0], []), *odd] if "parent" in query else [["Sales"]]
        }

    other.responses |= {
        at(""): namespaces,
        at("/Sales"): {"properties": {"k": "v"}},
        at("/Sales%1Feu"): {"properties": {}},
        at("/Sales%1Feu/tables"): {"identifiers": [{"namespace": ["sales", "eu"], "name": "t"}]},
        at("/Sales%1Feu%1Fn"): {"properties": {}},
        at("/sales"): {"properties": {}},
        at("/sales%1Feu"): {"properties": {}},
    }
    assert described(source().items()) == [
        (("Sales",), {"k": "v"}),
        (("Sales", "eu"), {}),
        ("table", ("Sales", "eu"), "t"),
        (("Sales", "eu", "n"), {}),
    ]
    assert described(source(("sales",)).items()) == [(("sales",), {}), (("sales", "eu"), {})]


def test_views_are_not_listed_where_unsupported(other: Scripted, source: Any) -> None:
    other.responses |= {
        "GET /config": CONFIG | {"endpoints": ["GET /v1/{prefix}/namespaces"]},
        at(""): {"namespaces": [["a"]]},
        at("/a"): {"properties": {}},
    }
    assert described(source().items()) == [(("a",), {})]
    assert not any(path.endswith("/views") for path in other.paths())


def test_the_separator_of_the_other_catalog(other: Scripted, source: Any) -> None:
    settings = {"prefix": "", "namespace-separator": "%2E"}
    other.responses |= {"GET /config": {"overrides": settings}, "GET /namespaces/a.b": {"properties": {}}}
    other.responses |= {"GET /namespaces/a": {"properties": {}}}
    assert described(source(("a", "b")).items()) == [(("a",), {}), (("a", "b"), {})]


def test_the_location_of_a_table(other: Scripted, source: Any) -> None:
    catalog = source()
    catalog._configure()
    table = ImportEntry(TABLE, ("a", "b"), "t+ /%", None)
    other.responses[at("/a%1Fb/tables/t%2B%20%2F%25")] = {"metadata-location": "s3://b/m.json", "metadata": {}}
    assert catalog.locate(table).metadata_location == "s3://b/m.json"
    assert other.asked[-1][2] == {"snapshots": ["refs"]}
    assert catalog.locate(ImportEntry(TABLE, ("a",), "dropped", None)) is None
    other.responses[at("/a/views/v")] = {"metadata-location": None}
    with pytest.raises(SourceFailed, match=r"returned no metadata-location of a\.v"):
        catalog.locate(ImportEntry(VIEW, ("a",), "v", None))


def test_requests_to_a_busy_catalog_are_retried(other: Scripted, source: Any) -> None:
    busy: list[Any] = [(429, {"Retry-After": "0"}, b""), (503, {}, b""), (500, {}, b""), (502, {}, b"")]
    other.responses |= {at(""): [*busy, {"namespaces": []}]}
    assert described(source().items()) == []
    assert other.paths().count(at("")) == 5


def test_a_failing_part_is_reported_and_the_rest_continues(other: Scripted, source: Any) -> None:
    other.responses |= {
        at(""): {"namespaces": [["a"], ["b"], ["c"]]},
        at("/a"): (403, {}, b'{"error": {"message": "no"}}'),
        at("/a/tables"): {"identifiers": [{"namespace": ["a"], "name": "never asked for"}]},
        at("/b"): {"properties": {}},
        at("/b/tables"): (503, {}, b""),
        at("/c"): {"properties": {}},
        at("/c/tables"): {"identifiers": [{"namespace": ["c"], "name": "t"}]},
    }
    uri = other.uri
    assert described(source().items()) == [
        ("namespace a", f"{uri}/v1/wh%7C1/namespaces/a responded with status 403"),
        (("b",), {}),
        ("namespace b, its tables", f"{uri}/v1/wh%7C1/namespaces/b/tables responded with status 503"),
        (("c",), {}),
        ("table", ("c",), "t"),
    ]
    assert other.paths().count(at("/b/tables")) == 6
    assert at("/a/tables") not in other.paths()


def test_hostile_names_never_stand_in_a_path(other: Scripted, source: Any) -> None:
    deep = [["a", "b", "c", "d", "e", "f"]]
    odd: list[Any] = [["."], [".."], ["x\x1b"], [""], [], [7], "text", None, {"a": 1}, ["n" * 300], ["not", "below"]]
    other.responses |= {
        at(""): lambda query: {"namespaces": [["a"], *odd] if "parent" not in query else deep},
        at("/a"): {"properties": {}},
        at("/a/tables"): {"identifiers": [{"namespace": ["a"], "name": ".."}, {"name": "a\x00"}, "text", {"name": 1}]},
    }
    found = described(source().items())
    assert found[0] == (("a",), {})
    assert [where for where, _ in found[1:5]] == ["namespace a, its tables"] * 4
    assert {where for where, _ in found[5:]} == {"the first level, a namespace in it"}
    assert set(other.paths()) == {"GET /config", at(""), at("/a"), at("/a/tables"), at("/a/views")}


def test_a_catalog_that_ignores_parent_is_not_walked_endlessly(other: Scripted, source: Any) -> None:
    other.responses |= {at(""): lambda _: {"namespaces": [["a"]]}, at("/a"): {"properties": {}}}
    assert described(source().items()) == [(("a",), {})]


def test_pages_that_do_not_end(other: Scripted, source: Any) -> None:
    for following in ("same", 7):
        other.responses[at("")] = lambda _, following=following: {"namespaces": [], "next-page-token": following}
        assert described(source().items()) == [
            ("the first level", "The other catalog returned the same page token twice")
        ]


@pytest.mark.parametrize(
    ("response", "message"),
    [
        ((404, {}, b"{}"), "does not exist in the other catalog"),
        ((401, {}, b"{}"), "denied access"),
        ((403, {}, b"{}"), "responded with status 403"),
        ((302, {"Location": "http://127.0.0.1:1/"}, b""), "redirects: use the URI"),
        ((200, {}, b"<html>"), "responded with invalid JSON"),
        ((200, {}, b"[1]"), "did not respond with a JSON object"),
        ((200, {}, b'{"a": "' + b"x" * 2_000_000 + b'"}'), "more than 1000000 bytes"),
        ((200, {}, b'{"overrides": {"prefix": "../.."}}'), "prefix"),
        ((200, {}, b'{"overrides": {"prefix": "a?b"}}'), "prefix"),
    ],
)
def test_a_configuration_that_is_of_no_use(other: Scripted, source: Any, response: Response, message: str) -> None:
    other.responses["GET /config"] = response
    with pytest.raises(SourceFailed, match=message):
        list(source().items())
    assert other.paths() == ["GET /config"]


def test_connection_refused() -> None:
    client = RestClient("http://127.0.0.1:1/catalog", access=SourceAccess(), connections=1, backoff=0.0, limit=1000)
    with pytest.raises(SourceUnreachable, match="cannot be reached: ConnectionError"):
        client.get("v1/config")
    client.close()


def test_a_token_and_headers_go_with_every_request(
    other: Scripted, source: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login another password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    other.responses[at("")] = {"namespaces": []}
    list(source(access=SourceAccess(token="t0k3n", headers={"X-Realm": "POLARIS"})).items())
    assert {headers["Authorization"] for _, headers, _, _ in other.asked} == {"Bearer t0k3n"}
    assert {headers["X-Realm"] for _, headers, _, _ in other.asked} == {"POLARIS"}
    other.asked.clear()
    list(source().items())
    assert not any("Authorization" in headers for _, headers, _, _ in other.asked)


def test_a_credential_buys_a_token_and_another_when_it_expired(other: Scripted, source: Any) -> None:
    other.responses |= {
        "POST /oauth/tokens": [{"access_token": "first"}, {"access_token": "second"}],
        "GET /config": [(401, {}, b"{}"), CONFIG],
        at(""): {"namespaces": []},
    }
    list(source(access=SourceAccess(credential="root:s3cr:t", scope="PRINCIPAL_ROLE:ALL")).items())
    assert other.paths() == ["POST /oauth/tokens", "GET /config", "POST /oauth/tokens", "GET /config", at("")]
    assert [headers.get("Authorization") for _, headers, _, _ in other.asked] == [
        None, "Bearer first", None, "Bearer second", "Bearer second",
    ]  # fmt: skip
    assert parse_qs(other.asked[0][3].decode()) == {
        "grant_type": ["client_credentials"],
        "client_id": ["root"],
        "client_secret": ["s3cr:t"],
        "scope": ["PRINCIPAL_ROLE:ALL"],
    }


def test_a_credential_that_buys_nothing(other: Scripted, source: Any) -> None:
    errors: list[Any] = [(400, {}, b'{"error": "s3cret is wrong"}'), {"token": "x"}, (401, {}, b"")]
    other.responses["POST /oauth/tokens"] = list(errors)
    for _ in errors:
        with pytest.raises(SourceUnreachable) as refused:
            list(source(access=SourceAccess(credential="id:s3cret")).items())
        assert "s3cret" not in refused.value.message
    assert set(other.paths()) == {"POST /oauth/tokens"}


@pytest.mark.parametrize(
    "uri", ["", "ftp://host", "http://", "https://user:secret@host/catalog", "http://host/?a=b", "http://host/#x"]
)
def test_invalid_addresses(uri: str) -> None:
    with pytest.raises(BadRequest) as refused:
        RestClient(uri, access=SourceAccess(), connections=1, limit=1000)
    assert "secret" not in refused.value.message
    with pytest.raises(BadRequest):
        RestClient(
            "http://host", access=SourceAccess(credential="a:b", oauth2_uri=uri or "x"), connections=1, limit=1000
        )


def test_secrets_and_headers(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"
    path.write_text("  a token\n")
    monkeypatch.setenv("HEADERS", "X-One: 1\n\n  x-two:  2 3  ")
    assert read_secret(None) is None
    assert read_one_line(f"file:{path}") == "a token"
    assert read_headers("env:HEADERS") == {"X-One": "1", "x-two": "2 3"}
    assert read_headers(None) == {}
    path.write_bytes(b"\xff")
    for location in ("token", "env:", "env:NOT_SET_ANYWHERE", "file:", f"file:{tmp_path}", f"file:{path}"):
        with pytest.raises(BadRequest):
            read_secret(location)
    for text in ("no colon", ": value", "X: a\n b: c d\nbad header: 1", "X-É: 1", "X: é"):
        monkeypatch.setenv("HEADERS", text)
        with pytest.raises(BadRequest, match="must contain lines such as"):
            read_headers("env:HEADERS")
