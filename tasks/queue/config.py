"""The queues, and their configuration in each warehouse or project."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from icekeeper.kernel.errors.types import BadRequest, NotFound
from tasks.models import NO_ID, Task, TaskQueueConfig

DEFAULT_MAX_RETRIES: Final = 30
"""With a backoff of up to an hour about a day: an outage of a store must not end its purges."""

MAX_RETRIES: Final = 10_000
MAX_HEARTBEAT_SECONDS: Final = 86_400
MIN_HEARTBEAT_SECONDS: Final = 60
"""Longer than the interval of heartbeats and one request to a store take together: a worker that has lost its lease
deletes nothing any more."""
MAX_DURATION: Final = timedelta(days=36_500)
MAX_INT64: Final = 2**63 - 1


class InvalidQueueConfig(BadRequest):
    wire_type = "InvalidQueueConfig"


class QueueNotFound(NotFound):
    wire_type = "QueueNotFound"


class Member(NamedTuple):
    """A member of a configuration: its default, whether a value is valid, and what is valid in words and in JSON."""

    default: Any
    is_valid: Callable[[Any], bool]
    allowed: str
    json_type: Literal["integer", "boolean", "string"]


def _integer(default: int, low: int, high: int, unit: str = "a whole number") -> Member:
    def is_valid(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high

    limits = f" from {low}" if high == MAX_INT64 else f" from {low} to {high}"
    return Member(default, is_valid, f"{unit}{limits}", "integer")


def _flag() -> Member:
    return Member(
        default=False,
        is_valid=lambda value: isinstance(value, bool),
        allowed="true or false",
        json_type="boolean",
    )


def _duration(default: str | None, least: str) -> Member:
    minimum = parse_duration(least)

    def is_valid(value: Any) -> bool:
        found = parse_duration(value)
        return found is not None and minimum is not None and minimum <= found <= MAX_DURATION

    return Member(default, is_valid, f"an ISO 8601 duration of at least {least}", "string")


_DURATION_FORM = re.compile(
    r"P(?:(?P<weeks>\d{1,6})W)?(?:(?P<days>\d{1,6})D)?"
    r"(?:T(?:(?P<hours>\d{1,8})H)?(?:(?P<minutes>\d{1,8})M)?(?:(?P<seconds>\d{1,10}(?:\.\d{1,6})?)S)?)?"
)


def parse_duration(text: Any) -> timedelta | None:
    """Parse an ISO 8601 duration without years and months; None for anything else."""
    found = _DURATION_FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None or text.endswith(("P", "T")):
        return None
    return timedelta(**{name: float(value) for name, value in found.groupdict().items() if value is not None})


COMMON_MEMBERS: Final = {
    "max-retries": _integer(DEFAULT_MAX_RETRIES, 0, MAX_RETRIES),
    "max-age": _duration(None, "PT1M"),
}


@dataclass(frozen=True, slots=True)
class QueueDefinition:
    """A queue: `members` are those of its configuration in addition to the common ones, `former_names` still name it.

    `on_cancel` is the path of a function that is called in the transaction that cancels tasks, with
    the actor and the rows.
    `scope` is what a configuration and a task belong to. With `keeps_failed` failed tasks remain until an operator
    retries or cancels them, as they still reserve something. Successful tasks are deleted after `success_retention` if
    it is shorter than the `retention-period` of the project. With `reports_success` there is also an event for each of
    them, as there is for each task that failed. Without `is_documented` its configuration is not in
    the OpenAPI document.
    """

    name: str
    scope: Literal["warehouse", "project"] = "warehouse"
    former_names: tuple[str, ...] = ()
    on_cancel: str | None = None
    keeps_failed: bool = False
    success_retention: timedelta | None = None
    reports_success: bool = False
    is_documented: bool = True
    members: Mapping[str, Member] = field(default_factory=dict)

    @property
    def all_members(self) -> dict[str, Member]:
        return {**COMMON_MEMBERS, **self.members}


QUEUES: Final[dict[str, QueueDefinition]] = {
    queue.name: queue
    for queue in (
        QueueDefinition(
            Task.Queue.SOFT_DELETION.value,
            former_names=("tabular_expiration",),
            on_cancel="catalog.services.tables.undrop.cancel_expirations_and_restore",
            reports_success=True,
        ),
        QueueDefinition(
            Task.Queue.TABULAR_PURGE.value,
            on_cancel="catalog.services.locations.purge.cancel_purges",
            keeps_failed=True,
            reports_success=True,
        ),
        QueueDefinition(
            Task.Queue.TASK_LOG_CLEANUP.value,
            scope="project",
            members={"cleanup-period": _duration("P1D", "PT1S"), "retention-period": _duration("P90D", "P1D")},
        ),
        QueueDefinition(Task.Queue.STATISTICS.value, scope="project", success_retention=timedelta(days=7)),
        QueueDefinition(Task.Queue.FILE_STATISTICS.value, success_retention=timedelta(days=1), is_documented=False),
        QueueDefinition(
            Task.Queue.EXPIRE_SNAPSHOTS.value,
            members={
                "enable-expire-snapshots": _flag(),
                "max-snapshot-age-ms": _integer(432_000_000, 0, MAX_INT64, "a number of milliseconds"),
                "min-snapshots-to-keep": _integer(1, 1, MAX_INT64),
                "min-snapshots-to-expire": _integer(20, 1, MAX_INT64),
                "max-ref-age-ms": _integer(MAX_INT64, 0, MAX_INT64, "a number of milliseconds"),
            },
        ),
        QueueDefinition(
            Task.Queue.REMOVE_ORPHAN_FILES.value,
            members={
                "enable-remove-orphan-files": _flag(),
                "default-older-than-ms": _integer(604_800_000, 0, MAX_INT64, "a number of milliseconds"),
                "disable-min-older-than-check": _flag(),
                "target-reclaim-bytes": _integer(1 << 30, 0, MAX_INT64, "a number of bytes"),
                "maximum-interval-seconds": _integer(7_776_000, 86_400, MAX_INT64, "a number of seconds"),
                "max-run-time-seconds": _integer(3600, 60, MAX_INT64, "a number of seconds"),
                "dry-run": _flag(),
            },
        ),
    )
}


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """The members that are set, and the limit of the heartbeat (None: that of the queue)."""

    config: dict[str, Any]
    max_seconds_since_last_heartbeat: int | None

    @property
    def digest(self) -> str:
        """A text that differs for another configuration, for callers who expect this one."""
        return sha256(repr((sorted(self.config.items()), self.max_seconds_since_last_heartbeat)).encode()).hexdigest()


class QueueLimits(NamedTuple):
    max_retries: int
    max_age: timedelta | None


def canonical_queue_name(name: str) -> str:
    """Return the present name of a queue that may be given by a former one."""
    return next((queue.name for queue in QUEUES.values() if name in queue.former_names), name)


def find_queue(name: str, scope: Literal["warehouse", "project"]) -> QueueDefinition:
    """Return the queue of this name or former name. Raises `QueueNotFound` (404)."""
    queue = QUEUES.get(canonical_queue_name(name))
    if queue is not None and queue.scope == scope:
        return queue
    raise QueueNotFound(f"No queue of a {scope} is named {name[:64]!r}")


def get_queue_config(queue: QueueDefinition, project_id: str, warehouse_id: UUID = NO_ID) -> QueueConfig:
    """Return the stored configuration; an empty one if none is stored."""
    row = _rows(queue.name, project_id, warehouse_id).first()
    return QueueConfig({}, None) if row is None else QueueConfig(row.config, row.max_seconds_since_last_heartbeat)


def list_queue_configs(project_id: str, warehouse_id: UUID) -> dict[str, QueueConfig]:
    """Return the configuration of each queue of a warehouse by name, an empty one where none is stored.

    With `NO_ID` as the warehouse, of each queue of the project itself.
    """
    rows = TaskQueueConfig.objects.filter(project_id=project_id, warehouse_id=warehouse_id)
    found = {row.queue: QueueConfig(row.config, row.max_seconds_since_last_heartbeat) for row in rows}
    scope = "project" if warehouse_id == NO_ID else "warehouse"
    names = (queue.name for queue in QUEUES.values() if queue.scope == scope)
    return {name: found.get(name, QueueConfig({}, None)) for name in names}


def set_queue_config(
    queue: QueueDefinition, new: QueueConfig, project_id: str, warehouse_id: UUID = NO_ID
) -> TaskQueueConfig:
    """Store a configuration, in the caller's transaction; return its row. Raises `InvalidQueueConfig` (400)."""
    validate_queue_config(queue, new)
    row, _ = TaskQueueConfig.objects.update_or_create(
        queue=queue.name,
        project_id=project_id,
        warehouse_id=warehouse_id,
        defaults={
            "config": new.config,
            "max_seconds_since_last_heartbeat": new.max_seconds_since_last_heartbeat,
        },
    )
    return row


