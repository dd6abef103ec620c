"""Headers and encodings of responses: compression, caching, browsers, request ids, errors."""

from __future__ import annotations

import gzip
from uuid import UUID

import pytest

from tests.server.bare_server_fixtures import BareServer
from tests.server.raw_client_fixtures import RawClient

LARGE = "/catalog/v1/large"
ORIGIN = "Origin: https://console.example.com"


@pytest.mark.parametrize(
    "accept", ["gzip", "deflate, gzip;q=0.5", "*", "GZIP", "br;q=1.0, gzip;q=0.8, *;q=0.1", "x-gzip", "gzip; q=1"]
)
def test_large_responses_are_compressed(client: RawClient, accept: str) -> None:
    plain = client.get(LARGE)
    packed = client.get(LARGE, f"Accept-Encoding: {accept}")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) * 5 < len(plain.body)
    assert packed.headers["Vary"] == plain.headers["Vary"]
    assert "Accept-Encoding" in packed.headers["Vary"]


@pytest.mark.parametrize("accept", ["", "identity", "gzip;q=0", "br, deflate", "*;q=0", "gzip;q=0, *", "gzip;q=x"])
def test_compression_is_not_forced(client: RawClient, accept: str) -> None:
    response = client.get(LARGE, f"Accept-Encoding: {accept}")
    assert "Content-Encoding" not in response.headers
    assert "Accept-Encoding" in response.headers["Vary"]


def test_small_responses_and_head_are_not_compressed(client: RawClient) -> None:
    assert "Content-Encoding" not in client.get("/catalog/v1/echo", "Accept-Encoding: gzip").headers
    assert "Content-Encoding" not in client.get(LARGE, "Accept-Encoding: gzip", method="HEAD").headers


def test_etag_of_a_compressed_response_is_weak(client: RawClient) -> None:
    weak = client.get(f"{LARGE}?etag=W/%22a%22", "Accept-Encoding: gzip")
    strong = client.get(f"{LARGE}?etag=%22a%22", "Accept-Encoding: gzip")
    assert weak.headers["ETag"] == strong.headers["ETag"] == 'W/"a"'
    assert client.get(f"{LARGE}?etag=%22a%22").headers["ETag"] == '"a"'


def test_cache_headers(client: RawClient) -> None:
    for target in ("/catalog/v1/echo", "/catalog/v1/nope", "/catalog/v1/framework"):
        headers = client.get(target).headers
        assert headers["Cache-Control"] == "private"
        assert {
            "authorization",
            "x-project-id",
            "x-assume-role",
            "x-iceberg-access-delegation",
            "x-icekeeper-extensions",
        } <= set(headers["Vary"].lower().split(", "))


def test_preflight(client: RawClient) -> None:
    response = client.get(
        "/catalog/v1/namespaces/a%2Fb", ORIGIN, "Access-Control-Request-Method: POST",
        "Access-Control-Request-Headers: authorization, x-assume-role", method="OPTIONS",
    )  # fmt: skip
    assert response.status == 200
    assert response.headers["access-control-allow-origin"] == "https://console.example.com"
    assert response.headers["access-control-allow-methods"] == "GET, HEAD, POST, PUT, DELETE, OPTIONS"
    allowed = response.headers["access-control-allow-headers"].split(", ")
    assert {"authorization", "x-project-id", "x-assume-role", "if-none-match", "x-iceberg-access-delegation"} <= set(
        allowed
    )


@pytest.mark.parametrize("target", ["/catalog/v1/echo", "/catalog/v1/nope", "/catalog/v1/fail", "/catalog/../x"])
def test_browsers_may_read_responses_and_errors_alike(client: RawClient, target: str) -> None:
    headers = client.get(target, ORIGIN).headers
    assert headers["access-control-allow-origin"] == "https://console.example.com"
    assert "etag" in headers["access-control-expose-headers"]


def test_other_origins_are_not_allowed(client: RawClient) -> None:
    assert "access-control-allow-origin" not in client.get("/catalog/v1/echo", "Origin: https://evil.example").headers


@pytest.mark.parametrize(
    "given",
    [
        "0198C0DE-0000-7000-8000-00000000ABCD",
        "42",
        "{0198c0de-0000-7000-8000-00000000abcd}",
        "trino 20261122_213045_00003_ab12c",
        '"quoted", \\ {"level":"FORGED"}',
        "x" * 128,
    ],
)
def test_given_request_id(client: RawClient, given: str) -> None:
    response = client.get("/catalog/v1/echo", f"x-request-id: {given}")
    assert response.headers["X-Request-Id"] == response.json["request_id"] == given


@pytest.mark.parametrize("given", ["", "   ", "x" * 129, "x" * 5000, "a\tb", "prüfung", "a\u0085b"])
def test_fresh_request_id(client: RawClient, given: str) -> None:
    response = client.get("/catalog/v1/echo", f"x-request-id: {given}")
    assert UUID(response.headers["X-Request-Id"]).version == 7
    assert response.headers["X-Request-Id"] == response.json["request_id"] != given


@pytest.mark.parametrize(
    ("target", "method", "status", "kind"),
    [
        ("/catalog/v1/nope", "GET", 404, "NotFoundException"),
        ("/nope", "GET", 404, "NotFoundException"),
        ("/catalog/v1/only-get", "DELETE", 405, "MethodNotAllowedException"),
        ("/catalog/v1/framework", "DELETE", 405, "MethodNotAllowedException"),
        ("/catalog/v1/fail", "GET", 500, "InternalServerError"),
        ("/page/fail", "GET", 500, "InternalServerError"),
    ],
)
def test_errors_outside_views_are_the_envelope(
    server: BareServer, client: RawClient, target: str, method: str, status: int, kind: str
) -> None:
    response = client.get(target, method=method)
    assert (response.status, response.error_type, response.json["error"]["code"]) == (status, kind, status)
    assert b"secret reason" not in response.body
    if status == 405:
        assert "GET" in response.headers["Allow"]
    error_id = response.json["error"]["stack"][-1].removeprefix("Error ID: ")
    if status == 500:
        assert any(
            "a secret reason" in line["exception"]
            for line in server.lines("icekeeper.errors")
            if line["error_id"] == error_id
        )


@pytest.mark.parametrize(
    ("headers", "url"),
    [
        ((), "http://test"),
        (("X-Forwarded-Proto: https",), "https://test"),
        (("X-Forwarded-Host: ext.example.com", "X-Forwarded-Prefix: /ice"), "https://ext.example.com/ice"),
        (("X-Forwarded-Host: a.example, b.example", "X-Forwarded-Proto: http, https"), "http://a.example"),
    ],
)
def test_base_url(client: RawClient, headers: tuple[str, ...], url: str) -> None:
    assert client.get("/catalog/v1/address", *headers).json == {"base_url": url}


def test_no_host(client: RawClient) -> None:
    client.send(b"GET /catalog/v1/address HTTP/1.1\r\n\r\n")
    response = client.response()
    assert (response.status, response.error_type) == (400, "NoHostHeader")
