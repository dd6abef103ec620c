"""Metrics are counted in memory with few labels, and aggregated by `flush`."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from icekeeper.kernel import metrics as module
from icekeeper.kernel.metrics import flush, metrics, request_ended, store_call_ended
from icekeeper.kernel.request_context import RequestContext

REQUESTS, STORE = "axum_http_requests", "icekeeper_object_store_call_duration_seconds"


@pytest.fixture(autouse=True)
def new_metrics(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "_request_series", set())
    monkeypatch.setattr(module, "_is_flushed", True)
    flush()
    metrics.cache_clear()
    yield
    metrics.cache_clear()


def value(name: str, **labels: str) -> float | None:
    return metrics().registry.get_sample_value(name, labels)


def test_a_request_is_counted_with_its_statements() -> None:
    route = "catalog/v1/<segment:prefix>/namespaces"
    request_ended("GET", route, 200, 0.004, RequestContext(statements=2, statement_seconds=0.001))
    request_ended("GET", route, 200, 0.2, RequestContext(statements=1, statement_seconds=0.002))
    request_ended("GET", route, 404, 0.001, RequestContext())
    assert value(f"{REQUESTS}_total", method="GET", status="200", endpoint="x") is None, "not before it is flushed"
    flush()
    flush()
    ok = {"method": "GET", "endpoint": "/catalog/v1/{prefix}/namespaces"}
    assert value(f"{REQUESTS}_total", **ok, status="200") == 2
    assert value(f"{REQUESTS}_total", **ok, status="404") == 1
    duration = f"{REQUESTS}_duration_seconds"
    assert value(f"{duration}_count", **ok, status="200") == 2
    assert value(f"{duration}_sum", **ok, status="200") == pytest.approx(0.204)
    buckets = [
        value(f"{duration}_bucket", **ok, status="200", le=le) for le in ("0.0025", "0.005", "0.1", "0.25", "+Inf")
    ]
    assert buckets == [0, 1, 1, 2, 2]
    assert value("icekeeper_request_database_statements_count", **ok) == 3
    assert value("icekeeper_request_database_statements_sum", **ok) == 3
    assert value("icekeeper_request_database_statements_bucket", **ok, le="0.0") == 1
    assert value("icekeeper_request_database_duration_seconds_sum", **ok) == pytest.approx(0.003)


def test_a_process_that_flushes_nothing_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_is_flushed", False)
    request_ended("GET", "health", 200, 0.004, RequestContext())
    store_call_ended("s3", "put", 0.005, is_ok=True)
    assert not any(module._requests.values())
    assert not any(module._store_calls.values())


def test_no_request_is_lost_while_others_are_flushed() -> None:
    threads, requests = 4, 5000

    def run() -> None:
        for _ in range(requests):
            request_ended("GET", "health", 200, 0.004, RequestContext(statements=1))

    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(run) for _ in range(threads)]
        while not all(each.done() for each in running):
            flush()
    flush()
    assert value(f"{REQUESTS}_total", method="GET", status="200", endpoint="/health") == threads * requests
    assert value("icekeeper_request_database_statements_sum", method="GET", endpoint="/health") == threads * requests


def test_a_value_on_a_bound_is_below_it() -> None:
    store_call_ended("s3", "put", 0.005, is_ok=True)
    flush()
    put = {"store": "s3", "operation": "put", "result": "ok"}
    assert [value(f"{STORE}_bucket", **put, le=le) for le in ("0.001", "0.005", "0.01")] == [0, 1, 1]


def test_results_of_store_calls_are_counted_apart() -> None:
    store_call_ended("gcs", "get", 0.01, is_ok=True)
    store_call_ended("gcs", "get", 60, is_ok=False)
    flush()
    get = {"store": "gcs", "operation": "get"}
    assert value(f"{STORE}_count", **get, result="ok") == 1
    assert value(f"{STORE}_count", **get, result="error") == 1
    assert value(f"{STORE}_bucket", **get, result="error", le="30.0") == 0


@pytest.mark.parametrize("method", [None, "", "get", "BREW", 'x"} 1\n'])
def test_unknown_methods_and_paths_have_no_labels_of_their_own(method: str | None) -> None:
    request_ended(method, None, 404, 0.001, RequestContext())
    flush()
    assert value(f"{REQUESTS}_total", method="other", status="404", endpoint="unmatched") == 1


def test_the_number_of_series_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REQUEST_SERIES", 2)
    for _ in range(2):
        for status in (200, 400, 401, 404):
            request_ended("GET", "health", status, 0.001, RequestContext())
        flush()
    counted = {
        (status, endpoint): value(f"{REQUESTS}_total", method="GET", status=str(status), endpoint=endpoint)
        for status in (200, 400, 401, 404)
        for endpoint in ("/health", "other")
    }
    assert {key: number for key, number in counted.items() if number is not None} == {
        (200, "/health"): 2, (400, "/health"): 2, (401, "other"): 2, (404, "other"): 2,
    }  # fmt: skip
