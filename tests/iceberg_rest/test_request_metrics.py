"""Request metrics of the catalog: counts, database statements and object-store calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from icekeeper.kernel import metrics as module
from icekeeper.kernel.metrics import flush, metrics
from tests.harness.statement_counts import counting
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

TABLE = {"method": "GET", "endpoint": "/catalog/v1/{prefix}/namespaces/{namespace}/tables/{table}"}


@pytest.fixture(autouse=True)
def new_metrics(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "_is_flushed", True)
    yield
    flush()
    metrics.cache_clear()


def value(name: str, **labels: str) -> float | None:
    return metrics().registry.get_sample_value(name, labels)


def test_a_load(catalog: ApiClient, create_table: Callable[[str], object]) -> None:
    create_table("t")
    flush()
    metrics.cache_clear()
    with counting() as counted:
        assert catalog.get("/namespaces/ns/tables/t").status == 200
    flush()
    assert value("axum_http_requests_total", **TABLE, status="200") == 1
    assert counted["statements"] > 0
    assert value("icekeeper_request_database_statements_sum", **TABLE) == counted["statements"]
    seconds = value("icekeeper_request_database_duration_seconds_sum", **TABLE)
    total = value("axum_http_requests_duration_seconds_sum", **TABLE, status="200")
    assert seconds is not None
    assert total is not None
    assert 0 < seconds < total


def test_calls_to_the_object_store(catalog: ApiClient, create_table: Callable[[str], object]) -> None:
    flush()
    metrics.cache_clear()
    with counting() as counted:
        create_table("t")
    flush()
    assert counted["store.put_new"] == 1
    store = "icekeeper_object_store_call_duration_seconds_count"
    assert value(store, store="local", operation="put", result="ok") == 1
    assert value(store, store="local", operation="put", result="error") is None
