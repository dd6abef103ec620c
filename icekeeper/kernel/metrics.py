"""The metrics of a server: their names, labels and meaning, and the functions that record them.

`GET /metrics` (`icekeeper.server.metrics_endpoint`) returns the sum over the processes of a server. Labels have few
possible values: routes, methods, status codes and words of this program. Names, paths and ids in requests are never
labels.

A request costs about a microsecond: it is counted in memory, and `flush` adds all of them to the metrics once a second.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections import Counter as Multiset
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache, partial, update_wrapper
from pathlib import Path
from threading import get_ident
from time import perf_counter, time
from typing import Concatenate, Final, Literal, ParamSpec, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, values
from prometheus_client.multiprocess import mark_process_dead

from icekeeper.kernel.request_context import RequestContext

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Other methods have the label `other`."""
UNMATCHED: Final = "unmatched"
"""Label `endpoint` of requests that match no route."""
MAX_REQUEST_SERIES: Final = 2000
"""Combinations of method, status and endpoint in one process; further requests have the endpoint `other`."""
CLOUDS: Final = ("s3", "azure", "gcs")

Operation = Literal["put", "get", "head", "list", "delete", "sweep"]
"""`sweep` deletes everything below a folder."""

_REQUEST_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_STATEMENTS: Final = (0, 1, 2, 3, 5, 8, 13, 20, 50, 100)
_DATABASE_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5)
_JOB_SECONDS: Final = (0.01, 0.1, 1, 10, 100)
_STORE_SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
K = TypeVar("K")
V = TypeVar("V")
_PARAMETER: Final = re.compile(r"<(?:[^:>]+:)?([^>]+)>")


class BatchHistogram(Histogram):
    """A histogram that takes many observations at once."""

    def add(self, observed: Sequence[float]) -> None:
        self._sum.inc(sum(observed))
        ordered, counted = sorted(observed), 0
        for bucket, bound in zip(self._buckets, self._upper_bounds, strict=True):
            position = bisect_right(ordered, bound)
            if position > counted:
                bucket.inc(position - counted)
                counted = position


