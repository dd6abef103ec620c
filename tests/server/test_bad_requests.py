"""Malformed requests get the error envelope and the status of the RFCs, and the connection is closed."""

from __future__ import annotations

import time
from pathlib import Path
from uuid import UUID

import pytest

from tests.server.bare_server_fixtures import BareServer
from tests.server.raw_client_fixtures import RawClient, RawResponse

ECHO = b"POST /catalog/v1/echo HTTP/1.1\r\nHost: x\r\n"
SMUGGLED = b"GET /catalog/v1/fail HTTP/1.1\r\nHost: x\r\n\r\n"


def _refused(client: RawClient, status: int, error_type: str = "BadRequestException") -> RawResponse:
    response = client.response()
    assert (response.status, response.error_type, response.json["error"]["code"]) == (status, error_type, status)
    assert response.headers["Content-Type"] == "application/json"
    assert response.json["error"]["stack"][-1].startswith("Error ID: ")
    assert response.headers["X-Request-Id"]
    assert response.closes
    assert client.is_closed()
    return response


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GARBAGE\r\n\r\n",
        b"GET /catalog/v1/echo\r\n\r\n",
        b"GET  /catalog/v1/echo HTTP/1.1\r\n\r\n",
        b"get /catalog/v1/echo HTTP/1.1\r\n\r\n",
        b"GET /catalog/v1/echo HTTP/3.0\r\n\r\n",
        b"GET /catalog/v1/echo HTTP/1.1\nHost: x\n\n",
        b"GET catalog/v1/echo HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /catalog/\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /catalog/v1/echo HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n",
        b"GET /catalog/v1/echo HTTP/1.1\r\nHost: x\r\nA: b\r\n folded\r\n\r\n",
        b"GET /catalog/v1/echo HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET /catalog/v1/echo HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n",
        # Two lengths, or a length that two parsers read differently: the methods of request smuggling.
        ECHO + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        ECHO + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello" + SMUGGLED,
        ECHO + b"Content-Length: 5, 5\r\n\r\nhello" + SMUGGLED,
        ECHO + b"Content-Length: +5\r\n\r\nhello" + SMUGGLED,
        ECHO + b"Content-Length: -1\r\n\r\n" + SMUGGLED,
        ECHO + b"Content-Length: five\r\n\r\nhello" + SMUGGLED,
        ECHO + b"Content-Length: 0x5\r\n\r\nhello" + SMUGGLED,
        ECHO + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        ECHO + b"Transfer-Encoding: gzip\r\n\r\n" + SMUGGLED,
        b"POST /catalog/v1/echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        ECHO + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\nhello\r\n0\r\n\r\n" + SMUGGLED,
        ECHO + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n" + SMUGGLED,
    ],
)
def test_malformed(server: BareServer, client: RawClient, request_bytes: bytes) -> None:
    failures = len([line for line in server.lines() if line["path"] == "/catalog/v1/fail"])
    client.send(request_bytes)
    _refused(client, 400)
    assert len([line for line in server.lines() if line["path"] == "/catalog/v1/fail"]) == failures


def test_the_request_id_of_the_client_is_in_response_and_log(server: BareServer, client: RawClient) -> None:
    client.send(
        b"POST /catalog/v1/echo HTTP/1.1\r\nHost: x\r\nx-request-ID:  job 7/a \r\nContent-Length: 5, 5\r\n\r\nhello"
    )
    assert _refused(client, 400).headers["X-Request-Id"] == "job 7/a"
    [line] = [line for line in server.lines() if line["request_id"] == "job 7/a"]
    assert (line["status"], UUID(line["request_uuid"]).version) == (400, 7)


@pytest.mark.parametrize(
    "rest",
    [
        b"X-Request-ID: \xc3\xa9\r\n\r\n",
        b"X-Request-ID: a\x00b\r\n\r\n",
        b"A: b\r\n\r\n\r\nX-Request-ID: in-the-body\r\n",
    ],
)
def test_a_request_id_that_cannot_be_kept_is_replaced(client: RawClient, rest: bytes) -> None:
    client.send(b"GET /catalog/v1/echo HTTP/1.1\r\nHost: x\r\nHost: y\r\n" + rest)
    assert UUID(_refused(client, 400).headers["X-Request-Id"]).version == 7


def test_unknown_transfer_coding(client: RawClient) -> None:
    client.send(ECHO + b"Transfer-Encoding: br, chunked\r\n\r\n")
    _refused(client, 501, "UnsupportedTransferCodingException")


def test_request_line_too_long(client: RawClient) -> None:
    client.send(b"GET /catalog/v1/" + b"a" * 40_000)
    _refused(client, 414, "UriTooLongException")


def test_long_names_fit(client: RawClient) -> None:
    levels = "%1F".join(["%E5%86%B0" * 255] * 5)
    assert client.get(f"/catalog/v1/namespaces/{levels}").json == ["冰" * 255] * 5


@pytest.mark.parametrize(
    "fields",
    [b"X-Long: " + b"a" * 40_000, b"\r\n".join(b"X-%d: 1" % n for n in range(200)), b"X-Endless: " + b"a" * 200_000],
)
def test_header_fields_too_large(client: RawClient, fields: bytes) -> None:
    client.send(b"GET /catalog/v1/echo HTTP/1.1\r\nHost: x\r\n" + fields + b"\r\n\r\n")
    _refused(client, 431, "RequestHeaderFieldsTooLargeException")


