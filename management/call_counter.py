"""Count the calls of the APIs in memory, and write the counts to the database periodically.

A call costs a look-up in a dictionary under a lock: no statement, no copy of the request.
"""

from __future__ import annotations

from http import HTTPStatus
from time import monotonic, time
from typing import Final
from urllib.parse import unquote_plus

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from management.endpoint_statistics import SECONDS_AN_HOUR, CallCount, CallKey, record_calls
from management.load_durations import LOAD_ROUTE, limit_of
from tasks.runtime.write_behind import WriteBehind
from tenancy.selectors.projects import named_project_id

MAX_KEYS: Final = 10_000
"""Different calls that are counted apart between two writes; further ones count without warehouse and project."""

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
ID_LENGTH: Final = 36
MAX_PROJECT_LENGTH: Final = 128


class CallCounter(WriteBehind[CallKey, CallCount]):
    """Counts of calls. Above `max_keys` of them only the endpoint is counted, above twice that nothing new is."""

    def __init__(self, *, max_keys: int = MAX_KEYS) -> None:
        super().__init__(CallCount.merge, max_keys=max_keys, generalize=_without_names)

    def count(
        self,
        method: str,
        route: str,
        status: int,
        *,
        warehouse: str | None,
        project: str | None,
        limit_ms: int | None = None,
    ) -> None:
        at = time()
        key = CallKey(int(at) // SECONDS_AN_HOUR, method, route, status, warehouse, project)
        self.add(key, CallCount(at, limit_ms))


def _without_names(call: CallKey) -> CallKey:
    return call._replace(warehouse=None, project=None)


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
    limit_ms = None
    if match.route == LOAD_ROUTE and method == "GET" and response.status_code == HTTPStatus.OK:
        limit_ms = limit_of(monotonic() - meta["icekeeper.arrived"])
    call_counter.count(
        method, match.route, response.status_code, warehouse=warehouse, project=project, limit_ms=limit_ms
    )


def write_calls() -> None:
    """Write the counts (`PERIODIC_JOBS`); raises errors of the database, and keeps the counts for the next time.

    Counts are written twice if the connection is lost after the database committed.
    """
    call_counter.write(record_calls)