class Metrics:
    """Every metric. Names and labels that start with `axum_` or `lakekeeper_` are those of Lakekeeper.

    Gauges are the sum over the processes that are alive, unless they have another mode. Those of mode `max` are written
    by one process only.
    """

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        counter, histogram = partial(Counter, registry=registry), partial(BatchHistogram, registry=registry)
        gauge = partial(Gauge, registry=registry, multiprocess_mode="livesum")

        # Requests. `endpoint` is the template of the route, such as /catalog/v1/{prefix}/namespaces.
        request, endpoint = ["method", "status", "endpoint"], ["method", "endpoint"]
        self.requests = counter("axum_http_requests", "Requests", request)
        self.requests_pending = gauge("axum_http_requests_pending", "Requests that are running", endpoint)
        self.request_seconds = histogram(
            "axum_http_requests_duration_seconds", "Duration of requests, from arrival to the end of the response",
            request, buckets=_REQUEST_SECONDS,
        )  # fmt: skip
        self.request_statements = histogram(
            "icekeeper_request_database_statements", "Database statements of a request", endpoint, buckets=_STATEMENTS
        )
        self.request_database_seconds = histogram(
            "icekeeper_request_database_duration_seconds", "Duration of all database statements of a request",
            endpoint, buckets=_DATABASE_SECONDS,
        )  # fmt: skip

        # Object stores. `store` is s3, azure, gcs or local; `operation` is an `Operation`; `result` is ok or error.
        self.store_call_seconds = histogram(
            "icekeeper_object_store_call_duration_seconds", "Duration of calls to object stores, with their retries",
            ["store", "operation", "result"], buckets=_STORE_SECONDS,
        )  # fmt: skip

        # The cache of vended credentials (`cache_type` stc), one in each process.
        cached = ["cache_type", "cloud"]
        self.cache_size = gauge("lakekeeper_cache_size", "Entries", cached)
        self.cache_hits = counter("lakekeeper_cache_hits", "Look-ups that found an entry", cached)
        self.cache_misses = counter("lakekeeper_cache_misses", "Look-ups that found no entry", cached)
        for cloud in CLOUDS:  # they are 0 from the start
            for metric in (self.cache_size, self.cache_hits, self.cache_misses):
                metric.labels("stc", cloud)

        # Rules about changes. `kind` is that of the rule; `result` is approved, vetoed, overridden, reported (by a
        # rule in dry run) or failed.
        self.change_rules = counter("icekeeper_change_rule_results", "Questions to rules", ["kind", "result"])

        # Connections to PostgreSQL. `pool` is read or write, `state` is idle or in_use.
        pools = "lakekeeper_catalog_pg_pool"
        self.pool_connections = gauge(f"{pools}_connections", "Connections", ["pool", "state"])
        self.pool_max_connections = gauge(f"{pools}_max_connections", "Maximum number of connections", ["pool"])
        self.pool_timeouts = counter(f"{pools}_acquire_timeouts", "Requests that got no connection in time", ["pool"])

        # Periodic jobs. `job` is the name of one, `result` is ok or error.
        job = ["job"]
        self.job_runs = counter("icekeeper_job_runs", "Runs of periodic jobs that ended", ["job", "result"])
        self.job_seconds = histogram(
            "icekeeper_job_duration_seconds", "Duration of runs of periodic jobs", job, buckets=_JOB_SECONDS
        )
        self.job_last_success = gauge(
            "icekeeper_job_last_success_timestamp_seconds",
            "End of the last successful run, in seconds since 1970; of several processes the earliest",
            job, multiprocess_mode="livemin",
        )  # fmt: skip

        # Deliveries of events. `sink` is the name of a sink, of which a server has 64 at most.
        self.events_delivered = counter("icekeeper_events_delivered", "Events that receivers acknowledged", ["sink"])
        self.event_failures = counter("icekeeper_event_delivery_failures", "Deliveries that failed", ["sink"])
        self.event_lag = gauge(
            "icekeeper_event_lag_seconds", "Age of the next event when the last delivery failed; 0 after a success",
            ["sink"], multiprocess_mode="livemax",
        )  # fmt: skip

        # The processes that serve requests. Names that start with `process_` are those of Prometheus' own libraries.
        self.workers = gauge("icekeeper_workers", "Processes that serve requests")
        self.cpu_seconds = counter("process_cpu_seconds", "CPU time of the workers")
        self.resident_bytes = gauge(
            "process_resident_memory_bytes", "Memory of the workers; shared memory counts in each"
        )
        self.open_files = gauge("process_open_fds", "Open files and sockets of the workers")

        # The server.
        written_once = partial(gauge, multiprocess_mode="max")
        self.start_time = written_once("process_start_time_seconds", "Start of the server, in seconds since 1970")
        self.build = written_once("icekeeper_build_info", "Always 1; the label is the version", ["version"])


@cache
def metrics() -> Metrics:
    """Return the metrics of this process. `share_metrics` must come before the first call."""
    return Metrics()


_requests: dict[tuple[str, str | None, int], list[tuple[float, int, float]]] = {}
"""Requests since the last `flush`, by method, route and status: seconds, statements and seconds of statements."""
_store_calls: dict[tuple[str, Operation, bool], list[float]] = {}
"""Likewise, seconds of calls by store, operation and whether they succeeded."""
_running: dict[int, tuple[str | None, str] | None] = {}
"""Method and route of the request that each thread runs."""
_request_series: set[tuple[str, str, str]] = set()


def request_started(method: str | None, route: str) -> None:
    _running[get_ident()] = method, route


def request_ended(method: str | None, route: str | None, status: int, seconds: float, context: RequestContext) -> None:
    """Count a request and its database statements. `route` is Django's."""
    if not _is_flushed:
        return
    _running[get_ident()] = None
    key = method if method in METHODS else "other", route, status
    observed = _requests.get(key)
    if observed is None:
        observed = _requests.setdefault(key, [])
    observed.append((seconds, context.statements, context.statement_seconds))


def job_ended(job: str, seconds: float, *, is_ok: bool) -> None:
    """Record a run of the periodic job with this name that took `seconds`."""
    known = metrics()
    known.job_runs.labels(job, "ok" if is_ok else "error").inc()
    known.job_seconds.labels(job).observe(seconds)
    if is_ok:
        known.job_last_success.labels(job).set(time())


def delivery_ended(sink: str, *, delivered: int, has_failed: bool, lag_seconds: float) -> None:
    """Record a delivery of events to the sink with this name."""
    known = metrics()
    known.events_delivered.labels(sink).inc(delivered)
    if has_failed:
        known.event_failures.labels(sink).inc()
    known.event_lag.labels(sink).set(lag_seconds)