def test_large_tokens_fit(client: RawClient) -> None:
    assert client.get("/catalog/v1/echo", "Authorization: Bearer " + "a" * 20_000).status == 200


@pytest.mark.parametrize("length", [100_001, 10**12, 10**17])
def test_body_over_the_limit_is_refused_before_it_is_read(client: RawClient, length: int) -> None:
    client.send(ECHO + b"Content-Length: %d\r\n\r\n" % length)
    _refused(client, 413, "PayloadTooLargeException")


def test_body_of_the_limit_is_read(client: RawClient) -> None:
    client.send(ECHO + b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000)
    assert len(client.response().json["body"]) == 100_000


def test_length_beyond_any_number(client: RawClient) -> None:
    client.send(ECHO + b"Content-Length: " + b"9" * 4000 + b"\r\n\r\n")
    _refused(client, 400)


def test_chunked_body_over_the_limit(client: RawClient) -> None:
    client.send(ECHO + b"Transfer-Encoding: chunked\r\n\r\n" + b"c350\r\n%b\r\n" % (b"x" * 50_000) * 3)
    _refused(client, 413, "PayloadTooLargeException")


def test_the_response_to_a_large_upload_arrives(server: BareServer) -> None:
    """The client is still sending when the request is rejected; a reset would destroy the response on its way."""
    with server.client() as client:
        client.send(ECHO + b"Content-Length: 150000\r\n\r\n" + b"x" * 150_000)
        _refused(client, 413, "PayloadTooLargeException")


def test_compressed_request(client: RawClient) -> None:
    client.send(ECHO + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello")
    response = client.response()
    assert (response.status, response.error_type) == (400, "BadRequestException")
    assert "Content-Encoding" in response.json["error"]["message"]


def test_identity_is_no_compression(client: RawClient) -> None:
    client.send(ECHO + b"Content-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello")
    assert client.response().json["body"] == "hello"


def test_slow_head(client: RawClient) -> None:
    client.send(b"GET /catalog/v1/echo HTTP/1.1\r\nHost: x\r\n")
    _refused(client, 408, "RequestTimeoutException")


def test_trickled_head(client: RawClient) -> None:
    began = time.monotonic()
    client.trickle(b"GET /catalog/v1/echo HTTP/1.1\r\n" + b"X-A: 1\r\n" * 60, pause=0.1)
    assert time.monotonic() - began < 25, "the head takes 50 seconds to send in full"
    _refused(client, 408, "RequestTimeoutException")


def test_slow_heads_take_no_threads(tmp_path_factory: pytest.TempPathFactory) -> None:
    patient = {"ICEKEEPER__SERVER__READ_TIMEOUT": "60s", "ICEKEEPER__SERVER__THREADS": "2"}
    with (
        BareServer(tmp_path_factory.mktemp("patient"), **patient) as server,
        server.clients(20) as slow,
        server.clients(20),
        server.client() as client,
    ):
        for connection in slow:
            connection.send(b"GET /catalog/v1/echo HTTP/1.1\r\n")
        began = time.monotonic()
        assert client.get("/catalog/v1/echo").status == 200
        assert time.monotonic() - began < 30, "a slow head had to be given up first"


def test_stalled_body(client: RawClient) -> None:
    client.send(ECHO + b"Content-Length: 10\r\n\r\nhello")
    _refused(client, 408, "RequestTimeoutException")


def test_stalled_chunked_body(client: RawClient) -> None:
    client.send(ECHO + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    _refused(client, 408, "RequestTimeoutException")


def test_trickled_body(server: BareServer, client: RawClient) -> None:
    client.send(ECHO + b"Content-Length: 1000\r\n\r\n")
    began = time.monotonic()
    client.trickle(b"x" * 500, pause=0.1)
    assert time.monotonic() - began < 25, "the body takes 50 seconds to send in full"
    request_id = _refused(client, 408, "RequestTimeoutException").headers["X-Request-Id"]
    [line] = [line for line in server.lines() if line["request_id"] == request_id]
    assert (line["method"], line["path"], line["status"]) == ("POST", "/catalog/v1/echo", 408)
    assert line["duration_ms"] < 20_000


def test_a_body_must_arrive_within_the_time_of_the_request(tmp_path: Path) -> None:
    """However fast the client sends, compared to the minimum rate."""
    settings = {"LAKEKEEPER__MAX_REQUEST_TIME": "2s", "ICEKEEPER__SERVER__MIN_TRANSFER_RATE": "1"}
    with BareServer(tmp_path / "home", **settings) as server, server.client() as client:
        client.send(ECHO + b"Content-Length: 1000\r\n\r\n")
        began = time.monotonic()
        client.trickle(b"x" * 500, pause=0.1)
        assert time.monotonic() - began < 25, "the body takes 50 seconds to send in full"
        _refused(client, 408, "RequestTimeoutException")


@pytest.mark.parametrize("framing", [b"Content-Length: 10\r\n\r\n{}", b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"])
def test_a_body_cut_short_is_no_body(client: RawClient, framing: bytes) -> None:
    client.send(ECHO + framing).end_sending()
    response = client.response()
    assert (response.status, response.error_type) == (400, "BadRequestException")
    assert client.is_closed()
