"""Statistics of calls, queues and changes on the overview, and identity providers."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError

from catalog.selectors import overview
from icekeeper.kernel.clock import now
from management.endpoint_statistics import CallCount, CallKey, record_calls
from tasks.models import Task
from tests.console.conftest import Open
from tests.console.operations.test_tasks import tasks  # noqa: F401 - fixture
from tests.console.test_rights import HIDDEN_NAMES, Ids, grants, ids  # noqa: F401 - fixtures

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.both_databases]


def call(warehouse: str | None, route: str, status: int, count: int) -> dict[CallKey, CallCount]:
    counted = CallCount(now().timestamp())
    counted.count = count
    return {CallKey(int(now().timestamp() // 3600), "GET", route, status, warehouse, None): counted}


def test_calls_by_endpoint_and_warehouse(grants: None, ids: Ids, open_as: Open) -> None:  # noqa: F811
    record_calls({
        **call(ids.warehouse, "catalog/v1/a", 200, 7),
        **call(ids.warehouse, "catalog/v1/a", 404, 2),
        **call(None, "management/v1/b", 500, 1),
    })  # fmt: skip
    browser = open_as("lead")
    page = browser.get("/ui/statistics/")
    for text in ("GET /catalog/v1/a", "GET /management/v1/b", "without a warehouse", ">9<"):
        assert text in page.text, text
    chosen = browser.get("/ui/statistics/?endpoint=GET+/management/v1/b").text
    assert f'href="/ui/warehouse/{ids.warehouse}/"' not in chosen.partition('id="ik-main"')[2]
    table = browser.get("/ui/statistics/?format=csv&by=endpoint&period=24h").text
    assert list(csv.reader(io.StringIO(table)))[1:] == [
        ["GET /catalog/v1/a", "9", "2", "0"], ["GET /management/v1/b", "1", "0", "1"],
    ]  # fmt: skip
    tab = f"/ui/warehouse/{ids.warehouse}/statistics/"
    assert "GET /catalog/v1/a" in browser.get(tab).text
    assert "GET /management/v1/b" not in browser.get(tab).text
    assert '"GET /catalog/v1/a","9"' in browser.get(f"{tab}?format=csv&by=endpoint").text
    for name in ("engineer", "guest"):
        hidden = open_as(name).get("/ui/statistics/")
        assert "Permission required" in hidden.text
        assert "GET /" not in hidden.text
        assert open_as(name).get(f"{tab}?format=csv").status in {403, 404}


def test_queues_and_changes_of_visible_warehouses(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    tasks: Callable[..., Task],  # noqa: F811
    open_as: Open,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tasks(Task.Status.SCHEDULED, scheduled_for=now() - timedelta(hours=1), message="denied")
    tasks(Task.Status.FAILED, "b", message="denied")
    browser = open_as("lead")
    page = browser.get("/ui/")
    for text in ("1 task is overdue", "tabular_purge", "Latest changes", "createTable"):
        assert text in page.text, text
    for name in ("engineer", "guest"):
        hidden = open_as(name).get("/ui/").text
        assert "Latest changes" not in hidden
        assert "tabular_purge" not in hidden
        assert not [each for each in HIDDEN_NAMES if each in hidden]

    def fail(*_: Any) -> None:
        raise DatabaseError("statement timeout")

    monkeypatch.setattr(overview, "_largest", fail)
    monkeypatch.setattr(overview, "list_queue_health", fail)
    page = browser.get("/ui/")
    assert page.status == 200
    for text in ("Some parts could not be read", "Try again", "Latest changes"):
        assert text in page.text, text


def test_identity_providers(grants: None, open_as: Open) -> None:  # noqa: F811
    page = open_as("instance").get("/ui/identity-provider/")
    assert (page.status, "Identity providers" in page.text) == (200, True)
    for name in ("lead", "engineer", "guest"):
        assert open_as(name).get("/ui/identity-provider/").status == 403
