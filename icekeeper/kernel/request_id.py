"""The id of the request at hand: in the answer's `x-request-id`, in every log line, in the events it causes."""

from __future__ import annotations

from contextvars import ContextVar

from icekeeper.kernel.ids import new_id, parse_id

_current: ContextVar[str | None] = ContextVar("request_id", default=None)


def current_request_id() -> str | None:
    """The id of the request that this code runs for; None outside requests (commands, workers)."""
    return _current.get()


def choose_request_id(header: str | None) -> str:
    """What the client sent when that is a UUID, in canonical form, else a fresh UUIDv7."""
    given = parse_id(header) if header else None
    return str(given or new_id())


def set_request_id(request_id: str | None) -> None:
    """Bind `request_id` to the code that runs next on this thread; None when the request is over."""
    _current.set(request_id)
