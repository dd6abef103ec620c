"""Expirations of dropped tables on the pages of tasks: no click on a button alone deletes an object permanently."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from html import unescape

import pytest

from icekeeper.kernel.clock import now
from management.admin.operations.task_texts import propose_start
from storage.models import Warehouse
from tasks.models import Task
from tenancy.models import AuditRecord, Securable
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import user
from tests.authz.tree_fixtures import give
from tests.console.conftest import Open
from tests.console.operations.test_tasks import list_url, preview, send, tasks  # noqa: F401 - fixture
from tests.console.sign_in.browser import Page
from tests.console.test_rights import Ids, grants, ids  # noqa: F401 - fixtures
from tests.harness.named_callers import CallerClient

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.both_databases]

DUE = (now() + timedelta(days=7)).replace(second=0, microsecond=0)


@pytest.fixture
def expire(tasks: Callable[..., Task]) -> Callable[..., Task]:  # noqa: F811
    """Return a function that creates an expiration that is due in a week."""

    def create(name: str = "dropped", status: Task.Status = Task.Status.SCHEDULED) -> Task:
        return tasks(status, name, queue=Task.Queue.SOFT_DELETION, scheduled_for=DUE)

    return create


def deletion_url(warehouse: Warehouse, *expirations: Task) -> str:
    targets = "".join(f"&target=table%3A{each.entity_uuid}" for each in expirations)
    return f"/ui/deleted/delete/?warehouse={warehouse.pk}{targets}"


def task_url(task: Task) -> str:
    return f"/ui/warehouse/{task.warehouse_id}/task/{task.pk}/"


def links(page: Page) -> list[str]:
    return [unescape(each) for each in re.findall(r'<a class="ik-button[^"]*" href="([^"]*)"', page.text)]


def buttons(page: Page) -> list[str]:
    """Return the actions that buttons of the page send at once."""
    return re.findall(r'form="task-action"[^>]* name="action" value="([^"]*)"', page.text)


def field_text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M}"


def scheduled_for(task: Task) -> datetime:
    return Task.objects.get(pk=task.pk).scheduled_for


def test_the_list_and_the_task_lead_to_the_confirmation(
    expire: Callable[..., Task], tasks: Callable[..., Task], warehouse: Warehouse, open_as: Open,  # noqa: F811
) -> None:  # fmt: skip
    expiration, browser = expire(), open_as("lead")
    listed = browser.get(list_url(warehouse))
    assert deletion_url(warehouse, expiration) in links(listed)
    assert buttons(listed) == []
    shown = browser.get(task_url(expiration))
    assert deletion_url(warehouse, expiration) in links(shown)
    assert buttons(shown) == []
    assert "The object is deleted permanently at this time" in shown.text
    assert shown.field("at") == field_text(DUE)
    purge = tasks(Task.Status.SCHEDULED)
    assert buttons(browser.get(list_url(warehouse))) == ["run-now"]
    assert buttons(browser.get(task_url(purge))) == ["run-now"]


def test_the_confirmation_asks_for_the_name(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    warehouse: Warehouse,
    open_as: Open,
    root: CallerClient,
    soft_delete: int,
) -> None:
    assert root.delete("/namespaces/open/tables/a").status == 204
    expiration, browser = Task.objects.get(), open_as("lead")
    due = expiration.scheduled_for
    (address,) = [each for each in links(browser.get(list_url(warehouse))) if "/deleted/delete/" in each]
    page = browser.get(address)
    fields = {
        "warehouse": str(warehouse.pk), "target": f"table:{ids.tables['open']}", "digest": page.field("digest"),
    }  # fmt: skip
    assert browser.post("/ui/deleted/delete/", fields).status == 400
    assert scheduled_for(expiration) == due
    assert browser.post("/ui/deleted/delete/", {**fields, "typed_name": "a"}).status == 302
    assert scheduled_for(expiration) < due


def test_an_expiration_is_not_started_by_the_buttons_of_tasks(
    expire: Callable[..., Task], warehouse: Warehouse, open_as: Open
) -> None:
    expiration = expire()
    give("describe", ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk), user("reader"))
    past = {"action": "run-at", "at": field_text(now() - timedelta(minutes=1))}
    for name, status in (("lead", 400), ("reader", 403), ("engineer", 404), ("guest", 404)):
        for fields in ({"action": "run-now"}, past):
            denied = open_as(name).post(task_url(expiration), fields)
            assert denied.status == status, (name, fields)
            assert ("Deleted objects”, with “Delete permanently”" in denied.text) is (name == "lead")
    assert 'id="at-error"' in open_as("lead").post(task_url(expiration), past).text
    assert scheduled_for(expiration) == DUE
    assert not AuditRecord.objects.filter(event="task.scheduled").exists()


def test_an_earlier_time_is_previewed_before_it_is_set(
    expire: Callable[..., Task], warehouse: Warehouse, open_as: Open
) -> None:
    expiration, browser = expire(), open_as("lead")
    earlier, later = DUE - timedelta(days=2), DUE + timedelta(days=2)
    assert browser.post(task_url(expiration), {"action": "run-at", "at": field_text(later)}).status == 302
    assert scheduled_for(expiration) == later
    led = browser.post(task_url(expiration), {"action": "run-at", "at": field_text(earlier)})
    assert led.location.startswith("/ui/task/change/?")
    assert scheduled_for(expiration) == later
    page = browser.get(led.location)
    text = f"deleted permanently at {earlier:%Y-%m-%d %H:%M} UTC, earlier than at {later:%Y-%m-%d %H:%M} UTC"
    assert text in page.text
    assert "ik-button--danger ik-push" in page.text
    fields = [
        ("warehouse", str(warehouse.pk)), ("action", "run-at"), ("task", str(expiration.pk)),
        ("digest", page.field("digest")), ("shown_at", page.field("shown_at")),
    ]  # fmt: skip
    assert page.field("at") == field_text(earlier)
    assert send(browser, [*fields, ("at", page.field("at"))]).status == 302
    assert scheduled_for(expiration) == earlier


def test_a_preview_without_the_time_asks_again(
    expire: Callable[..., Task], warehouse: Warehouse, open_as: Open
) -> None:
    first, second, browser = expire("first"), expire("second"), open_as("lead")
    earlier = DUE - timedelta(days=2)
    page, fields = preview(browser, warehouse, "run-at", first, second)
    assert page.text.count(f"not at {DUE:%Y-%m-%d %H:%M} UTC") == 2
    asked = send(browser, [*fields, ("at", field_text(earlier))])
    assert (asked.status, "Nothing was changed yet" in asked.text) == (200, True)
    assert asked.text.count(f"permanently at {earlier:%Y-%m-%d %H:%M} UTC, earlier") == 2
    other = earlier - timedelta(hours=1)
    shown_at = ("shown_at", asked.field("shown_at"))
    assert send(browser, [*fields, shown_at, ("at", field_text(other))]).status == 200
    past = send(browser, [*fields, shown_at, ("at", field_text(now() - timedelta(hours=1)))])
    assert (past.status, 'id="at-error"' in past.text) == (400, True)
    assert deletion_url(warehouse, *sorted((first, second), key=lambda each: each.pk)) in links(past)
    assert {scheduled_for(first), scheduled_for(second)} == {DUE}
    assert send(browser, [*fields, shown_at, ("at", field_text(earlier))]).status == 302
    assert {scheduled_for(first), scheduled_for(second)} == {earlier}


def test_several_are_left_out_of_run_now(
    expire: Callable[..., Task], tasks: Callable[..., Task], warehouse: Warehouse, open_as: Open,  # noqa: F811
) -> None:  # fmt: skip
    first, second, browser = expire("first"), expire("second"), open_as("lead")
    purge = tasks(Task.Status.SCHEDULED, scheduled_for=DUE)
    page, fields = preview(browser, warehouse, "run-now", first, second, purge)
    assert page.text.count("Left out") == 2
    assert page.text.count("It deletes its object permanently") == 2
    assert deletion_url(warehouse, *sorted((first, second), key=lambda each: each.pk)) in links(page)
    assert send(browser, fields).status == 302
    assert (scheduled_for(first), scheduled_for(second)) == (DUE, DUE)
    assert scheduled_for(purge) < DUE
    _page, fields = preview(browser, warehouse, "run-now", first)
    assert send(browser, fields).status == 400
    assert scheduled_for(first) == DUE


def test_the_retry_of_a_failed_one_shows_what_it_does(
    expire: Callable[..., Task], warehouse: Warehouse, open_as: Open
) -> None:
    failed, browser = expire(status=Task.Status.FAILED), open_as("lead")
    page, fields = preview(browser, warehouse, "retry", failed)
    for address in (list_url(warehouse), task_url(failed)):
        shown = browser.get(address)
        assert buttons(shown) == []
        assert any("action=retry" in each for each in links(shown))
    assert "deleted permanently as soon as a worker is free" in page.text
    assert "ik-button--danger ik-push" in page.text
    assert send(browser, fields).status == 302
    assert Task.objects.get().status == Task.Status.SCHEDULED


def test_a_direct_retry_leads_to_the_preview(expire: Callable[..., Task], warehouse: Warehouse, open_as: Open) -> None:
    failed = expire(status=Task.Status.FAILED)
    sent = open_as("lead").post(task_url(failed), {"action": "retry"})
    assert (sent.status, "action=retry" in sent.location) == (302, True)
    assert Task.objects.get().status == Task.Status.FAILED


def test_the_proposed_time_is_not_before_the_due_one(expire: Callable[..., Task]) -> None:
    """Fields have whole minutes."""
    task = expire()
    for seconds in (0, 30):
        task.scheduled_for = DUE + timedelta(seconds=seconds)
        assert propose_start([task]) == field_text(DUE + timedelta(minutes=seconds // 30))
