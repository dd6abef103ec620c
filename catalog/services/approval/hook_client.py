"""Requests of HTTP hooks: signed, limited in time, size and number, and stopped while a receiver does not respond.

The signature is that of Standard Webhooks (`events.sinks.webhook_signature`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from threading import BoundedSemaphore, Lock
from typing import Any, Final
from uuid import UUID

import requests
from cachetools import LRUCache, cached

from catalog.services.approval.configuration import Purpose
from events.sinks.webhook import describe_failure
from events.sinks.webhook_signature import read_signing_key, signature_headers
from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import CatalogError, RequestTimeout
from icekeeper.kernel.http.client import BoundedSession, ResponseNotRead
from icekeeper.kernel.json.strict import read_json_object
from icekeeper.kernel.threads import release_thread_slot
from storage.network.endpoints import require_permitted_address
from storage.network.store_http import ca_bundle
from storage.secrets.stores import read_secret

MAX_RESPONSE_BYTES: Final = 65_536
CONNECT_SECONDS: Final = 1.0
"""Timeout for a connection, or that of the rule if it is shorter."""

MAX_FAILURES: Final = 3
"""Failures in a row after which a receiver is not asked for some time; a timeout counts as all of them."""
PAUSE_SECONDS: Final = 30.0
MAX_CONCURRENT: Final = 8
"""Requests of one rule in one process."""
MAX_WAITING: Final = 8
"""Requests that wait until one of these has ended; a further one fails at once."""
MAX_ALL: Final = 24
"""Requests of all rules in one process, those that wait included: fewer than half of its extra threads."""

CLOCK_TOLERANCE_SECONDS: Final = 0.02
"""Timeouts of sockets may end this much early."""

MAX_CACHED_SECRETS: Final = 256
MAX_KNOWN_RECEIVERS: Final = 4_096

_OK: Final = range(200, 300)

logger = logging.getLogger("icekeeper.approval")


class HookFailed(Exception):
    """There is no decision; the message says why, without address or secret."""


class _TimedOut(HookFailed):
    """The receiver did not respond in time."""


class Receiver:
    """The state of one receiver in this process: recent failures, and the requests that run."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._failures = 0
        self._paused_until = float("-inf")
        self._running = BoundedSemaphore(MAX_CONCURRENT)
        self._waiting = BoundedSemaphore(MAX_WAITING)

    @contextmanager
    def admit(self, seconds: float) -> Iterator[None]:
        """Run one request, after a wait of up to `seconds` for others. Raises `HookFailed` without running it."""
        with self._seat(seconds):
            self._require_not_paused()
            try:
                yield
            except _TimedOut:
                self._fail(MAX_FAILURES)
                raise
            except HookFailed:
                self._fail(1)
                raise
            self._failures = 0

    @contextmanager
    def _seat(self, seconds: float) -> Iterator[None]:
        self._require_not_paused(is_probe=False)
        if not _all.acquire(blocking=False):
            raise HookFailed("too many requests to hooks are running")
        try:
            if not self._running.acquire(blocking=False):
                self._wait(seconds)
            try:
                yield
            finally:
                self._running.release()
        finally:
            _all.release()

    def _wait(self, seconds: float) -> None:
        if not self._waiting.acquire(blocking=False):
            raise HookFailed("too many requests wait for the hook")
        try:
            if not self._running.acquire(timeout=seconds):
                raise HookFailed("too many requests wait for the hook")
        finally:
            self._waiting.release()

    def _require_not_paused(self, *, is_probe: bool = True) -> None:
        """Raise `HookFailed` during a pause. After it one request goes first, as a probe, and restarts the pause."""
        with self._lock:
            if self._failures < MAX_FAILURES:
                return
            left = self._paused_until - time.monotonic()
            if left > 0:
                raise HookFailed(f"the hook failed before and is not asked for another {left:.0f} s")
            if is_probe:
                self._paused_until = time.monotonic() + PAUSE_SECONDS

    def _fail(self, count: int) -> None:
        with self._lock:
            self._failures += count
            if self._failures >= MAX_FAILURES:
                self._paused_until = time.monotonic() + PAUSE_SECONDS


_all = BoundedSemaphore(MAX_ALL)


