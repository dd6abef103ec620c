"""The buttons of a task: those that act at once, and links to pages that show first what cannot be undone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _

from catalog.models import Tabular
from catalog.selectors.task_previews import Control, is_expiration
from management.admin.navigation import Text
from management.admin.operations.task_scopes import PageScope
from management.admin.operations.task_texts import CONTROLS, offered_controls
from tasks.models import Task

_IN_LISTS: Final = frozenset({Control.RETRY, Control.RUN_NOW, Control.STOP})


@dataclass(frozen=True, slots=True)
class Button:
    """A button that sends `action`, or with `url` a link."""

    action: str
    label: Text
    url: str = ""
    is_danger: bool = False


def list_buttons(scope: PageScope, task: Task) -> list[Button]:
    """Return the buttons of a task that the user may control, the main one last. `RUN_AT` has a form instead."""
    offered = [each for each in offered_controls(task) if each is not Control.RUN_AT]
    return [found for each in offered if (found := _button(scope, task, each)) is not None]


def main_button(scope: PageScope, task: Task) -> Button | None:
    """Return the only button of a task in a list."""
    offered = [each for each in offered_controls(task) if each in _IN_LISTS]
    return _button(scope, task, offered[-1]) if offered else None


def _button(scope: PageScope, task: Task, control: Control) -> Button | None:
    if control is Control.RUN_NOW and is_expiration(task):
        url = deletion_url(scope, [task])
        return Button(control.value, f"{_('Delete permanently')}…", url, is_danger=True) if url else None
    if control is Control.CANCEL or (control is Control.RETRY and is_expiration(task)):
        url = preview_url(scope, task, control)
        return Button(control.value, f"{CONTROLS[control]}…", url, is_danger=control is Control.CANCEL)
    return Button(control.value, CONTROLS[control])


def preview_url(scope: PageScope, task: Task, control: Control, **more: str) -> str:
    """Return the address of the preview of a control."""
    query = {**scope.query, "action": control.value, "task": str(task.pk), **more}
    return f"{reverse('admin:task-change')}?{urlencode(query)}"


def deletion_url(scope: PageScope, expirations: list[Task]) -> str:
    """Return the address of the page that confirms a permanent deletion now; empty if it can delete nothing."""
    targets = [
        ("target", f"{task.entity_type}:{task.entity_uuid}")
        for task in expirations
        if task.entity_type in Tabular.Kind.values and task.entity_uuid is not None
    ]
    return f"{reverse('admin:expire-now')}?{urlencode([*scope.query.items(), *targets])}" if targets else ""
