from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest

from icekeeper.http.request_body import limit_body
from icekeeper.kernel.errors.types import BadRequest, BodyTooLarge, RequestTimeout


def _environ(body: bytes, **more: str) -> dict[str, Any]:
    return {"wsgi.input": BytesIO(body), **more}


def test_a_body_is_read_in_any_way_and_never_beyond_its_length() -> None:
    environ = _environ(b"one\ntwo\nthree" + b"NEXT REQUEST", CONTENT_LENGTH="13")
    limit_body(environ, 13)
    stream = environ["wsgi.input"]
    assert stream.readline() == b"one\n"
    assert stream.read(2) == b"tw"
    assert stream.read() == b"o\nthree"
    assert stream.read() == stream.readline() == stream.read(5) == b""


def test_the_length_is_checked_before_the_body_is_read() -> None:
    environ = _environ(b"x" * 14, CONTENT_LENGTH="14")
    source = environ["wsgi.input"]
    with pytest.raises(BodyTooLarge, match="13 bytes"):
        limit_body(environ, 13)
    assert source.tell() == 0
    assert environ["wsgi.input"].read() == b""


@pytest.mark.parametrize("length", ["-1", "+1", "1.0", "0x1", " 1", "1,1", "\u0661", "9" * 30])
def test_malformed_length(length: str) -> None:
    with pytest.raises(BadRequest, match="Content-Length"):
        limit_body(_environ(b"x", CONTENT_LENGTH=length), 10)


@pytest.mark.parametrize("environ", [{}, {"CONTENT_LENGTH": ""}])
def test_no_length_is_no_body(environ: dict[str, str]) -> None:
    full = _environ(b"left over", **environ)
    limit_body(full, 10)
    assert full["wsgi.input"].read() == b""


def test_a_chunked_body_gets_a_length() -> None:
    environ = _environ(b"x" * 200_000, HTTP_TRANSFER_ENCODING="chunked")
    limit_body(environ, 200_000)
    assert environ["CONTENT_LENGTH"] == "200000"
    assert "HTTP_TRANSFER_ENCODING" not in environ
    assert len(environ["wsgi.input"].read()) == 200_000


def test_a_chunked_body_over_the_limit_is_not_collected() -> None:
    environ = _environ(b"x" * 1_000_000, HTTP_TRANSFER_ENCODING="chunked")
    source = environ["wsgi.input"]
    with pytest.raises(BodyTooLarge):
        limit_body(environ, 100_000)
    assert source.tell() <= 200_000


def test_a_short_body_is_an_error() -> None:
    environ = _environ(b'{"a": 1}', CONTENT_LENGTH="20")
    limit_body(environ, 100)
    with pytest.raises(BadRequest, match="ended before"):
        environ["wsgi.input"].read()


def test_a_stalled_body_is_a_timeout() -> None:
    class Stalled(BytesIO):
        def read(self, *_: object) -> bytes:
            raise TimeoutError

    environ: dict[str, Any] = {"wsgi.input": Stalled(), "CONTENT_LENGTH": "5"}
    limit_body(environ, 100)
    with pytest.raises(RequestTimeout):
        environ["wsgi.input"].read()


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "br", "gzip, identity", "deflate"])
def test_compressed_bodies_are_refused(coding: str) -> None:
    with pytest.raises(BadRequest, match="Content-Encoding"):
        limit_body(_environ(b"x", CONTENT_LENGTH="1", HTTP_CONTENT_ENCODING=coding), 10)
