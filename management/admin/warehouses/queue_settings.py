"""Settings of the task queues of a warehouse: one form for each queue, over the service that the API calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.services.task_queues import (
    QueueConfigChanged,
    list_warehouse_queue_configs_for,
    set_warehouse_queue_config,
)
from icekeeper.kernel.errors.types import BadRequest, Forbidden
from management.admin.navigation import Text
from management.templatetags.console import NOTHING
from storage.models import Warehouse
from tasks.models import Task
from tasks.queue.config import QUEUES, QueueConfig
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import is_allowed
from tenancy.models import Securable

HEARTBEAT: Final = "max-seconds-since-last-heartbeat"
QUEUE_TITLES: Final[dict[str, tuple[Text, Text]]] = {
    Task.Queue.SOFT_DELETION: (
        gettext_lazy("Expiration of dropped objects"),
        gettext_lazy("Deletes dropped tables and views permanently when they can no longer be restored."),
    ),
    Task.Queue.TABULAR_PURGE: (
        gettext_lazy("Purge of files"),
        gettext_lazy("Deletes the files of tables that were dropped with purge."),
    ),
    Task.Queue.FILE_STATISTICS: (
        gettext_lazy("Files of snapshots"),
        gettext_lazy("Reads the manifests of a snapshot for the tab Files of a table."),
    ),
}
"""The queues that workers execute; those of maintenance get forms with their work."""
_LABELS: Final[dict[str, tuple[Text, Text]]] = {
    "max-retries": (
        gettext_lazy("Retries"),
        gettext_lazy("After so many retries a task fails for good. Empty: the default, which is shown."),
    ),
    "max-age": (
        gettext_lazy("Maximum age"),
        gettext_lazy(
            "Older tasks are not retried after a failure: an ISO 8601 duration such as P1DT12H; empty: no limit."
        ),
    ),
    HEARTBEAT: (
        gettext_lazy("Seconds without a heartbeat"),
        gettext_lazy(
            "Then the worker of a running task counts as dead, and another one takes over. Empty: the default."
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class SettingField:
    name: str
    label: Text
    help: Text
    value: str
    default: str
    is_number: bool
    error: str = ""
    stored: str | None = None
    """The stored value, if another user has changed it meanwhile."""


@dataclass(frozen=True, slots=True)
class QueueForm:
    queue: str
    title: Text
    note: Text
    digest: str
    fields: list[SettingField]
    error: str = ""
    is_conflict: bool = False


@dataclass(frozen=True, slots=True)
class Entered:
    """What a form sent that was not saved: `errors` by field, "" for the form."""

    queue: str
    values: Mapping[str, str]
    errors: Mapping[str, str] = field(default_factory=dict)
    is_conflict: bool = False


def queue_settings_context(actor: Actor, warehouse: Warehouse, entered: Entered | None = None) -> dict[str, Any]:
    """Return the forms of the queues; `can_configure` is whether the user may save them."""
    try:
        configs = list_warehouse_queue_configs_for(actor=actor, warehouse_id=warehouse.pk)
    except Forbidden:
        return {"queue_forms": None}
    return {
        "queue_forms": [
            _form(queue, configs[queue], entered if entered is not None and entered.queue == queue else None)
            for queue in QUEUE_TITLES
        ],
        "can_configure": is_allowed(actor, Can.MODIFY_TASK_QUEUE_CONFIG, Securable.Type.WAREHOUSE, warehouse.pk),
    }


def save_queue_settings(actor: Actor, warehouse: Warehouse, given: QueryDict) -> Entered | None:
    """Save a form by the service. Returns None, or what was entered with the errors at its fields.

    Raises `BadRequest` for an unknown queue, `Forbidden`.
    """
    queue = given.get("queue", "")
    if queue not in QUEUE_TITLES:
        raise BadRequest("queue: must be one of the queues of the page")
    names = _names(queue)
    values = {name: given.get(name, "").strip()[:100] for name in names}
    config, errors = _read(queue, values)
    if errors:
        return Entered(queue, values, errors)
    try:
        set_warehouse_queue_config(
            actor=actor, warehouse_id=warehouse.pk, queue_name=queue, config=config,
            expected_digest=given.get("digest", ""),
        )  # fmt: skip
    except QueueConfigChanged:
        return Entered(queue, values, is_conflict=True)
    except BadRequest as error:
        name = (error.field or "").removeprefix("queue-config.")
        text = error.message.removeprefix(f"{error.field}: ")
        return Entered(queue, values, {name if name in names else "": f"{text[:1].upper()}{text[1:]}"})
    return None


def _names(queue: str) -> list[str]:
    return [*QUEUES[queue].all_members, HEARTBEAT]


def _is_number(queue: str, name: str) -> bool:
    return name == HEARTBEAT or QUEUES[queue].all_members[name].json_type == "integer"


def _read(queue: str, values: Mapping[str, str]) -> tuple[QueueConfig, dict[str, str]]:
    """Return the configuration of a form, and errors by field; empty fields are not set."""
    found: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name, text in values.items():
        if not text:
            continue
        if not _is_number(queue, name):
            found[name] = text
        elif text.isascii() and text.isdecimal():
            found[name] = int(text)
        else:
            errors[name] = _("Enter a whole number")
    heartbeat: int | None = found.pop(HEARTBEAT, None)
    return QueueConfig(found, heartbeat), errors


def _form(queue: str, stored: QueueConfig, entered: Entered | None) -> QueueForm:
    title, note = QUEUE_TITLES[queue]
    fields = []
    for name in _names(queue):
        label, help_text = _LABELS.get(name, (name, ""))
        value = stored.max_seconds_since_last_heartbeat if name == HEARTBEAT else stored.config.get(name)
        text = "" if value is None else str(value)
        typed = text if entered is None else entered.values.get(name, "")
        is_other = entered is not None and entered.is_conflict and typed != text
        fields.append(
            SettingField(
                name, label, help_text, typed, _default(queue, name), _is_number(queue, name),
                "" if entered is None else entered.errors.get(name, ""), (text or NOTHING) if is_other else None,
            )
        )  # fmt: skip
    error = "" if entered is None else entered.errors.get("", "")
    return QueueForm(queue, title, note, stored.digest, fields, error, entered is not None and entered.is_conflict)


def _default(queue: str, name: str) -> str:
    default = None if name == HEARTBEAT else QUEUES[queue].all_members[name].default
    return "" if default is None else str(default)
