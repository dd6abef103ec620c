"""The event loop reports a body as arrived exactly when gunicorn's parser can read it without waiting."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import ParseException
from gunicorn.http.message import Request
from hypothesis import given
from hypothesis import strategies as st

from icekeeper.kernel.errors.types import BadRequest, BodyTooLarge
from icekeeper.server.body_arrival import MAX_CHUNK_LINE, ExpectedBody, ReceivedBytes, expected_body, expects_continue
from icekeeper.server.sockets import ClientSocket

LIMIT = 1000
HEAD = b"POST /x HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def _expected(head: bytes) -> ExpectedBody:
    return expected_body(bytearray(head), len(head), LIMIT)


def _expects(head: bytes) -> bool:
    return expects_continue(bytearray(head), len(head))


def _read(received: bytes) -> bytes:
    """Return the body that the parser reads; raise TimeoutError when it would wait for more."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ClientSocket(ours, 1.0, 1) as client:
        request = Request(Config(), ReceivedBytes(bytearray(received), client), ("127.0.0.1", 1))
        body: bytes = request.body.read()
        return body


def _arrival(head: bytes, rest: bytes) -> int | None:
    """Return the number of bytes of `rest`, received one by one, after which the body has arrived."""
    received = bytearray(head)
    body = _expected(head)
    for count in range(len(rest) + 1):
        if body.has_arrived(received):
            return count if body.is_awaited else None
        received += rest[count : count + 1]
    return None