def store_call_ended(store: str, operation: Operation, seconds: float, *, is_ok: bool) -> None:
    """Count a call to an object store."""
    if not _is_flushed:
        return
    key = store, operation, is_ok
    observed = _store_calls.get(key)
    if observed is None:
        observed = _store_calls.setdefault(key, [])
    observed.append(seconds)


def change_rule_asked(kind: str, result: str) -> None:
    """Count a question to a rule of this kind."""
    metrics().change_rules.labels(kind, result).inc()


class StoreOfKind(Protocol):
    kind: str


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=StoreOfKind)


def time_store_calls(
    operation: Operation, *, expected: tuple[type[Exception], ...]
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """Decorate a method of an object store, so that its calls are counted and timed; `expected` are no errors."""

    def decorate(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        def call(self: S, /, *args: P.args, **options: P.kwargs) -> R:
            started, is_ok = perf_counter(), False
            try:
                result = method(self, *args, **options)
                is_ok = True
            except expected:
                is_ok = True
                raise
            finally:
                store_call_ended(self.kind, operation, perf_counter() - started, is_ok=is_ok)
            return result

        update_wrapper(call, method)
        return call

    return decorate


def flush() -> None:
    """Add what was counted in memory to the metrics. Called by one thread."""
    known = metrics()
    for (method, route, status), requests in _taken(_requests):
        labels = _request_labels(method, route, status)
        endpoint = labels[0], labels[2]
        seconds, statements, statement_seconds = zip(*requests, strict=True)
        known.requests.labels(*labels).inc(len(requests))
        known.request_seconds.labels(*labels).add(seconds)
        known.request_statements.labels(*endpoint).add(statements)
        known.request_database_seconds.labels(*endpoint).add(statement_seconds)
    for (store, operation, is_ok), calls in _taken(_store_calls):
        known.store_call_seconds.labels(store, operation, "ok" if is_ok else "error").add(calls)
    _show_running(known.requests_pending)


def _taken(observed: dict[K, list[V]]) -> Iterator[tuple[K, list[V]]]:
    """Yield the observations of each key and remove them. Threads that add others meanwhile need no lock."""
    for key, collected in list(observed.items()):
        if taken := collected[:]:
            del collected[: len(taken)]
            yield key, taken


def _request_labels(method: str, route: str | None, status: int) -> tuple[str, str, str]:
    labels = method, str(status), route_template(route)
    if labels not in _request_series:
        if len(_request_series) >= MAX_REQUEST_SERIES:
            return method, str(status), "other"
        _request_series.add(labels)
    return labels


@lru_cache(maxsize=1024)
def route_template(route: str | None) -> str:
    """Return `/catalog/v1/{prefix}/namespaces` for the route `catalog/v1/<segment:prefix>/namespaces`."""
    return UNMATCHED if route is None else "/" + _PARAMETER.sub(r"{\1}", route)


_shown: set[tuple[str, str]] = set()


def _show_running(pending: Gauge) -> None:
    running = Multiset(
        (method if method in METHODS else "other", route_template(route))
        for method, route in filter(None, list(_running.values()))
    )
    _shown.update(running)
    for labels in _shown:
        pending.labels(*labels).set(running[labels])


values.ValueClass = values.MutexValue
"""In memory, whatever the environment says, until `share_metrics`."""
_folder: Path | None = None
_process = "server"
_is_flushed = False
"""Whether this process calls `flush`; otherwise nothing is counted in memory."""


def share_metrics(folder: Path) -> None:
    """Keep the values of this process and of those that it forks in files of `folder`. Called before `metrics`."""
    global _folder  # noqa: PLW0603 - what a fork inherits
    _folder = folder
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    values.ValueClass = values.MultiProcessValue(lambda: _process)  # type: ignore[no-untyped-call]


def join_metrics(process: str) -> None:
    """Count under the name `process` from now on, which no other running process has. `flush` must be called often.

    Counters continue where a former process of this name ended; gauges start at 0.
    """
    global _process, _is_flushed
    leave_metrics(process)
    _process, _is_flushed = process, True


def leave_metrics(process: str) -> None:
    """Delete the gauges of a process that has ended; its counters stay."""
    if _folder is not None:
        mark_process_dead(process, _folder)  # type: ignore[no-untyped-call]
