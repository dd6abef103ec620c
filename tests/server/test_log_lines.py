"""Access log: one line per request, valid JSON for any input, and no secrets."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID, uuid4

import orjson

from tenancy.authn.own_tokens.stored_tokens import TokenKind, create_token_text
from tests.server.bare_server_fixtures import BareServer
from tests.server.raw_client_fixtures import RawClient

FIELDS = {
    "timestamp", "level", "logger", "message", "request_id", "method", "route", "path", "status", "duration_ms",
    "bytes", "user", "user_agent",
}  # fmt: skip


def _line(server: BareServer, request_id: str) -> dict[str, Any]:
    """Return the line of a request; it is written just after the response."""
    for _ in range(1000):
        found = [line for line in server.lines() if line["request_id"] == request_id]
        if found:
            assert len(found) == 1
            return found[0]
        time.sleep(0.02)
    raise AssertionError("no line")


def test_content(server: BareServer, client: RawClient) -> None:
    request_id = str(uuid4())
    response = client.get(
        "/catalog/v1/namespaces/a%2Fb?token=topsecret", f"X-Request-Id: {request_id}", "User-Agent: tests/1 é",
        "Authorization: Bearer topsecret",
    )  # fmt: skip
    line = _line(server, request_id)
    assert set(line) == FIELDS
    assert line["timestamp"].endswith("Z")
    assert (line["method"], line["status"], line["level"]) == ("GET", 200, "INFO")
    assert line["route"] == "catalog/v1/namespaces/<levels:name>"
    assert line["path"] == "/catalog/v1/namespaces/a%2Fb"
    assert line["bytes"] == len(response.body)
    assert line["user"] == "anonymous"
    assert 0 < line["duration_ms"] < 30_000
    assert "topsecret" not in orjson.dumps(line).decode()


def test_a_request_id_of_the_client_is_logged_with_a_uuid(server: BareServer, client: RawClient) -> None:
    given = 'job 7 "x\\"}'
    assert client.get("/catalog/v1/echo", f"X-Request-Id: {given}").headers["X-Request-Id"] == given
    line = _line(server, given)
    assert set(line) == (FIELDS | {"request_uuid"})
    assert UUID(line["request_uuid"]).version == 7


def test_the_duration_is_in_milliseconds(server: BareServer, client: RawClient) -> None:
    response = client.get("/catalog/v1/sleep?seconds=0.2")
    assert 200 <= _line(server, response.headers["X-Request-Id"])["duration_ms"] < 30_000


def test_error(server: BareServer, client: RawClient) -> None:
    response = client.get("/catalog/v1/namespaces/%FF")
    line = _line(server, response.headers["X-Request-Id"])
    assert line["error_type"] == "BadRequestException"
    assert line["error_id"] == response.json["error"]["stack"][-1].removeprefix("Error ID: ")
    assert line["error"] == response.json["error"]["message"]


def test_nothing_can_forge_a_line(server: BareServer, client: RawClient) -> None:
    agent = 'x"}\\n{"level":"FORGED"} \u0085 \x7f'.replace("\x7f", "") + "y" * 400
    response = client.get('/catalog/v1/namespaces/"%0A{"level":"FORGED"}' + "z" * 600, f"User-Agent: {agent}")
    line = _line(server, response.headers["X-Request-Id"])
    assert line["level"] == "INFO"
    assert len(line["path"]) == 512
    assert len(line["user_agent"].encode()) <= 256 * 3
    assert all(orjson.loads(text) for text in server.log.read_bytes().splitlines() if text.startswith(b"{"))
    assert not [found for found in server.lines() if found["level"] == "FORGED"]


def test_requests_that_never_became_one(server: BareServer, client: RawClient) -> None:
    client.send(b"BREW /pot?secret HTTP/9.9\r\n\r\n")
    response = client.response()
    line = _line(server, response.headers["X-Request-Id"])
    assert (line["method"], line["path"], line["status"]) == ("BREW", "/pot", 400)
    assert line["error_type"] == "BadRequestException"


def test_compressed_bytes_are_counted_as_sent(server: BareServer, client: RawClient) -> None:
    response = client.get("/catalog/v1/large", "Accept-Encoding: gzip")
    assert _line(server, response.headers["X-Request-Id"])["bytes"] == len(response.body)


def test_a_token_in_an_address_is_not_written(server: BareServer, client: RawClient) -> None:
    """Only its prefix, which identifies the token, is written, also in the error message."""
    stored = create_token_text(TokenKind.SERVICE, uuid4())
    short = "ika_eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
    for written, shown in (
        (stored, f"{stored[:26]}_***"),
        (stored.replace("_", "%5f"), f"iks%5f{stored[4:26]}_***"),
        (short, "ika_***"),
        (short.replace("_", "%5F"), "ika_***"),
        ("ika_table_ikp_other", "ika_table_ikp_other"),
    ):
        for folder in ("/catalog/v1/namespaces/", "/nowhere/"):
            line = _line(server, client.get(f"{folder}{written}/x").headers["X-Request-Id"])
            assert line["path"] == f"{folder}{shown}/x"
            assert written == shown or written[-20:] not in orjson.dumps(line).decode()
        with server.client() as other:
            other.send(f"BREW /{written} HTTP/9.9\r\n\r\n".encode())
            assert _line(server, other.response().headers["X-Request-Id"])["path"] == f"/{shown}"
