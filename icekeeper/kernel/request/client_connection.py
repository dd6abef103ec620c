"""Which connection the request at hand came over, so that a client that comes back at once can be recognised."""

from __future__ import annotations

from contextvars import ContextVar

_current: ContextVar[str | None] = ContextVar("client_connection", default=None)


def current_client_connection() -> str | None:
    """Address and port of the other end (a client's, or a proxy's); None outside requests."""
    return _current.get()


def set_client_connection(peer: str | None) -> None:
    """Bind `peer` to the code that runs next on this thread."""
    _current.set(peer)
