"""How pages name tasks, their states and what can be done with them, and the cures of their errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from catalog.models import Tabular
from catalog.selectors.task_previews import Control, is_changed_by, is_expiration
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest
from management.admin.navigation import Text, object_url
from management.admin.times import read_time
from tasks.models import NO_ID, Task
from tasks.queue.config import QUEUES as QUEUE_DEFINITIONS

TONES: Final[dict[str, str]] = {
    Task.Status.SUCCESS: "good",
    Task.Status.FAILED: "bad",
    Task.Status.RUNNING: "accent",
    Task.Status.STOPPING: "warning",
}
STATES: Final[dict[str, Text]] = {
    Task.Status.SCHEDULED: gettext_lazy("Scheduled"),
    Task.Status.RUNNING: gettext_lazy("Running"),
    Task.Status.STOPPING: gettext_lazy("Stopping"),
    Task.Status.SUCCESS: gettext_lazy("Succeeded"),
    Task.Status.FAILED: gettext_lazy("Failed"),
    Task.Status.CANCELLED: gettext_lazy("Cancelled"),
}
QUEUES: Final[dict[str, Text]] = {
    Task.Queue.TABULAR_PURGE: gettext_lazy("Purge"),
    Task.Queue.SOFT_DELETION: gettext_lazy("Expire"),
    Task.Queue.FILE_STATISTICS: gettext_lazy("Read files of"),
    Task.Queue.STATISTICS: gettext_lazy("Record statistics"),
    Task.Queue.TASK_LOG_CLEANUP: gettext_lazy("Delete old tasks"),
}
CONTROLS: Final[dict[Control, Text]] = {
    Control.RETRY: gettext_lazy("Retry"),
    Control.RUN_NOW: gettext_lazy("Run now"),
    Control.RUN_AT: gettext_lazy("Reschedule"),
    Control.STOP: gettext_lazy("Stop"),
    Control.CANCEL: gettext_lazy("Cancel"),
}
_START_IN: Final = timedelta(hours=1)
_LESS_THAN_A_MINUTE: Final = timedelta(seconds=59, microseconds=999_999)
MASKED_MEMBERS: Final = ("secret", "password", "token", "credential", "key")


def changed_text(control: Control, count: int) -> str:
    """Say what was done with so many tasks."""
    texts = {
        Control.RETRY: ngettext("%(count)s task is scheduled", "%(count)s tasks are scheduled", count),
        Control.RUN_AT: ngettext("%(count)s task is scheduled", "%(count)s tasks are scheduled", count),
        Control.RUN_NOW: ngettext("%(count)s task starts now", "%(count)s tasks start now", count),
        Control.STOP: ngettext("%(count)s task is stopping", "%(count)s tasks are stopping", count),
        Control.CANCEL: ngettext("%(count)s task was cancelled", "%(count)s tasks were cancelled", count),
    }
    return texts[control] % {"count": count}


def describe_task(task: Task) -> str:
    """Return what a task does, such as `Purge sales.orders`."""
    return f"{QUEUES.get(task.queue, task.queue)} {'.'.join(task.entity_name)}".strip()


def state_of(task: Task) -> Text:
    """Return the name of the state: a task that is scheduled after a failed attempt waits for its retry."""
    if task.status == Task.Status.SCHEDULED and task.message:
        return _("Retry scheduled")
    return STATES.get(task.status, task.status)


def tone_of(task: Task) -> str:
    is_retry = task.status == Task.Status.SCHEDULED and bool(task.message)
    return "warning" if is_retry else TONES.get(task.status, "")


def task_url(task: Task) -> str:
    return task_url_of(task.project_id, task.warehouse_id, task.pk)


def task_url_of(project_id: str, warehouse_id: UUID, task_id: UUID) -> str:
    if warehouse_id == NO_ID:
        return reverse("admin:project-task", args=[project_id, task_id])
    return reverse("admin:task", args=[warehouse_id, task_id])


def task_object_url(task: Task) -> str | None:
    """Return the address of the table or view of a task; it may be dropped, or hidden from the user."""
    if task.entity_type not in Tabular.Kind.values or task.entity_uuid is None:
        return None
    return object_url(task.entity_type, task.entity_uuid, task.warehouse_id)


def offered_controls(task: Task) -> list[Control]:
    """Return what can be done with a task in its state, the main one last."""
    order = (Control.CANCEL, Control.STOP, Control.RUN_AT, Control.RUN_NOW, Control.RETRY)
    return [each for each in order if is_changed_by(task, each) and not _needs_a_stop_first(task, each)]


def _needs_a_stop_first(task: Task, control: Control) -> bool:
    is_running = task.status in Task.LEASED
    return is_running and (control is Control.RUN_NOW or (control is Control.CANCEL and _is_purge(task)))


def _is_purge(task: Task) -> bool:
    return task.queue == Task.Queue.TABULAR_PURGE


def effect_of(control: Control, task: Task, at: datetime | None = None) -> str:  # noqa: PLR0911 - one a control
    """Return what a control does with a task, as a sentence; `at` is the time of `RUN_AT`, if it is known."""
    if is_expiration(task) and control in {Control.RETRY, Control.RUN_AT}:
        return _effect_on_expiration(control, task, at)
    match control:
        case Control.RETRY:
            return _("It is scheduled again, with as many attempts as a new task.")
        case Control.RUN_NOW:
            return _("It starts as soon as a worker is free.")
        case Control.RUN_AT:
            return _("It starts at the time that you enter, or later.")
        case Control.STOP:
            return _("The worker stops it at its next step, and it is scheduled again.")
    if _is_purge(task):
        return _("The files that are left stay in the store, and the location becomes free.")
    if task.queue == Task.Queue.SOFT_DELETION:
        return _("The dropped object is restored under its name.")
    if _is_repeated(task):
        return _("It ends without being done. The next one is scheduled within an hour.")
    return _("It ends without being done.")


def _effect_on_expiration(control: Control, task: Task, at: datetime | None) -> str:
    if control is Control.RETRY:
        return _("It is scheduled again: the object is deleted permanently as soon as a worker is free.")
    planned = {"planned": _utc(task.scheduled_for)}
    if at is None:
        return _("The object is deleted permanently at the time that you enter, and not at %(planned)s.") % planned
    if at < task.scheduled_for:
        text = _("The object is deleted permanently at %(at)s, earlier than at %(planned)s.")
    else:
        text = _("The object is deleted permanently at %(at)s, and not at %(planned)s.")
    return text % {"at": _utc(at), **planned}


def _utc(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _is_repeated(task: Task) -> bool:
    """Return whether a project has a task of the queue at all times."""
    definition = QUEUE_DEFINITIONS.get(task.queue)
    return definition is not None and definition.scope == "project"


def propose_start(tasks: Iterable[Task]) -> str:
    """Return the time that a form proposes: in an hour, but not earlier than an expiration is due."""
    due = [task.scheduled_for for task in tasks if is_expiration(task)]
    at = max([now() + _START_IN, *due]) + _LESS_THAN_A_MINUTE  # the field has whole minutes
    return f"{at:%Y-%m-%dT%H:%M}"


def read_start(text: str) -> datetime:
    """Return the time of a form's field, which is in UTC. Raises `BadRequest` at the field `at`."""
    at = read_time(text)
    if at is None:
        raise BadRequest(_("Enter a date and a time, such as 2026-01-31T18:00"), field="at")
    return at


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an attempt failed, in one sentence, and how to fix it."""

    text: Text
    cure: Text


_CAUSES: Final[tuple[tuple[Sequence[str], Cause], ...]] = (
    (
        ("denied access", "There is no credential", "AccessDenied"),
        Cause(
            gettext_lazy("The store denies access."),
            gettext_lazy(
                "Give the credential of the warehouse permission to list and delete below its location, or replace the "
                "credential. Then retry."
            ),
        ),
    ),
    (
        ("NoSuchBucket", "NoSuchContainer", "bucket does not exist"),
        Cause(
            gettext_lazy("The bucket does not exist."),
            gettext_lazy("Create it again, and retry. If it was deleted for good, cancel the task: no files are left."),
        ),
    ),
    (
        ("did not respond", "failed: status 5", "cannot be resolved", "unavailable", "Timeout", "timed out after"),
        Cause(
            gettext_lazy("The store did not respond."),
            gettext_lazy("Validate the storage of the warehouse. The task is retried with growing pauses."),
        ),
    ),
    (
        ("Attempt timed out",),
        Cause(
            gettext_lazy("The worker stopped without reporting."),
            gettext_lazy("Check that workers run, and that they have enough memory. The task is retried by itself."),
        ),
    ),
    (
        ("OperationalError", "InterfaceError", "StatementTimeout"),
        Cause(
            gettext_lazy("The database did not respond in time."),
            gettext_lazy("Check the load of the database. The task is retried with growing pauses."),
        ),
    ),
)
_UNKNOWN: Final = Cause(
    gettext_lazy("The last attempt failed."),
    gettext_lazy("The log of the workers has the details: search for the id of the task."),
)


def find_cause(message: str) -> Cause:
    """Return the cause of an error that a worker recorded."""
    for marks, cause in _CAUSES:
        if any(mark.lower() in message.lower() for mark in marks):
            return cause
    return _UNKNOWN


def masked(value: Any) -> Any:
    """Return a JSON document without the values of members whose names are those of secrets."""
    if isinstance(value, dict):
        return {
            key: "…" if any(each in str(key).lower() for each in MASKED_MEMBERS) else masked(inner)
            for key, inner in value.items()
        }
    return [masked(each) for each in value] if isinstance(value, list) else value
