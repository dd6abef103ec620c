"""Answers of other servers over HTTP, read within bounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import requests

_PIECE: Final = 65_536


class UnusableResponse(Exception):
    """Why an answer was not read to its end."""


class ResponseTooLarge(UnusableResponse):
    """It has more bytes than whoever asked can use."""


class NoRedirectSession(requests.Session):
    """Follows no redirect. With `allow_redirects=False` requests does not either, but reads and unpacks all of one."""

    def get_redirect_target(self, _answer: requests.Response) -> None:
        return None


def read_body(answer: requests.Response, *, limit: int, until: float) -> bytes:
    """The body of a streamed answer, as it came: compressed ones are refused, for nobody asked for them.

    Received bytes are checked after each read, so a server that sends byte after byte cannot block the thread. Raises
    `ResponseTooLarge` above `limit` bytes, `UnusableResponse` at `until`, seconds on the monotonic clock; and what the
    connection raises.
    """
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise UnusableResponse("sent something compressed, which was not asked for")
    return read_bounded(lambda size: answer.raw.read1(size, decode_content=False), limit=limit, until=until)


def read_bounded(read: Callable[[int], bytes], *, limit: int, until: float) -> bytes:
    """All that `read` gives: up to so many bytes of what has come, none at the end. Raises as `read_body`."""
    body = bytearray()
    while piece := read(_PIECE):
        body += piece
        if len(body) > limit:
            raise ResponseTooLarge(f"sent more than {limit} bytes")
        if time.monotonic() > until:
            raise UnusableResponse("did not send all of its answer in time")
    return bytes(body)
