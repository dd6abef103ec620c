"""Calls of the APIs, counted in the memory of this process until `management.statistics.flusher` writes them down.

A call costs a look-up in a dictionary under a lock and nothing else: no statement, no copy of what was asked.
"""

from __future__ import annotations

from threading import Lock
from time import time
from typing import Final
from urllib.parse import unquote_plus

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from management.services.calls import SECONDS_AN_HOUR, Call, Tally
from tenancy.selectors.projects import named_project_id

MOST_KEYS: Final = 10_000
"""Different calls that are told apart between two writes. Whoever invents warehouses or projects ends in the sum."""

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
ID_LENGTH: Final = 36
LONGEST_PROJECT: Final = 128


class CallCounter:
    def __init__(self, *, most_keys: int = MOST_KEYS) -> None:
        self._tallies: dict[Call, Tally] = {}
        self._most_keys = most_keys
        self._lock = Lock()

    def count(self, method: str, route: str, status: int, *, warehouse: str | None, project: str | None) -> None:
        at = time()
        call = Call(int(at) // SECONDS_AN_HOUR, method, route, status, warehouse, project)
        with self._lock:
            tally = self._tallies.get(call)
            if tally is not None:
                tally.count += 1
                tally.last = at
            else:
                self._add(call, Tally(at))

    def take(self) -> dict[Call, Tally]:
        """Everything counted since the last time; counting begins anew."""
        with self._lock:
            taken, self._tallies = self._tallies, {}
        return taken

    def give_back(self, taken: dict[Call, Tally]) -> None:
        """What could not be written counts again."""
        with self._lock:
            for call, tally in taken.items():
                self._add(call, tally)

    def _add(self, call: Call, tally: Tally) -> None:
        """With the lock held. Beyond the bound only the endpoint counts, and beyond twice the bound nothing does."""
        known = self._tallies.get(call)
        if known is None and len(self._tallies) >= self._most_keys:
            call = call._replace(warehouse=None, project=None)
            known = self._tallies.get(call)
        if known is not None:
            known.count += tally.count
            known.first = min(known.first, tally.first)
            known.last = max(known.last, tally.last)
        elif len(self._tallies) < 2 * self._most_keys:
            self._tallies[call] = tally


call_counter = CallCounter()


def count_request(request: HttpRequest, response: HttpResponseBase) -> None:
    """Count a request that found its route; the edge calls this where it writes the log line (`REQUEST_OBSERVERS`)."""
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
        project = project[: LONGEST_PROJECT + 1]  # still too long to be one
    call_counter.count(method, match.route, response.status_code, warehouse=warehouse, project=project)
