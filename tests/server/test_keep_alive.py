"""After every response the connection either carries the next request or is closed."""

from __future__ import annotations

import pytest

from tests.server.bare_server_fixtures import BareServer
from tests.server.raw_client_fixtures import RawClient

ECHO = "/catalog/v1/echo"


def _follows(client: RawClient) -> bool:
    """Return whether the next request on the connection is parsed as one."""
    response = client.get(f"{ECHO}?second")
    return response.status == 200 and response.json["query"] == "second"


def test_many_requests_share_a_connection(client: RawClient) -> None:
    for number in range(20):
        assert client.get(f"{ECHO}?n={number}").json["query"] == f"n={number}"


def test_an_unread_body_is_discarded(client: RawClient) -> None:
    body = b"GET /catalog/v1/fail HTTP/1.1\r\n\r\n"
    client.send(b"POST /catalog/v1/ignore-body HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert client.response().json == {"read": False}
    assert _follows(client)


@pytest.mark.parametrize("target", ["/catalog/v1/nope", "/catalog/v1/%2e%2e/x", "/nope", "/catalog/v1/only-get"])
def test_the_body_of_a_rejected_request_is_not_read_as_a_request(client: RawClient, target: str) -> None:
    body = b"GET /catalog/v1/fail HTTP/1.1\r\n\r\n"
    client.send(f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    assert client.response().status in {400, 404, 405}
    assert _follows(client)


def test_a_long_unread_body_is_discarded(client: RawClient) -> None:
    client.send(b"POST /catalog/v1/ignore-body HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n\r\n" + b"x" * 90_000)
    assert client.response().json == {"read": False}
    assert _follows(client)


def test_a_chunked_body_reaches_the_view(client: RawClient) -> None:
    client.send(b"POST /catalog/v1/echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    client.send(b"6\r\n world\r\n0\r\n\r\n")
    assert client.response().json["body"] == "hello world"
    assert _follows(client)


def test_an_empty_chunked_body_is_an_empty_body(client: RawClient) -> None:
    client.send(b"POST /catalog/v1/echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert client.response().json["body"] == ""
    assert _follows(client)


def test_pipelined_requests_get_responses_in_order(client: RawClient) -> None:
    one = b"GET /catalog/v1/echo?1 HTTP/1.1\r\nHost: x\r\n\r\n"
    client.send(one + one.replace(b"?1", b"?2") + one.replace(b"?1", b"?3"))
    assert [client.response().json["query"] for _ in range(3)] == ["1", "2", "3"]


def test_a_pipelined_request_may_arrive_in_parts(client: RawClient) -> None:
    one = b"GET /catalog/v1/echo?1 HTTP/1.1\r\nHost: x\r\n\r\n"
    client.send(one + one[:20])
    assert client.response().json["query"] == "1"
    client.send(one[20:])
    assert client.response().json["query"] == "1"


def test_head_and_bodiless_statuses_send_no_body(client: RawClient) -> None:
    head = client.get("/catalog/v1/large", method="HEAD")
    assert head.status == 200
    assert int(head.headers["Content-Length"]) > 1024
    missing = client.get("/catalog/v1/no-such-thing", method="HEAD")
    assert (missing.status, missing.body) == (404, b"")
    assert client.get("/catalog/v1/nothing").status == 204
    not_modified = client.get("/catalog/v1/not-modified")
    assert (not_modified.status, not_modified.headers["ETag"]) == (304, 'W/"weak"')
    assert "Content-Length" not in not_modified.headers
    assert _follows(client)


def test_header_names_go_out_as_written(client: RawClient) -> None:
    headers = client.get("/catalog/v1/large").headers
    assert {"ETag", "Content-Type", "Content-Length", "Cache-Control", "Vary", "X-Request-Id", "Date"} <= set(headers)
    assert "Server" not in headers


def test_http_1_0_closes_unless_asked(client: RawClient) -> None:
    client.send(b"GET /catalog/v1/echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    kept = client.response()
    assert kept.headers["Connection"] == "keep-alive"
    client.send(b"GET /catalog/v1/echo HTTP/1.0\r\n\r\n")
    assert client.response().closes
    assert client.is_closed()


def test_continue_is_sent_when_the_body_is_wanted(client: RawClient) -> None:
    client.send(b"POST /catalog/v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
    assert client.response().status == 100
    client.send(b"hello")
    assert client.response().json["body"] == "hello"
    assert _follows(client)


def test_no_continue_for_a_body_that_is_refused(client: RawClient) -> None:
    client.send(b"POST /catalog/v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\nExpect: 100-continue\r\n\r\n")
    response = client.response()
    assert (response.status, response.closes) == (413, True)


def test_other_expectations_fail(client: RawClient) -> None:
    response = client.get(ECHO, "Expect: miracles")
    assert (response.status, response.error_type) == (417, "ExpectationFailedException")


def test_idle_connections_are_closed_in_the_end(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        BareServer(tmp_path_factory.mktemp("idle"), ICEKEEPER__SERVER__KEEPALIVE="1s") as server,
        server.client() as used,
        server.client() as unused,
    ):
        assert used.get(ECHO).status == 200
        assert used.is_closed()
        assert unused.is_closed()
