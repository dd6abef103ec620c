"""The current request: its id, origin, deadline, recorded permissions and pending audit rows, in one object a thread.

Code outside requests (commands, workers, tests) has a context of its own, with no id, no origin and no deadline.

The deadline is checked before every statement and every object-store call. A request past it gets a 408, but only
before its write starts: `begin_write` drops the deadline, so that a timeout never interrupts a write. `end_write`
records that something was changed: an error response after it must not claim that nothing was.

A recorded permission may be revoked while the request reads files or waits for a lock. Every write therefore checks
again when it begins (`write_transaction`) and after it waited for a row (`lock_row`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from icekeeper.kernel.errors.types import RequestTimeout
from icekeeper.kernel.ids import new_id, parse_id

MAX_REQUEST_ID_LENGTH: Final = 128
_PRINTABLE: Final = re.compile(rf"[\x20-\x7e]{{1,{MAX_REQUEST_ID_LENGTH}}}")

Recheck = Callable[[list[Any]], None]
"""Checks recorded permissions of one kind again; raises when one no longer holds. It may replace them in the list."""


@dataclass(frozen=True, slots=True)
class RequestId:
    """`text` is what clients send and receive; `uuid` is the same id where only a UUID can be stored."""

    text: str
    uuid: UUID

    def log_fields(self) -> dict[str, str]:
        """Return `request_id`, and `request_uuid` if the text is not a UUID in canonical form."""
        fields = {"request_id": self.text}
        if (uuid := str(self.uuid)) != self.text:
            fields["request_uuid"] = uuid
        return fields


def choose_request_id(header: str | None) -> RequestId:
    """Return the client's id if it is printable ASCII of at most `MAX_REQUEST_ID_LENGTH` characters, else a new UUIDv7.

    An id that is not a UUID gets a new UUID in addition.
    """
    if header is None or header.isspace() or _PRINTABLE.fullmatch(header) is None:
        uuid = new_id()
        return RequestId(str(uuid), uuid)
    return RequestId(header, parse_id(header) or new_id())


class Origin(NamedTuple):
    """Where a request came from.

    `address` is the remote end of the connection: a client or a proxy. The headers are as sent, bytes decoded as
    latin-1 (WSGI); clients can put anything into them.
    """

    address: str | None = None
    forwarded_for: str | None = None
    user_agent: str | None = None


NO_ORIGIN: Final = Origin()


@dataclass(slots=True)
class RequestContext:
    request_id: RequestId | None = None
    """In the response's `x-request-id`, in every log line and in the events of the request; None outside requests."""
    origin: Origin = NO_ORIGIN
    client_connection: str | None = None
    """Address and port of the remote end, which identify a client that sends its next request immediately."""
    deadline: float | None = None
    """Monotonic seconds; None outside requests and after a write has begun."""
    has_written: bool = False
    """Whether the last write that began was committed."""
    rechecks: dict[Recheck, list[Any]] | None = None
    """Permissions that the request relies on; None outside requests."""
    limited_connections: Sequence[BaseDatabaseWrapper] = ()
    """Database connections with a lowered statement timeout. See `kernel.db.connections`."""
    audit_rows: list[Any] | None = None
    """Unsaved audit records; None when nothing was recorded, empty when it is counted elsewhere."""
    override_reason: str | None = None
    """The header `x-icekeeper-override-rules`, by which the caller overrides rules about changes, as sent."""
    statements: int = 0
    """Database statements of the request, without BEGIN and COMMIT."""
    statement_seconds: float = 0.0
    """Time that they took."""


_current: ContextVar[RequestContext | None] = ContextVar("request_context", default=None)


def current_context() -> RequestContext:
    """Return the context of this thread, the same object each time; a new thread gets a new one."""
    context = _current.get()
    if context is None:
        context = RequestContext()
        _current.set(context)
    return context


def begin_request(request_id: RequestId, environ: Mapping[str, Any]) -> RequestContext:
    """Set the id and the origin of the request that this thread runs. The environ is not kept: it holds the body."""
    context = current_context()
    address = environ.get("REMOTE_ADDR")
    context.request_id = request_id
    context.origin = Origin(address, environ.get("HTTP_X_FORWARDED_FOR"), environ.get("HTTP_USER_AGENT"))
    context.client_connection = f"{address}:{environ.get('REMOTE_PORT')}"
    context.override_reason = environ.get("HTTP_X_ICEKEEPER_OVERRIDE_RULES")
    context.statements, context.statement_seconds = 0, 0.0
    return context


def end_request() -> None:
    """Clear id and origin: the response was sent and its log line written."""
    context = current_context()
    context.request_id, context.origin, context.client_connection = None, NO_ORIGIN, None
    context.override_reason = None


def copy_request_context() -> Context:
    """Return a context for another thread, with the values of this request; what that thread sets stays there."""
    context = copy_context()
    context.run(_current.set, replace(current_context()))
    return context


@contextmanager
def deadline(at: float) -> Iterator[None]:
    """Run the block with the deadline `at`, in seconds on the monotonic clock."""
    context = current_context()
    outer, has_written = context.deadline, context.has_written
    context.deadline, context.has_written = at, False
    try:
        yield
    finally:
        context.deadline, context.has_written = outer, has_written


def remaining_seconds() -> float | None:
    """Return the seconds left, None without a deadline. Raises `RequestTimeout` (408) when none are left."""
    context = _current.get()
    if context is None or context.deadline is None:
        return None
    left = context.deadline - time.monotonic()
    if left <= 0:
        raise RequestTimeout("The request took longer than the server allows (LAKEKEEPER__MAX_REQUEST_TIME)")
    return left


def deadline_expired() -> bool:
    """Return whether the request is past its deadline; False after its write has started."""
    at = current_context().deadline
    return at is not None and at <= time.monotonic()


def begin_write() -> None:
    """Drop the deadline before a write. Raises `RequestTimeout` if it has passed.

    Earlier commits of the same request, such as those of a purge, do not count as its write.
    """
    remaining_seconds()
    context = current_context()
    context.deadline, context.has_written = None, False


def end_write() -> None:
    """Record that the write is committed."""
    current_context().has_written = True


def has_written() -> bool:
    return current_context().has_written


def record_permission(check: Recheck, permission: Any) -> None:
    """Record a granted permission for `recheck_permissions`; outside requests nothing is recorded."""
    rechecks = current_context().rechecks
    if rechecks is not None:
        rechecks.setdefault(check, []).append(permission)


def recorded_permissions(check: Recheck) -> list[Any]:
    """Return the permissions recorded for `check` so far."""
    return list((current_context().rechecks or {}).get(check, ()))


def recheck_permissions() -> None:
    """Check all recorded permissions again. Call it under a lock, before the first change; raises what checks raise."""
    for check, permissions in (current_context().rechecks or {}).items():
        check(permissions)


def clear_permissions() -> None:
    """Drop the recorded permissions: the write that needed them is complete."""
    rechecks = current_context().rechecks
    if rechecks is not None:
        rechecks.clear()
