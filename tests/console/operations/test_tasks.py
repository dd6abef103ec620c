"""The console's pages of tasks: the list with its filters, control of one and of several, and settings of queues."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

import pytest

from icekeeper.kernel.clock import now
from storage.models import Warehouse
from tasks.models import Task, TaskAttempt, TaskQueueConfig
from tenancy.models import AuditRecord, Securable
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import user
from tests.authz.tree_fixtures import give
from tests.console.conftest import Open
from tests.console.sign_in.browser import Browser, Page
from tests.console.test_rights import Ids, grants, ids  # noqa: F401 - fixtures
from tests.harness.named_callers import CallerClient

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.both_databases]

HOSTILE = '<img src=x onerror=alert(1)>"é'


@pytest.fixture
def tasks(grants: None, ids: Ids, warehouse: Warehouse, lake: dict[str, ObjectRef]) -> Callable[..., Task]:  # noqa: F811
    """Return a function that creates a task of the warehouse."""

    def create(status: Task.Status, name: str = "a", **fields: Any) -> Task:
        at = now()
        is_ended = status in {Task.Status.SUCCESS, Task.Status.FAILED, Task.Status.CANCELLED}
        given: dict[str, Any] = {
            "queue": Task.Queue.TABULAR_PURGE,
            "entity_name": ["open", name],
            "entity_id": uuid4(),
            "entity_uuid": uuid4(),
            "finished_at": at if is_ended else None,
            "leased_until": at + timedelta(minutes=5) if status in Task.LEASED else None,
        }
        return Task.objects.create(
            warehouse_id=warehouse.pk, project_id=warehouse.project_id, status=status, **given | fields
        )

    return create


def listed(page: Page) -> list[str]:
    """Return the names of the tasks in a list, in its order."""
    return re.findall(r'<a href="/ui/warehouse/[^"]*/task/[^"]*/">([^<]*)</a>', page.text)


def chips(page: Page) -> dict[str, str]:
    found = re.findall(
        r'<a class="ik-chip"[^>]*>([^<]*?)\s*(?:<span class="ik-count[^"]*">([^<]*)</span>)?</a>', page.text
    )
    return {label.strip(): count for label, count in found}


def list_url(warehouse: Warehouse, **query: str) -> str:
    return f"/ui/task/?{urlencode({'warehouse': str(warehouse.pk), **query})}"


def preview(browser: Browser, warehouse: Warehouse, action: str, *tasks: Task) -> tuple[Page, list[tuple[str, str]]]:
    """Open a preview; return it with the fields of its form."""
    query = [("warehouse", str(warehouse.pk)), ("action", action), *(("task", str(each.pk)) for each in tasks)]
    page = browser.get(f"/ui/task/change/?{urlencode(query)}")
    return page, [*query, ("digest", page.field("digest"))] if page.status == 200 else query


def test_the_list_filters_and_counts(
    tasks: Callable[..., Task], warehouse: Warehouse, open_as: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = tasks(Task.Status.FAILED, "b", message="The object store denied access to s3://x", attempt=31)
    tasks(Task.Status.SCHEDULED, HOSTILE, queue=Task.Queue.SOFT_DELETION)
    tasks(Task.Status.SUCCESS, "done")
    tasks(Task.Status.SCHEDULED, "again", message="before", attempt=2)
    browser = open_as("lead")
    page = browser.get(list_url(warehouse))
    assert listed(page)[0] == "Purge open.again"
    assert "<img src=x" not in page.text
    for text in ("Retry scheduled", "denied access", "of 31"):
        assert text in page.text
    counts = {"All states": "", "Scheduled": "2", "Running": "0", "Stopping": "0", "Succeeded": "1", "Failed": "1"}
    assert chips(page) == {**counts, "Cancelled": "0"}
    by_queue = browser.get(list_url(warehouse, queue="soft_deletion"))
    assert (len(listed(by_queue)), chips(by_queue)["Scheduled"], chips(by_queue)["Failed"]) == (1, "1", "0")
    for text in ("open.b", "OPEN.B", str(failed.entity_uuid)):
        assert listed(browser.get(list_url(warehouse, q=text))) == ["Purge open.b"], text
    assert len(listed(browser.get(list_url(warehouse, q=HOSTILE)))) == 1
    assert listed(browser.get(list_url(warehouse, q="%"))) == []
    assert listed(browser.get(list_url(warehouse, status="failed"))) == ["Purge open.b"]
    part = browser.get(list_url(warehouse, part="list"))
    assert "<html" not in part.text
    assert len(listed(part)) == 4
    assert browser.get(list_url(warehouse, status="nonsense")).status == 400
    monkeypatch.setattr("catalog.selectors.tasks.MAX_COUNTED", 1)
    monkeypatch.setattr("management.admin.operations.tasks.MAX_COUNTED", 1)
    assert chips(browser.get(list_url(warehouse)))["Scheduled"] == "1+"


def test_a_task_shows_cause_cure_and_attempts(tasks: Callable[..., Task], warehouse: Warehouse, open_as: Open) -> None:
    at = now()
    task = tasks(
        Task.Status.FAILED,
        HOSTILE,
        message="The object store denied access to s3://lake/x: AccessDenied",
        payload={"tabular_location": "s3://lake/x", "nested": {"secret-access-key": "hunter2"}},
        execution_details={"deleted-files": 12},
        attempt=1,
    )
    TaskAttempt.objects.create(
        task=task, attempt=1, status="failed", started_at=at - timedelta(seconds=42), scheduled_for=at, created_at=at,
        message=HOSTILE,
    )  # fmt: skip
    address = f"/ui/warehouse/{warehouse.pk}/task/{task.pk}/"
    page = open_as("lead").get(address)
    for text in ("The store denies access.", "Cure:", "deleted files", "42 s", "s3://lake/x"):
        assert text in page.text
    assert "hunter2" not in page.text
    assert "<img src=x" not in page.text
    assert "<html" not in open_as("lead").get(f"{address}?part=live").text


def test_one_task_is_rescheduled_and_retried(tasks: Callable[..., Task], warehouse: Warehouse, open_as: Open) -> None:
    task, failed = tasks(Task.Status.SCHEDULED), tasks(Task.Status.FAILED, "b")
    address = f"/ui/warehouse/{warehouse.pk}/task/{task.pk}/"
    browser = open_as("lead")
    assert 'name="at"' in browser.get(address).text
    for wrong in ("", "tomorrow", "9999-01-01T00:00", "0001-01-01T00:00+14:00"):
        refused = browser.post(address, {"action": "run-at", "at": wrong})
        assert (refused.status, 'id="at-error"' in refused.text) == (400, True), wrong
    at = (now() + timedelta(days=3)).replace(second=0, microsecond=0)
    assert browser.post(address, {"action": "run-at", "at": f"{at:%Y-%m-%dT%H:%M}"}).status == 302
    assert Task.objects.get(pk=task.pk).scheduled_for == at
    for name, status in (("guest", 404), ("engineer", 404)):
        assert open_as(name).post(address, {"action": "run-at", "at": "2030-01-01T00:00"}).status == status
    assert Task.objects.get(pk=task.pk).scheduled_for == at
    other = f"/ui/warehouse/{warehouse.pk}/task/{failed.pk}/"
    response = browser.post(other, {"action": "retry", "back": "list", "status": "failed"})
    assert response.location == f"/ui/task/?warehouse={warehouse.pk}&status=failed"
    assert Task.objects.get(pk=failed.pk).status == Task.Status.SCHEDULED
    assert "The task is scheduled again." in browser.follow(response).text


def test_several_tasks_are_changed_as_the_preview_shows(
    tasks: Callable[..., Task], warehouse: Warehouse, open_as: Open
) -> None:
    failed, other = tasks(Task.Status.FAILED, "b"), tasks(Task.Status.FAILED, "c")
    running, browser = tasks(Task.Status.RUNNING, "d"), open_as("lead")
    page, fields = preview(browser, warehouse, "retry", failed, other, running)
    assert page.text.count("Left out") == 1
    assert "2 tasks are changed" in page.text
    Task.objects.filter(pk=other.pk).update(attempt=9)
    overtaken = send(browser, fields)
    assert (overtaken.status, "since you looked" in overtaken.text) == (409, True)
    assert Task.objects.filter(status=Task.Status.FAILED).count() == 2
    _page, fields = preview(browser, warehouse, "retry", failed, other, running)
    assert send(browser, fields).status == 302
    assert set(Task.objects.values_list("status", flat=True)) == {"scheduled", "running"}
    assert AuditRecord.objects.filter(event="task.retried").count() == 2
    _page, fields = preview(browser, warehouse, "run-at", failed, other)
    assert send(browser, [*fields, ("at", "soon")]).status == 400
    assert send(browser, [*fields, ("at", "2026-12-24T18:00")]).status == 302
    assert {f"{each.scheduled_for:%d %H}" for each in Task.objects.filter(pk__in=[failed.pk, other.pk])} == {"24 18"}
    page, fields = preview(browser, warehouse, "cancel", failed, running)
    assert "stop it first" in page.text
    assert "1 task was cancelled" in browser.follow(send(browser, fields)).text
    assert Task.objects.get(pk=failed.pk).status == Task.Status.CANCELLED
    page, fields = preview(browser, warehouse, "retry", running)
    assert send(browser, fields).status == 400


def send(browser: Browser, fields: list[tuple[str, str]]) -> Page:
    """Send a form with several fields of one name."""
    token = browser.cookies.setdefault("icekeeper_csrf", "x" * 32)
    body = urlencode([*fields, ("csrfmiddlewaretoken", token)]).encode()
    return browser.send("POST", "/ui/task/change/", body=body, headers={"origin": browser.origin})


def test_previews_hide_what_the_user_may_not_see(
    tasks: Callable[..., Task], warehouse: Warehouse, open_as: Open, lake: dict[str, ObjectRef], ids: Ids,  # noqa: F811
    root: CallerClient,
) -> None:  # fmt: skip
    own = lake["open.a"]
    mine = tasks(
        Task.Status.FAILED, "mine", entity_type="table", entity_id=own.id, entity_uuid=UUID(ids.tables["open"])
    )
    hidden = tasks(Task.Status.FAILED, "secret")
    browser = open_as("engineer")
    assert "Permission required" in browser.get(list_url(warehouse)).text
    assert listed(browser.get(list_url(warehouse, q=ids.tables["open"]))) == ["Purge open.mine"]
    assert "Permission required" in browser.get(list_url(warehouse, q=str(hidden.entity_uuid))).text
    page, fields = preview(browser, warehouse, "retry", mine, hidden)
    assert "secret" not in page.text
    assert page.text.count("Left out") == 2
    assert send(browser, fields).status == 400
    give("ownership", ObjectRef(Securable.Type.TABLE, own.id), user("engineer"))
    page, fields = preview(browser, warehouse, "retry", mine, hidden)
    assert page.text.count("Left out") == 1
    assert send(browser, fields).status == 302
    assert Task.objects.get(pk=mine.pk).status == Task.Status.SCHEDULED
    assert Task.objects.get(pk=hidden.pk).status == Task.Status.FAILED
    assert preview(open_as("guest"), warehouse, "retry", mine)[0].status == 404


def test_settings_of_queues(grants: None, warehouse: Warehouse, open_as: Open) -> None:  # noqa: F811
    address = f"/ui/warehouse/{warehouse.pk}/tasks/"
    browser = open_as("lead")
    before = browser.get(address)
    digest = before.field("digest")
    head = 'name="queue" value="tabular_purge"><input type="hidden" name="digest" value='
    purge = re.search(rf'{head}"(\w+)"', before.text)
    assert purge is not None
    fields = {"queue": "tabular_purge", "digest": purge[1], "max-retries": "4", "max-age": "P1D"}
    for wrong in ({"max-retries": "many"}, {"max-retries": "99999"}, {"max-age": "1 day"}):
        refused = browser.post(address, fields | wrong)
        assert (refused.status, refused.text.count('class="ik-error"')) == (400, 1), wrong
    assert not TaskQueueConfig.objects.exists()
    assert browser.post(address, fields).status == 302
    row = TaskQueueConfig.objects.get()
    assert (row.queue, row.config) == ("tabular_purge", {"max-retries": 4, "max-age": "P1D"})
    overtaken = browser.post(address, fields | {"max-retries": "5"})
    assert (overtaken.status, "another user changed these settings" in overtaken.text) == (409, True)
    assert TaskQueueConfig.objects.get().config["max-retries"] == 4
    assert browser.post(address, {"queue": "nonsense", "digest": digest}).status == 400
    assert browser.post(f"/ui/warehouse/{warehouse.pk}/rules/", fields).status == 404
    assert open_as("guest").post(address, fields).status == 404
    assert open_as("engineer").post(address, fields).status == 403
    assert TaskQueueConfig.objects.get().config["max-retries"] == 4