@cached(LRUCache(MAX_KNOWN_RECEIVERS), lock=Lock())
def receiver_of(rule_id: UUID, version: int, purpose: Purpose) -> Receiver:
    """Return the state for a version of a rule and a purpose: an update of the rule begins without failures."""
    return Receiver()


@cached(LRUCache(MAX_CACHED_SECRETS), lock=Lock())
def _secret_document(secret_id: UUID) -> dict[str, Any]:
    """Return a secret; it is never updated, so it is read once."""
    return read_secret(secret_id)


@cache
def _session() -> BoundedSession:
    return BoundedSession(timeout=(CONNECT_SECONDS, CONNECT_SECONDS), max_bytes=MAX_RESPONSE_BYTES)


def ask(
    url: str, body: bytes, *, message_id: str, secret_id: UUID | None, timeout: float, receiver: Receiver
) -> str | None:
    """Post a question; return None if the receiver allows the change, else its reason.

    Takes at most `timeout` seconds for the response, and `CONNECT_SECONDS` for the connection. Raises `HookFailed`
    when there is no valid response, and `RequestTimeout` when the request itself has no time left: that is no failure
    of the receiver, which may respond to other requests in time.
    """
    left = request_context.remaining_seconds()
    seconds = timeout if left is None else min(timeout, left)
    with release_thread_slot(), receiver.admit(seconds):
        try:
            require_permitted_address(url, "url")
        except CatalogError as error:
            raise HookFailed(error.message) from None
        headers = _write_headers(body, message_id, secret_id)
        return read_decision(_post_in_time(url, body, headers, timeout))


def _write_headers(body: bytes, message_id: str, secret_id: UUID | None) -> dict[str, str]:
    """Raises `HookFailed` if the secret cannot be read, `RequestTimeout` and errors of the database."""
    try:
        secret = {} if secret_id is None else _secret_document(secret_id)
    except RequestTimeout:
        raise
    except CatalogError as error:
        logger.warning("the secret of a hook cannot be read: %s", error.message, extra={"secret": str(secret_id)})
        raise HookFailed("the secret of the hook cannot be read") from None
    keys = [read_signing_key(each) for each in secret.get("signing-secrets", ())]
    signed = signature_headers(keys, event_id=message_id, at=int(time.time()), body=body)
    return {**secret.get("headers", {}), "Content-Type": "application/cloudevents+json", **signed}


def _post_in_time(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> requests.Response:
    """Post within `timeout` seconds and the time that the request has left. Raises as `ask`."""
    left, started = request_context.remaining_seconds(), time.monotonic()
    if left is None or left >= timeout:
        return _post(url, body, headers, timeout)
    try:
        return _post(url, body, headers, left)
    except _TimedOut:
        if time.monotonic() - started < left - CLOCK_TOLERANCE_SECONDS:  # the connection timed out
            raise
        raise RequestTimeout(
            "The request had no time left to wait for the response of a hook (LAKEKEEPER__MAX_REQUEST_TIME)"
        ) from None


def _post(url: str, body: bytes, headers: Mapping[str, str], seconds: float) -> requests.Response:
    timeout = (min(CONNECT_SECONDS, seconds), seconds)
    try:
        return _session().post(url, data=body, headers=headers, timeout=timeout, verify=ca_bundle())
    except requests.Timeout:
        raise _TimedOut(f"the hook did not respond within {seconds:.3g} s") from None
    except ResponseNotRead as error:
        kind = _TimedOut if "in time" in str(error) else HookFailed
        raise kind(f"the hook {error}") from None
    except requests.RequestException as error:
        raise HookFailed(f"the hook {describe_failure(error)}") from None


def read_decision(response: requests.Response) -> str | None:
    """Return None for `{"allowed": true}`, the reason of `{"allowed": false}`. Raises `HookFailed` for others."""
    if response.status_code not in _OK:
        raise HookFailed(f"the hook responded with status {response.status_code}")
    try:
        document = read_json_object(response.content)
    except CatalogError:
        raise HookFailed("the response of the hook is not a JSON object") from None
    is_allowed, reason = document.get("allowed"), document.get("reason", "")
    if not isinstance(is_allowed, bool) or not isinstance(reason, str):
        raise HookFailed('the response of the hook is not {"allowed": true or false, "reason": text}')
    if is_allowed:
        return None
    return "".join(each if each.isprintable() else " " for each in reason[:MAX_RESPONSE_BYTES]) or "no reason given"