@st.composite
def chunked(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A body on the wire, and its content."""
    chunks: Sequence[bytes] = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=6))
    extension = draw(st.sampled_from([b"", b";a=b", b' ; q="1;2"']))
    trailers = draw(st.sampled_from([b"", b"X-Sum: 1\r\n", b"X-A: 1\r\nX-B: 2\r\n"]))
    wire = b"".join(b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
    return wire + b"0\r\n" + trailers + b"\r\n", b"".join(chunks)


@given(chunked())
def test_a_chunked_body_has_arrived_with_its_last_byte(body: tuple[bytes, bytes]) -> None:
    wire, content = body
    assert _arrival(CHUNKED, wire) == len(wire)
    assert _arrival(CHUNKED, wire + b"GET / HTTP/1.1\r\n\r\n") == len(wire)
    assert _read(CHUNKED + wire) == content


@given(st.binary(max_size=60))
def test_an_arrived_body_is_read_or_rejected_without_waiting(rest: bytes) -> None:
    arrived = _arrival(CHUNKED, rest)
    if arrived is not None:
        with suppress(ParseException):
            _read(CHUNKED + rest[:arrived])


@given(chunked(), st.integers(min_value=0, max_value=300), st.binary(min_size=1, max_size=3))
def test_damaged_framing_neither_blocks_nor_is_read_too_early(
    body: tuple[bytes, bytes], at: int, damage: bytes
) -> None:
    wire = bytearray(body[0])
    wire[at : at + len(damage)] = damage
    arrived = _arrival(CHUNKED, bytes(wire))
    if arrived is not None:
        with suppress(ParseException):
            _read(CHUNKED + bytes(wire[:arrived]))


@pytest.mark.parametrize(
    ("fields", "length"),
    [
        (b"", 0),
        (b"Content-Length: 5\r\n", 5),
        (b"content-length:5\r\n", 5),
        (b"CONTENT-LENGTH : \t5 \r\n", 5),
        (b"Content-Length: 1000\r\n", 1000),
        (b"X-Content-Length: 5\r\nX: Content-Length: 5\r\n", 0),
    ],
)
def test_a_sized_body_has_arrived_with_its_last_byte(fields: bytes, length: int) -> None:
    assert _arrival(HEAD + fields + b"\r\n", b"x" * 2000) == length


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 1001\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 5, 5\r\n",
        b"Content-Length: \xb2\r\n",
        b"Content-Length: " + b"0" * 19 + b"\r\n",
        b"Content-Length: 5\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Transfer-Encoding: chunked, chunked\r\n",
    ],
)
def test_a_body_that_is_refused_is_not_awaited(fields: bytes) -> None:
    body = _expected(HEAD + fields + b"\r\n")
    assert body.has_arrived(bytearray(HEAD))
    assert not body.is_awaited


@pytest.mark.parametrize(
    "chunk",
    [
        b"zz\r\n",
        b"-5\r\n",
        b"\r\n",
        b"1_0\r\n",
        b"+1\r\n",
        b" 1\r\n",
        b"1 \r\n",
        b"0x1\r\n",
        b"1" * (MAX_CHUNK_LINE + 1),
    ],
)
def test_a_malformed_chunk_is_not_awaited(chunk: bytes) -> None:
    body = _expected(CHUNKED)
    assert body.has_arrived(bytearray(CHUNKED + chunk))
    assert not body.is_awaited


@pytest.mark.parametrize(
    "wire",
    [b"3e9\r\n", b"1f4\r\n" + b"x" * 500 + b"\r\n1f5\r\n", b"f" * 5000 + b"\r\n", b"1\r\nx\r\n" * 999 + b"2\r\n"],
)
def test_a_chunked_body_over_the_limit(wire: bytes) -> None:
    body = _expected(CHUNKED)
    assert not body.has_arrived(bytearray(CHUNKED + wire))
    assert isinstance(body.error, BodyTooLarge)


def test_framing_may_take_little_more_than_an_eighth_of_the_payload() -> None:
    tiny, large = b"1\r\nx\r\n", b"%x\r\n%b\r\n" % (400_000, b"x" * 400_000)
    for beginning, fits in ((b"", 13_000), (large, 23_000)):
        body = expected_body(bytearray(CHUNKED), len(CHUNKED), 1_000_000)
        received = bytearray(CHUNKED + beginning + tiny * fits)
        assert not body.has_arrived(received)
        assert body.error is None
        received += tiny * 1000
        assert not body.has_arrived(received)
        assert isinstance(body.error, BadRequest)


def test_chunk_extensions_are_framing() -> None:
    body = _expected(CHUNKED)
    line = b"1;" + b"e" * 30_000 + b"\r\nx\r\n"
    assert not body.has_arrived(bytearray(CHUNKED + line * 4))
    assert isinstance(body.error, BadRequest)


@pytest.mark.parametrize(
    ("head", "rest", "size"),
    [
        (HEAD + b"Content-Length: 900\r\n\r\n", b"x" * 100, 800),
        (CHUNKED, b"", 8192),
        (CHUNKED, b"1\r\nx\r\n" * 50, 8192),
        (CHUNKED, b"fff0\r\n" + b"x" * 100, 0xFFF0 - 100 + 2),
    ],
)
def test_one_read_has_few_chunks_and_nothing_of_the_next_request(head: bytes, rest: bytes, size: int) -> None:
    body = expected_body(bytearray(head), len(head), 100_000)
    received = bytearray(head + rest)
    assert not body.has_arrived(received)
    assert body.read_size(received) == size


def test_expectations() -> None:
    assert _expects(HEAD + b"expect: 100-Continue\r\n\r\n")
    assert not _expects(HEAD + b"Expect: miracles\r\n\r\n")
    assert not _expects(HEAD + b"X-Expect: 100-continue\r\n\r\n")


@given(st.binary(max_size=30_000), st.binary(max_size=100))
def test_unread_bytes_belong_to_the_next_request(body: bytes, rest: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, ClientSocket(ours, 1.0, 1) as client:
        head = HEAD + b"Content-Length: %d\r\n\r\n" % len(body)
        source = ReceivedBytes(bytearray(head + body + rest), client)
        request = Request(Config(), source, ("127.0.0.1", 1))
        assert request.body.read() == body
        assert source.take_rest() == rest
        assert source.take_rest() == b""
