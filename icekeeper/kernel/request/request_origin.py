"""Where the request at hand came from, as the server and the client's headers say, for the records of what it does."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple


class Origin(NamedTuple):
    """`address` is the other end of the connection: a client's, or a proxy's. The headers are as they were sent, in
    WSGI's form of bytes: anybody can write anything into them."""

    address: str | None = None
    forwarded_for: str | None = None
    user_agent: str | None = None


NOWHERE = Origin()
_current: ContextVar[Origin] = ContextVar("request_origin", default=NOWHERE)


def current_origin() -> Origin:
    """`NOWHERE` outside requests (commands, workers)."""
    return _current.get()


def set_request_origin(environ: Mapping[str, Any] | None) -> None:
    """Bind what the WSGI environ says to the code that runs next on this thread; None when the request is over.

    The environ itself is not kept: it holds on to the request's body.
    """
    _current.set(
        NOWHERE
        if environ is None
        else Origin(environ.get("REMOTE_ADDR"), environ.get("HTTP_X_FORWARDED_FOR"), environ.get("HTTP_USER_AGENT"))
    )
