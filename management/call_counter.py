"""Count the calls of the APIs in memory, and write the counts to the database from a background thread.

A call costs one dictionary look-up under a lock: no statement, no copy of the request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock
from time import time
from typing import Final
from urllib.parse import unquote_plus

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from icekeeper.kernel.threads import PeriodicThread
from management.endpoint_statistics import SECONDS_AN_HOUR, CallCount, CallKey, record_calls
from tenancy.maintenance import is_read_only
from tenancy.selectors.projects import named_project_id

logger = logging.getLogger("icekeeper.statistics")

MAX_KEYS: Final = 10_000
"""Different calls that are counted apart between two writes; further ones count without warehouse and project."""

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
ID_LENGTH: Final = 36
MAX_PROJECT_LENGTH: Final = 128


class CallCounter:
    def __init__(self, *, max_keys: int = MAX_KEYS) -> None:
        self._tallies: dict[CallKey, CallCount] = {}
        self._max_keys = max_keys
        self._lock = Lock()

    def count(self, method: str, route: str, status: int, *, warehouse: str | None, project: str | None) -> None:
        at = time()
        call = CallKey(int(at) // SECONDS_AN_HOUR, method, route, status, warehouse, project)
        with self._lock:
            tally = self._tallies.get(call)
            if tally is not None:
                tally.count += 1
                tally.last = at
            else:
                self._add(call, CallCount(at))

    def take(self) -> dict[CallKey, CallCount]:
        """Return the counts since the last call, and reset them."""
        with self._lock:
            taken, self._tallies = self._tallies, {}
        return taken

    def give_back(self, taken: dict[CallKey, CallCount]) -> None:
        """Add back counts that could not be written."""
        with self._lock:
            for call, tally in taken.items():
                self._add(call, tally)

    def _add(self, call: CallKey, tally: CallCount) -> None:
        """Needs the lock. Above `max_keys` only the endpoint is counted, above twice that nothing is."""
        known = self._tallies.get(call)
        if known is None and len(self._tallies) >= self._max_keys:
            call = call._replace(warehouse=None, project=None)
            known = self._tallies.get(call)
        if known is not None:
            known.count += tally.count
            known.first = min(known.first, tally.first)
            known.last = max(known.last, tally.last)
        elif len(self._tallies) < 2 * self._max_keys:
            self._tallies[call] = tally


call_counter = CallCounter()


def count_request(request: HttpRequest, response: HttpResponseBase) -> None:
    """Count a request that matched a route; called once per request, with its log line (`REQUEST_OBSERVERS`)."""
    match = request.resolver_match
    method = request.method
    if match is None or method not in METHODS:
        return
    meta = request.META
    named = match.kwargs
    prefix = unquote_plus(named.get("prefix", ""))
    warehouse: str | None = meta.get("icekeeper.warehouse") or prefix or named.get("warehouse_id")
    if warehouse is not None and len(warehouse) != ID_LENGTH:
        warehouse = None
    project: str | None = named_project_id(meta)
    if project is not None:
        project = project[: MAX_PROJECT_LENGTH + 1]  # still too long to exist
    call_counter.count(method, match.route, response.status_code, warehouse=warehouse, project=project)


def start_flushing() -> Callable[[], None]:
    """Start the thread in a process that serves requests; the returned function stops it after a last write."""
    flusher = Flusher(call_counter, interval=settings.ICEKEEPER.endpoint_stat_flush_interval)
    flusher.start()
    return flusher.stop


class Flusher(PeriodicThread):
    def __init__(self, counter: CallCounter, *, interval: float) -> None:
        super().__init__("endpoint-statistics", self.flush, interval=interval)
        self._counter = counter

    def flush(self) -> None:
        """Write the counts. If that fails, and in maintenance mode, they are kept for the next attempt.

        Counts are written twice if the connection is lost after the database committed.
        """
        if is_read_only():
            return
        taken = self._counter.take()
        if not taken:
            return
        try:
            record_calls(taken)
        except Exception as error:  # noqa: BLE001 - the thread must survive every error
            self._counter.give_back(taken)
            logger.warning("endpoint statistics could not be written, next attempt follows: %s", error)
