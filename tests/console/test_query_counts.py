"""The number of database statements of each page, recorded: it changes on purpose only (UPDATE_QUERY_COUNTS=1)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from icekeeper.kernel.clock import now
from management.endpoint_statistics import CallCount, CallKey, record_calls
from tasks.models import Task
from tenancy.authz.permission_epoch import permission_epoch
from tests.console.conftest import Open
from tests.console.rights_pages import Objects, list_pages, pages_with_actions
from tests.console.test_rights import Ids, grants, ids, pages_and_calls, pages_of_changes  # noqa: F401 - fixtures
from tests.console.test_rights_of_lists import objects  # noqa: F401 - a fixture

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.both_databases]

RECORDED = Path(__file__).with_name("query_counts.json")
RECORDED_OF_LISTS = Path(__file__).with_name("query_counts_of_lists.json")
MAX_STATEMENTS = 15


@pytest.fixture
def cached_permissions() -> Iterator[None]:
    yield
    permission_epoch.invalidate()


@pytest.mark.usefixtures("cached_permissions")
def test_query_counts(grants: None, ids: Ids, open_as: Open) -> None:  # noqa: F811
    """Counts are those of a user with all permissions in one project, in a session that was just used."""
    record_calls({CallKey(int(now().timestamp() // 3600), "GET", "catalog/v1/config", 200, None, None): CallCount(0.0)})
    task = Task.objects.create(
        queue=Task.Queue.STATISTICS, project_id=ids.project, entity_type="project", status=Task.Status.FAILED,
        finished_at=now(), message="OperationalError",
    )  # fmt: skip
    browser = open_as("lead")
    counts = {}
    tree = [
        f"/ui/catalog/tree/?at=table:{ids.warehouse}:{ids.tables['open']}",
        f"/ui/catalog/tree/?node=warehouse:{ids.warehouse}",
        f"/ui/catalog/tree/?node=namespace:{ids.warehouse}:{ids.open}",
    ]
    others = [
        "/ui/",
        f"/ui/sql/?warehouse={ids.warehouse}&table={ids.tables['open']}",
        "/ui/catalog/",
        "/ui/warehouse/",
        "/ui/deleted/",
        "/ui/task/",
        f"/ui/task/?project={ids.project}",
        f"/ui/project/{ids.project}/task/{task.pk}/",
        f"/ui/task/change/?project={ids.project}&action=retry&task={task.pk}",
        "/ui/search/?q=open",
    ]
    chosen = f"target=table:{ids.tables['open']}"
    previews = [
        f"/ui/warehouse/{ids.warehouse}/namespace/{ids.open}/change/?do=drop&{chosen}",
        *(f"/ui/deleted/{page}/?warehouse={ids.warehouse}&{chosen}" for page in ("restore", "delete")),
    ]
    for address in [*previews, *pages_and_calls(ids), *pages_of_changes(ids), *others, *tree]:
        if ids.closed in address or ids.tables["closed"] in address:
            continue
        permission_epoch.poll()  # as server processes do each second: only then they cache permissions
        browser.get(address)
        page = browser.get(address)
        assert page.status == 200, address
        counts[_name(address, ids).replace(str(task.pk), "{task}")] = page.statements
    _compare(RECORDED, counts)


@pytest.mark.usefixtures("cached_permissions")
def test_query_counts_of_lists(objects: Objects, open_as: Open) -> None:  # noqa: F811
    """Counts of pages of the server and of a project; those of the server are opened by an instance admin."""
    lead, instance = open_as("lead"), open_as("instance")
    counts = {}
    for address in [*(each.address for each in list_pages(objects)), *pages_with_actions(objects)]:
        permission_epoch.poll()
        browser = instance if lead.get(address).status == 403 else lead
        browser.get(address)
        page = browser.get(address)
        assert page.status in {200, 302}, address
        counts[_name_of_list(address, objects)] = page.statements
    _compare(RECORDED_OF_LISTS, counts)


def _compare(recorded: Path, counts: dict[str, int]) -> None:
    if os.environ.get("UPDATE_QUERY_COUNTS") == "1":
        recorded.write_text(json.dumps(dict(sorted(counts.items())), indent=1) + "\n")
    assert counts == json.loads(recorded.read_text())
    assert max(counts.values()) <= MAX_STATEMENTS


def _name_of_list(address: str, of: Objects) -> str:
    named = {
        of.warehouse: "{warehouse}", of.project: "{project}", of.namespace: "{namespace}", of.table: "{table}",
        of.role: "{role}", of.inner_role: "{inner role}", of.token: "{token}", of.tag: "{tag}",
        of.account.partition("~")[2]: "{account}", next(iter(of.dropped.values())): "{dropped}",
        of.tasks[next(iter(of.dropped))]: "{task}", of.project_task: "{project task}", of.sink: "{sink}",
        of.rule: "{rule}",
        f"/event/{of.event}/": "/event/{event}/",
    }  # fmt: skip
    for found, kind in named.items():
        address = address.replace(found, kind)
    return address


def _name(address: str, ids: Ids) -> str:  # noqa: F811
    """Return the address with the kinds of the ids in it."""
    named = {
        ids.warehouse: "{warehouse}", ids.project: "{project}", ids.open: "{namespace}", ids.tables["open"]: "{table}",
        ids.views["open"]: "{view}", ids.generic_tables["open"]: "{generic table}",
        ids.views["closed"]: "{other view}", ids.generic_tables["closed"]: "{other generic table}",
    }  # fmt: skip
    for found, kind in named.items():
        address = address.replace(found, kind)
    return address