def delete_queue_configs(warehouse_id: UUID) -> None:
    """Delete the configurations of a warehouse, in the caller's transaction."""
    TaskQueueConfig.objects.filter(warehouse_id=warehouse_id).delete()


def validate_queue_config(queue: QueueDefinition, new: QueueConfig) -> None:
    """Raises `InvalidQueueConfig` (400) for unknown members and invalid values."""
    members = queue.all_members
    for name, value in new.config.items():
        member = members.get(name)
        if member is None:
            raise InvalidQueueConfig(f"queue-config has no member {name[:64]!r}; known are {', '.join(members)}")
        if value is not None and not member.is_valid(value):
            raise InvalidQueueConfig(f"queue-config.{name}: {member.allowed}", field=f"queue-config.{name}")
    seconds = new.max_seconds_since_last_heartbeat
    if seconds is not None and not MIN_HEARTBEAT_SECONDS <= seconds <= MAX_HEARTBEAT_SECONDS:
        raise InvalidQueueConfig(
            f"max-seconds-since-last-heartbeat: from {MIN_HEARTBEAT_SECONDS} to {MAX_HEARTBEAT_SECONDS}",
            field="max-seconds-since-last-heartbeat",
        )


def effective_member(queue: str, config: Mapping[str, Any], name: str) -> Any:
    """Return the value of a member of a configuration, or its default."""
    value = config.get(name)
    definition = QUEUES.get(queue)
    members = COMMON_MEMBERS if definition is None else definition.all_members
    return members[name].default if value is None else value


def effective_duration(queue: QueueDefinition, config: QueueConfig, name: str) -> timedelta:
    """Return a member that is a duration, or its default, which must not be None."""
    found = parse_duration(effective_member(queue.name, config.config, name))
    if found is None:
        raise ValueError(f"{queue.name} has no duration {name}")
    return found


def queue_limits(queue: str, project_id: str, warehouse_id: UUID) -> QueueLimits:
    """Return when a task of the queue fails for good; one statement."""
    row = _rows(queue, project_id, warehouse_id).first()
    config = {} if row is None else row.config
    age = effective_member(queue, config, "max-age")
    return QueueLimits(effective_member(queue, config, "max-retries"), parse_duration(age))


def _rows(queue: str, project_id: str, warehouse_id: UUID) -> Any:
    return TaskQueueConfig.objects.filter(queue=queue, project_id=project_id, warehouse_id=warehouse_id)
