"""Tasks of a project itself: their list and pages, their control, and the overviews that show failed ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from icekeeper.kernel.clock import now
from storage.models import Warehouse
from tasks.models import Task, TaskAttempt
from tenancy.models import AuditRecord, Project, Securable
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import user
from tests.authz.tree_fixtures import give
from tests.console.conftest import Open
from tests.console.operations.test_expirations import buttons, links
from tests.console.operations.test_tasks import chips, send
from tests.console.sign_in.browser import Page
from tests.console.test_rights import Ids, grants, ids, without_random_parts  # noqa: F401 - fixtures
from tests.harness.wsgi_client import call

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.both_databases]

ERROR = "OperationalError: the connection is lost"


@pytest.fixture
def project_task(grants: None, ids: Ids) -> Callable[..., Task]:  # noqa: F811
    """Return a function that creates a task of a project, by default of the one of `lake`."""

    def create(status: Task.Status, queue: Task.Queue = Task.Queue.STATISTICS, **fields: Any) -> Task:
        is_ended = status in {Task.Status.SUCCESS, Task.Status.FAILED, Task.Status.CANCELLED}
        given: dict[str, Any] = {
            "project_id": ids.project,
            "entity_type": "project",
            "finished_at": now() if is_ended else None,
            "leased_until": now() + timedelta(minutes=5) if status in Task.LEASED else None,
            "message": ERROR if status == Task.Status.FAILED else "",
        }
        return Task.objects.create(queue=queue, status=status, **given | fields)

    return create


@pytest.fixture
def hidden_project(grants: None) -> Project:  # noqa: F811
    """A project that only the instance admin sees."""
    return Project.objects.create(id="hidden", name="Hidden")


def list_url(project_id: str, more: str = "") -> str:
    return f"/ui/task/?project={project_id}{more}"


def task_url(task: Task) -> str:
    return f"/ui/project/{task.project_id}/task/{task.pk}/"


def listed(page: Page) -> list[str]:
    return re.findall(r'<a href="/ui/project/[^"]*/task/[^"]*/">([^<]*)</a>', page.text)


def options(page: Page) -> list[str]:
    """Return the names of the warehouses and projects among which the page lets the user choose."""
    select = re.search(r'<select class="ik-select" name="warehouse".*?</select>', page.text, re.DOTALL)
    return [] if select is None else re.findall(r"<option[^>]*>([^<]*)</option>", select[0])


def test_a_project_is_chosen_next_to_its_warehouses(
    project_task: Callable[..., Task],
    ids: Ids,  # noqa: F811
    warehouse: Warehouse,
    open_as: Open,
) -> None:
    project_task(Task.Status.SCHEDULED)
    project_task(Task.Status.FAILED, attempt=31)
    project_task(Task.Status.SUCCESS, Task.Queue.TASK_LOG_CLEANUP)
    Task.objects.create(queue=Task.Queue.TABULAR_PURGE, project_id=ids.project, warehouse_id=warehouse.pk)
    browser, name = open_as("lead"), Project.objects.get().name
    assert options(browser.get("/ui/task/")) == ["wh", f"Project {name}"]
    led = browser.get(f"/ui/task/?warehouse=project:{ids.project}&queue=statistics&status=&q=")
    assert led.location == list_url(ids.project, "&queue=statistics")
    page = browser.get(list_url(ids.project))
    assert listed(page) == ["Delete old tasks", "Record statistics", "Record statistics"]
    assert f'<option value="project:{ids.project}" selected>' in page.text
    assert chips(page) == dict.fromkeys(
        ("All states", "Scheduled", "Running", "Stopping", "Succeeded", "Failed", "Cancelled"), ""
    )
    assert "of 31" in page.text
    assert listed(browser.get(list_url(ids.project, "&queue=statistics"))) == ["Record statistics"] * 2
    assert len(listed(browser.get(list_url(ids.project, "&status=failed&q=ignored&queue=tabular_purge")))) == 1
    part = browser.get(list_url(ids.project, "&part=list"))
    assert ("<html" in part.text, len(listed(part))) == (False, 3)
    assert browser.get(list_url(ids.project, "&queue=nonsense")).status == 400


def test_a_task_is_shown_retried_and_rescheduled(
    project_task: Callable[..., Task],
    ids: Ids,  # noqa: F811
    open_as: Open,
) -> None:
    failed, browser = project_task(Task.Status.FAILED, attempt=1), open_as("lead")
    TaskAttempt.objects.create(
        task=failed, attempt=1, status="failed", scheduled_for=now(), created_at=now(), message="in the attempt"
    )
    page = browser.get(task_url(failed))
    for text in ("The database did not respond in time.", "in the attempt", f'<a href="/ui/project/{ids.project}/">'):
        assert text in page.text
    assert buttons(page) == ["retry"]
    assert "<html" not in browser.get(f"{task_url(failed)}?part=live").text
    response = browser.post(task_url(failed), {"action": "retry", "back": "list", "status": "failed"})
    assert response.location == list_url(ids.project, "&status=failed")
    assert Task.objects.get().status == Task.Status.SCHEDULED
    assert AuditRecord.objects.filter(event="task.retried", project_id=ids.project).count() == 1
    at = (now() + timedelta(days=3)).replace(second=0, microsecond=0)
    assert browser.post(task_url(failed), {"action": "run-at", "at": f"{at:%Y-%m-%dT%H:%M}"}).status == 302
    assert Task.objects.get().scheduled_for == at
    assert browser.post(task_url(failed), {"action": "run-now"}).location == task_url(failed)
    assert Task.objects.get().scheduled_for < at
    Task.objects.update(status=Task.Status.RUNNING, leased_until=now() + timedelta(minutes=1))
    assert browser.post(task_url(failed), {"action": "stop"}).status == 302
    assert Task.objects.get().status == Task.Status.STOPPING


def test_a_failed_task_that_was_replaced_is_not_retried(project_task: Callable[..., Task], open_as: Open) -> None:
    failed, browser = project_task(Task.Status.FAILED), open_as("lead")
    project_task(Task.Status.SCHEDULED)
    response = browser.post(task_url(failed), {"action": "retry"})
    assert response.location == task_url(failed)
    assert "another task has replaced this one" in browser.follow(response).text
    assert Task.objects.get(pk=failed.pk).status == Task.Status.FAILED


def test_several_tasks_are_previewed_and_cancelled(
    project_task: Callable[..., Task],
    ids: Ids,  # noqa: F811
    warehouse: Warehouse,
    open_as: Open,
) -> None:
    task, browser = project_task(Task.Status.SCHEDULED), open_as("lead")
    other = Task.objects.create(queue=Task.Queue.TABULAR_PURGE, project_id=ids.project, warehouse_id=warehouse.pk)
    (address,) = [each for each in links(browser.get(task_url(task))) if "action=cancel" in each]
    page = browser.get(f"{address}&task={other.pk}")
    assert "The next one is scheduled within an hour." in page.text
    assert page.text.count("Left out") == 1, "a task of a warehouse is none of the project"
    fields = [
        ("project", ids.project), ("action", "cancel"), ("task", str(task.pk)), ("task", str(other.pk)),
        ("digest", page.field("digest")),
    ]  # fmt: skip
    response = send(browser, fields)
    assert response.location == list_url(ids.project)
    assert "1 task was cancelled" in browser.follow(response).text
    assert {each.pk: each.status for each in Task.objects.all()} == {task.pk: "cancelled", other.pk: "scheduled"}


def test_permissions_are_those_of_the_api(
    project_task: Callable[..., Task],
    ids: Ids,  # noqa: F811
    open_as: Open,
) -> None:
    task = project_task(Task.Status.FAILED)
    preview = f"/ui/task/change/?project={ids.project}&action=retry&task={task.pk}"
    for name, status in (("instance", 200), ("lead", 200), ("engineer", 403)):
        browser = open_as(name)
        path = f"/management/v1/project/task/by-id/{task.pk}"
        assert call("GET", path, headers={"authorization": f"Bearer {name}"}).status == status
        assert [browser.get(address).status for address in (task_url(task), preview)] == [status, status], name
        page = browser.get(list_url(ids.project))
        assert (page.status, ERROR in page.text, "Permission required" in page.text) == (
            200, status == 200, status == 403
        ), name  # fmt: skip
        assert (f"Project {Project.objects.get().name}" in options(browser.get("/ui/task/"))) is (status == 200)
    assert open_as("engineer").post(task_url(task), {"action": "retry"}).status == 403
    assert Task.objects.get().status == Task.Status.FAILED


def test_a_hidden_project_is_an_unknown_one(
    project_task: Callable[..., Task],
    hidden_project: Project,
    ids: Ids,  # noqa: F811
    open_as: Open,
) -> None:
    task = project_task(Task.Status.FAILED, project_id=hidden_project.pk)
    for name in ("lead", "engineer", "guest"):
        browser = open_as(name)
        for address in (
            list_url("{}"), "/ui/project/{}/task/" + f"{task.pk}/",
            "/ui/task/change/?project={}&action=retry&task=" + str(task.pk),
        ):  # fmt: skip
            hidden, unknown = (browser.get(address.format(each)) for each in (hidden_project.pk, "unknown"))
            assert (hidden.status, without_random_parts(hidden)) == (404, without_random_parts(unknown)), address
        assert browser.post(task_url(task), {"action": "retry"}).status == 404
        assert "Hidden" not in browser.get("/ui/task/").text
        assert ERROR not in browser.get("/ui/").text
    other = f"/ui/project/{ids.project}/task/{task.pk}/"
    assert open_as("lead").get(other).status == 404, "by way of another project"
    assert open_as("lead").post(other, {"action": "retry"}).status == 404
    assert open_as("instance").get(task_url(task)).status == 200
    assert Task.objects.get().status == Task.Status.FAILED


def test_overviews_show_failed_tasks_of_projects(
    project_task: Callable[..., Task],
    ids: Ids,  # noqa: F811
    warehouse: Warehouse,
    open_as: Open,
) -> None:
    failed = project_task(Task.Status.FAILED, attempt=31)
    addresses = ("/ui/", f"/ui/project/{ids.project}/", f"/ui/warehouse/{warehouse.pk}/overview/")
    subject = f"Task failed: Record statistics, the project {Project.objects.get().name}"
    for name, sees_it in (("lead", True), ("instance", True), ("engineer", False)):
        for address in addresses:
            page = open_as(name).get(address)
            assert (subject in page.text, f'href="{task_url(failed)}"' in page.text) == (sees_it, sees_it), address
    give("describe", ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk), user("engineer"))
    purge = Task.objects.create(
        queue=Task.Queue.TABULAR_PURGE, project_id=ids.project, warehouse_id=warehouse.pk, entity_name=["open", "b"],
        status=Task.Status.FAILED, finished_at=now(), entity_id=uuid4(),
    )  # fmt: skip
    for name, sees_it in (("lead", True), ("engineer", False)):
        page = open_as(name).get("/ui/")
        assert (subject in page.text, f"/task/{purge.pk}/" in page.text) == (sees_it, True), name


def test_a_failed_task_needs_attention_until_a_later_one_succeeds(
    project_task: Callable[..., Task], open_as: Open
) -> None:
    project_task(Task.Status.SUCCESS)
    failed, browser = project_task(Task.Status.FAILED), open_as("lead")
    later = project_task(Task.Status.SCHEDULED)
    project_task(Task.Status.SUCCESS, Task.Queue.TASK_LOG_CLEANUP)
    project_task(Task.Status.SUCCESS, project_id="other")
    assert task_url(failed) in browser.get("/ui/").text
    Task.objects.filter(pk=later.pk).update(status=Task.Status.SUCCESS, finished_at=now())
    assert task_url(failed) not in browser.get("/ui/").text
