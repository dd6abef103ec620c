"""In-memory counters of API calls: distinct keys, a bounded number of them, and a retry after a failed write."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.urls import ResolverMatch, get_resolver

from management import call_counter as module
from management.call_counter import CallCounter, count_request, write_calls
from management.endpoint_statistics import CallCount, CallKey, endpoint_name

ROUTE = "catalog/v1/<segment:prefix>/namespaces"
ID = "0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the counted calls: one hour after the epoch, unless a test sets it."""
    stands = [3600.0]
    monkeypatch.setattr(module, "time", lambda: stands[0])
    return stands


def counts(counter: CallCounter) -> dict[CallKey, tuple[int, float, float]]:
    return {call: (tally.count, tally.first, tally.last) for call, tally in counter.take().items()}


def call(counter: CallCounter, **changes: Any) -> None:
    method, route, status = (changes.pop(name, usual) for name, usual in
                             (("method", "GET"), ("route", ROUTE), ("status", 200)))  # fmt: skip
    counter.count(method, route, status, **{"warehouse": None, "project": None, **changes})


def test_members_of_the_key(clock: list[float]) -> None:
    counter = CallCounter()
    for at in (3600.0, 3700.5, 7199.9):
        clock[0] = at
        call(counter)
    for change in ({"method": "PUT"}, {"route": "x"}, {"status": 404}, {"warehouse": ID}, {"project": "p"}):
        call(counter, **change)
    clock[0] = 7200.0
    call(counter)
    at_end = (1, 7199.9, 7199.9)
    assert counts(counter) == {
        CallKey(1, "GET", ROUTE, 200, None, None): (3, 3600.0, 7199.9),
        CallKey(1, "PUT", ROUTE, 200, None, None): at_end,
        CallKey(1, "GET", "x", 200, None, None): at_end,
        CallKey(1, "GET", ROUTE, 404, None, None): at_end,
        CallKey(1, "GET", ROUTE, 200, ID, None): at_end,
        CallKey(1, "GET", ROUTE, 200, None, "p"): at_end,
        CallKey(2, "GET", ROUTE, 200, None, None): (1, 7200.0, 7200.0),
    }
    assert counts(counter) == {}


def test_invented_names_end_in_the_sum_and_memory_is_bounded(clock: list[float]) -> None:
    counter = CallCounter(max_keys=3)
    for number in range(100):
        call(counter, warehouse=str(number))
    assert {key.warehouse: figures[0] for key, figures in counts(counter).items()} == {"0": 1, "1": 1, "2": 1, None: 97}
    for number in range(100):
        call(counter, status=number)
    call(counter, status=0)
    found = counts(counter)
    assert len(found) == 6
    assert found[CallKey(1, "GET", ROUTE, 0, None, None)][0] == 2


def test_returned_counts_are_added_to_newer_ones(clock: list[float]) -> None:
    counter = CallCounter()
    call(counter)
    call(counter)
    taken = counter.take()
    clock[0] = 4000.0
    call(counter)
    counter.put_back(taken)
    assert counts(counter) == {CallKey(1, "GET", ROUTE, 200, None, None): (3, 3600.0, 4000.0)}


def test_no_call_is_lost_between_threads() -> None:
    counter = CallCounter()
    taken: list[dict[CallKey, CallCount]] = []

    def work(number: int) -> None:
        for slot in range(2_000):
            call(counter, status=slot % 7)
            if slot % 100 == number:
                taken.append(counter.take())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    taken.append(counter.take())
    assert sum(tally.count for each in taken for tally in each.values()) == 16_000


def request_to(route: str | None, *, method: str = "GET", kwargs: Any = None, **meta: str) -> HttpRequest:
    request = HttpRequest()
    request.method = method
    request.META.update(meta)
    if route is not None:
        request.resolver_match = ResolverMatch(lambda: None, (), kwargs or {}, route=route)
    return request


@pytest.mark.parametrize(
    ("kwargs", "meta", "warehouse", "project"),
    [
        ({}, {}, None, None),
        ({"prefix": ID}, {}, ID, None),
        ({"prefix": ID.replace("-", "%2D")}, {}, ID, None),
        ({"warehouse_id": ID}, {"HTTP_X_PROJECT_ID": "p"}, ID, "p"),
        ({"prefix": "not-an-id"}, {}, None, None),
        ({"prefix": ""}, {}, None, None),
        ({"prefix": "x" * 8000}, {"HTTP_X_PROJECT_IDENT": "y" * 8000}, None, "y" * 129),
        ({}, {"icekeeper.warehouse": ID, "HTTP_X_PROJECT_ID": "p", "HTTP_X_PROJECT_IDENT": "q"}, ID, "p"),
    ],
)
def test_recorded_members_of_a_request(
    monkeypatch: pytest.MonkeyPatch,
    clock: list[float],
    kwargs: dict[str, str],
    meta: dict[str, str],
    warehouse: str | None,
    project: str | None,
) -> None:
    counter = CallCounter()
    monkeypatch.setattr(module, "call_counter", counter)
    count_request(request_to(ROUTE, kwargs=kwargs, **meta), HttpResponse(status=418))
    assert counts(counter) == {CallKey(1, "GET", ROUTE, 418, warehouse, project): (1, 3600.0, 3600.0)}


@pytest.mark.parametrize(("route", "method"), [(None, "GET"), (ROUTE, "BREW"), (ROUTE, "get")])
def test_unknown_endpoints_are_not_counted(monkeypatch: pytest.MonkeyPatch, route: str | None, method: str) -> None:
    counter = CallCounter()
    monkeypatch.setattr(module, "call_counter", counter)
    count_request(request_to(route, method=method), HttpResponse())
    assert counts(counter) == {}


def test_endpoints_have_the_names_of_the_specification() -> None:
    table = "catalog/v1/<segment:prefix>/namespaces/<segment:namespace>/tables/<segment:table>"
    assert endpoint_name("GET", table) == "GET /catalog/v1/{prefix}/namespaces/{namespace}/tables/{table}"
    assert endpoint_name("POST", "management/v1/warehouse") == "POST /management/v1/warehouse"
    assert endpoint_name("GET", "management/v1/warehouse/<str:warehouse_id>/<x>") == (
        "GET /management/v1/warehouse/{warehouse_id}/{x}"
    )


def test_every_route_fits_its_column() -> None:
    routes = [
        f"{prefix.pattern}{pattern.pattern}"
        for prefix in get_resolver().url_patterns
        for pattern in getattr(prefix, "url_patterns", [])
    ]
    assert "catalog/v1/config" in routes
    assert max(len(endpoint_name("OPTIONS", route)) for route in routes) <= 255


def test_counts_that_cannot_be_written_are_kept(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    written: list[dict[CallKey, int]] = []

    def fail(_: object) -> None:
        raise RuntimeError("the database is away")

    def write(calls: dict[CallKey, CallCount]) -> None:
        written.append({each: tally.count for each, tally in calls.items()})

    counter = CallCounter()
    monkeypatch.setattr(module, "call_counter", counter)
    call(counter)
    monkeypatch.setattr(module, "record_calls", fail)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="away"):
            write_calls()
        call(counter)
    monkeypatch.setattr(module, "record_calls", write)
    write_calls()
    write_calls()
    assert written == [{CallKey(1, "GET", ROUTE, 200, None, None): 3}]
