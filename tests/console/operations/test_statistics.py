"""Statistics of calls, queues and changes on the overview, and identity providers."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError

from catalog.models import SlowTable, Tabular
from catalog.selectors import overview
from icekeeper.kernel.clock import now
from management.endpoint_statistics import CallCount, CallKey, record_calls
from tasks.models import Task
from tenancy.models import Grant, Securable
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import user
from tests.authz.tree_fixtures import give
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
    for address in ("/ui/", "/ui/statistics/", tab):
        refused = browser.get(f"{address}?period=99y")
        assert (refused.status, "period: must be one of 24h, 7d, 30d" in refused.text) == (400, True)
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
    table = Tabular.objects.filter(kind=Tabular.Kind.TABLE)[0]
    figures = {"planning_us": 8_000_000, "result_data_files": 800, "result_delete_files": 0, "result_data_bytes": 1_600}
    SlowTable.objects.create(warehouse_id=ids.warehouse, rank=1, tabular_id=table.pk, scans=2, **figures)
    browser = open_as("lead")
    page = browser.get("/ui/")
    shown = ["1 task is overdue", "tabular_purge", "takes 4 s", "small files, of", "Latest changes", "createTable"]
    for text in (*shown, "1 task failed", "and will be retried"):
        assert text in page.text, text
    for name in ("engineer", "guest"):
        hidden = open_as(name).get("/ui/").text
        assert "Latest changes" not in hidden
        assert "tabular_purge" not in hidden
        assert "will be retried" not in hidden
        assert not [each for each in HIDDEN_NAMES if each in hidden]

    def fail(*_: Any) -> None:
        raise DatabaseError("statement timeout")

    monkeypatch.setattr(overview, "read_rankings", fail)
    monkeypatch.setattr(overview, "list_queue_health", fail)
    page = browser.get("/ui/")
    assert page.status == 200
    for text in ("Some parts could not be read", "Try again", "Latest changes"):
        assert text in page.text, text


def test_what_overviews_show_depends_on_permissions(grants: None, ids: Ids, open_as: Open) -> None:  # noqa: F811
    """Who changed an object needs `read_audit`, numbers the permission to list everything.

    Grants need the permission to manage all of the warehouse: that to read those on the warehouse is not inherited.
    """
    give("describe", ObjectRef(Securable.Type.WAREHOUSE, ids.warehouse), user("reader"))
    give("pass_grants", ObjectRef(Securable.Type.WAREHOUSE, ids.warehouse), user("reader"))
    Grant.objects.filter(user_id="oidc~engineer").update(expires_at=now() + timedelta(days=3, minutes=1))
    by_page = {}
    for name in ("lead", "reader", "engineer"):
        browser = open_as(name)
        for address in ("/ui/", f"/ui/project/{ids.project}/", f"/ui/warehouse/{ids.warehouse}/overview/"):
            page = browser.get(address)
            main = page.text.partition('id="ik-main"')[2]
            by_page[name, address.split("/")[2]] = [
                text
                for text in ("createTable", "oidc~root", "1 grant expires", "in 3 d", "who=user%3Aoidc~engineer",
                             "Slowest scan planning", "You see a part", "of=history")
                if text in main
            ]  # fmt: skip
    numbers, grant = "Slowest scan planning", ["1 grant expires", "in 3 d", "who=user%3Aoidc~engineer"]
    assert by_page == {
        ("lead", ""): ["createTable", "oidc~root", *grant, numbers],
        ("lead", "project"): ["createTable", "oidc~root", *grant, numbers],
        ("lead", "warehouse"): ["createTable", "oidc~root", *grant, numbers, "of=history"],
        ("reader", ""): ["createTable", numbers],
        ("reader", "project"): ["createTable", numbers],
        ("reader", "warehouse"): ["createTable", numbers, "of=history"],
        ("engineer", ""): [],
        ("engineer", "project"): [],
        ("engineer", "warehouse"): ["You see a part"],
    }
    tab = f"/ui/warehouse/{ids.warehouse}/overview/?format=csv"
    history = open_as("reader").get(f"{tab}&of=history&period=24h")
    table = list(csv.reader(io.StringIO(history.text)))
    assert (history.status, len(table), table[0][:3]) == (200, 26, ["time", "tables", "views"])
    calls_status = [open_as(name).get(tab).status for name in ("lead", "reader", "engineer", "guest")]
    history_status = [open_as(name).get(f"{tab}&of=history").status for name in ("lead", "engineer", "guest")]
    assert (calls_status, history_status) == ([200, 200, 403, 404], [200, 403, 404])


def test_identity_providers(grants: None, open_as: Open) -> None:  # noqa: F811
    page = open_as("instance").get("/ui/identity-provider/")
    assert (page.status, "Identity providers" in page.text) == (200, True)
    for name in ("lead", "engineer", "guest"):
        assert open_as(name).get("/ui/identity-provider/").status == 403
