"""Delivery of events to a webhook: one HTTP request for each event."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Lock
from typing import Final

import requests

from events.cloud_events import CloudEvent
from events.sinks.port import DeliveryError, EventRejected, Sink
from events.sinks.webhook_headers import attribute_headers
from events.sinks.webhook_signature import signature_headers
from icekeeper.kernel.http.client import BoundedSession, ResponseNotRead

MAX_RESPONSE_BYTES: Final = 1024 * 1024
MAX_RETRY_AFTER_SECONDS: Final = 3600.0
MAX_CONNECT_SECONDS: Final = 5.0
SPARE_SECONDS: Final = 0.5
"""Time beyond the timeout of a request in which its own error arrives."""
USER_AGENT: Final = "icekeeper"

TEMPORARY: Final = frozenset({401, 403, 404, 408, 410, 425, 429})
"""Statuses 4xx that do not depend on the event, but on the receiver or its configuration: the event waits. 410 is among
them: otherwise all events would become dead letters when a receiver is removed.
"""
WITH_RETRY_AFTER: Final = frozenset({429, 503})


@dataclass(frozen=True, kw_only=True)
class WebhookTarget:
    """Where events are sent. `check_address` is called for each `send` and raises `DeliveryError`; `verify` is the one
    of `requests`; `keys` sign the requests.
    """

    url: str = field(repr=False)
    timeout: float
    concurrency: int
    structured: bool
    keys: Sequence[bytes] = field(default=(), repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    verify: bool | str = True
    check_address: Callable[[str], None] = field(default=lambda _: None, repr=False)


class WebhookSink(Sink):
    """Sends each event in one POST request, several at once; any response 2xx acknowledges it.

    Neither redirects nor bodies of responses are used: an address that was checked cannot lead to another one, and the
    errors contain only the status.
    """

    def __init__(self, target: WebhookTarget) -> None:
        self._target = target
        self.max_events = target.concurrency
        self._session: BoundedSession | None = None
        self._threads: ThreadPoolExecutor | None = None

    def send(self, events: Sequence[CloudEvent]) -> dict[int, DeliveryError]:
        if not events:
            return {}
        target = self._target
        until = time.monotonic() + target.timeout
        target.check_address(target.url)
        if self._session is None or self._threads is None:
            connect = min(MAX_CONNECT_SECONDS, target.timeout)
            self._session = BoundedSession(timeout=(connect, target.timeout), max_bytes=MAX_RESPONSE_BYTES)
            self._threads = ThreadPoolExecutor(target.concurrency, thread_name_prefix="webhook-sink")
        delivery = _Delivery(target, self._session, until)
        requested = [self._threads.submit(delivery.send, event) for event in events]
        _, unfinished = wait(requested, timeout=max(until - time.monotonic(), 0.0) + SPARE_SECONDS)
        late = DeliveryError(f"the webhook did not respond within {target.timeout:g} s")
        results = [late if each in unfinished else each.result() for each in requested]
        if unfinished:
            self.close()
        errors = {index: error for index, error in enumerate(results) if error is not None}
        if delivery.unreachable is not None and len(errors) == len(events):
            raise delivery.unreachable
        return errors

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        if self._session is not None:
            self._session.close()
        self._session = self._threads = None


class _Delivery:
    """One `send`: after an error of the receiver itself, requests that have not begun are not sent."""

    def __init__(self, target: WebhookTarget, session: BoundedSession, until: float) -> None:
        self._target, self._session, self._until = target, session, until
        self._lock = Lock()
        self.unreachable: DeliveryError | None = None
        self._ended_by: DeliveryError | None = None

    def send(self, event: CloudEvent) -> DeliveryError | None:
        """Send one event and return its error."""
        left = self._until - time.monotonic()
        if self._ended_by is not None:
            return self._ended_by
        if left <= 0:
            return DeliveryError("not sent: the timeout has passed")
        try:
            response = self._post(event, left)
        except requests.RequestException as error:
            failure = DeliveryError(f"the webhook {describe_failure(error)}")
            with self._lock:
                self._ended_by = self.unreachable = failure
            return failure
        failure_of_status = _error_of(response)
        if failure_of_status is not None and failure_of_status.retry_after is not None:
            self._ended_by = failure_of_status
        return failure_of_status

    def _post(self, event: CloudEvent, seconds: float) -> requests.Response:
        """Send the request. Raises `requests.RequestException`."""
        target = self._target
        if target.structured:
            body = event.structured
            headers = {"Content-Type": "application/cloudevents+json"}
        else:
            body = event.data
            headers = {"Content-Type": "application/json", **attribute_headers(event)}
        headers |= signature_headers(target.keys, event_id=event.id, at=int(time.time()), body=body)
        headers |= {**target.headers, "User-Agent": USER_AGENT}
        connect = min(MAX_CONNECT_SECONDS, seconds)
        return self._session.post(
            target.url, data=body, headers=headers, timeout=(connect, seconds), verify=target.verify
        )


def _error_of(response: requests.Response) -> DeliveryError | None:
    status = response.status_code
    if 200 <= status < 300:  # noqa: PLR2004
        return None
    if 300 <= status < 400:  # noqa: PLR2004
        return DeliveryError(f"the webhook responded with status {status}: redirects are not followed")
    text = f"the webhook responded with status {status}"
    if 400 <= status < 500 and status not in TEMPORARY:  # noqa: PLR2004
        return EventRejected(text)
    pause = read_retry_after(response.headers.get("Retry-After")) if status in WITH_RETRY_AFTER else None
    return DeliveryError(text, retry_after=pause)


def read_retry_after(text: str | None) -> float | None:
    """Return the pause in seconds of a header Retry-After, a number of seconds or a date; at most one hour. None for
    no header or an invalid one.
    """
    if text is None:
        return None
    stripped = text.strip()
    if re.fullmatch(r"[0-9]{1,10}", stripped):
        return min(float(stripped), MAX_RETRY_AFTER_SECONDS)
    try:
        at = parsedate_to_datetime(stripped)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return min(max((at - datetime.now(UTC)).total_seconds(), 0.0), MAX_RETRY_AFTER_SECONDS)


_REASONS: Final[tuple[tuple[type[requests.RequestException], str], ...]] = (
    (requests.exceptions.SSLError, "has no valid TLS certificate for its host, or no TLS"),
    (requests.exceptions.ProxyError, "cannot be reached: the proxy failed"),
    (requests.exceptions.ConnectTimeout, "did not accept a connection in time"),
    (requests.exceptions.Timeout, "did not respond in time"),
    (requests.exceptions.ConnectionError, "refused or closed the connection"),
)


def describe_failure(error: requests.RequestException) -> str:
    """Return what went wrong, to follow the name of the receiver, without the URL, whose query is secret."""
    if isinstance(error, ResponseNotRead):
        return str(error)
    found = (text for kind, text in _REASONS if isinstance(error, kind))
    return next(found, f"cannot be reached: {type(error).__name__}")
