"""The queues, and their configuration in each warehouse or project."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from icekeeper.kernel.errors.types import BadRequest, NotFound
from tasks.models import NO_ID, Task, TaskQueueConfig

DEFAULT_MAX_RETRIES: Final = 30
"""With a backoff of up to an hour about a day: an outage of a store must not end its purges."""

MAX_RETRIES: Final = 10_000
MAX_HEARTBEAT_SECONDS: Final = 86_400
MIN_HEARTBEAT_SECONDS: Final = 10
DAY: Final = timedelta(days=1)
MAX_DURATION: Final = timedelta(days=36_500)
MAX_INT64: Final = 2**63 - 1


class InvalidQueueConfig(BadRequest):
    wire_type = "InvalidQueueConfig"


class QueueNotFound(NotFound):
    wire_type = "QueueNotFound"


Check = Callable[[Any], bool]


def _is_int(low: int, high: int) -> Check:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_duration(least: timedelta) -> Check:
    def check(value: Any) -> bool:
        found = parse_duration(value)
        return found is not None and least <= found <= MAX_DURATION

    return check


class Member(NamedTuple):
    """A member of a queue's configuration: its default, whether a value is valid, and what is valid in words."""

    default: Any
    is_valid: Check
    allowed: str


_COMMON: Final = {
    "max-retries": Member(DEFAULT_MAX_RETRIES, _is_int(0, MAX_RETRIES), f"a whole number from 0 to {MAX_RETRIES}"),
    "max-age": Member(None, _is_duration(timedelta(minutes=1)), "an ISO 8601 duration of at least PT1M"),
}


@dataclass(frozen=True, slots=True)
class QueueDefinition:
    """A queue: `members` are those of its configuration in addition to the common ones, `former_names` still name it.

    `on_cancel` is the path of a function that is called in the transaction that cancels tasks, with
    the actor and the rows.
    `scope` is what a configuration and a task belong to.
    """

    name: str
    scope: Literal["warehouse", "project"] = "warehouse"
    former_names: tuple[str, ...] = ()
    on_cancel: str | None = None
    members: Mapping[str, Member] = field(default_factory=dict)


_OFF: Final = Member(default=False, is_valid=_is_bool, allowed="true or false")
_DAYS: Final = "an ISO 8601 duration of at least P1D"

QUEUES: Final[dict[str, QueueDefinition]] = {
    queue.name: queue
    for queue in (
        QueueDefinition(
            Task.Queue.SOFT_DELETION.value,
            former_names=("tabular_expiration",),
            on_cancel="catalog.services.tables.undrop.cancel_expirations_and_restore",
        ),
        QueueDefinition(Task.Queue.TABULAR_PURGE.value, on_cancel="catalog.services.locations.purge.cancel_purges"),
        QueueDefinition(
            Task.Queue.TASK_LOG_CLEANUP.value,
            scope="project",
            members={
                "cleanup-period": Member("P1D", _is_duration(DAY), _DAYS),
                "retention-period": Member("P90D", _is_duration(DAY), _DAYS),
            },
        ),
        QueueDefinition(
            Task.Queue.EXPIRE_SNAPSHOTS.value,
            members={
                "enable-expire-snapshots": _OFF,
                "max-snapshot-age-ms": Member(432_000_000, _is_int(0, MAX_INT64), "a number of milliseconds"),
                "min-snapshots-to-keep": Member(1, _is_int(1, MAX_INT64), "a whole number from 1"),
                "min-snapshots-to-expire": Member(20, _is_int(1, MAX_INT64), "a whole number from 1"),
                "max-ref-age-ms": Member(MAX_INT64, _is_int(0, MAX_INT64), "a number of milliseconds"),
            },
        ),
        QueueDefinition(
            Task.Queue.REMOVE_ORPHAN_FILES.value,
            members={
                "enable-remove-orphan-files": _OFF,
                "default-older-than-ms": Member(604_800_000, _is_int(0, MAX_INT64), "a number of milliseconds"),
                "disable-min-older-than-check": _OFF,
                "target-reclaim-bytes": Member(1 << 30, _is_int(0, MAX_INT64), "a number of bytes"),
                "maximum-interval-seconds": Member(
                    7_776_000, _is_int(86_400, MAX_INT64), "a number of seconds from 86400"
                ),
                "max-run-time-seconds": Member(3600, _is_int(60, MAX_INT64), "a number of seconds from 60"),
                "dry-run": _OFF,
            },
        ),
    )
}


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """The members that are set, and the limit of the heartbeat (None: that of the queue)."""

    config: dict[str, Any]
    max_seconds_since_last_heartbeat: int | None


class QueueLimits(NamedTuple):
    max_retries: int
    max_age: timedelta | None


def find_queue(name: str, scope: Literal["warehouse", "project"]) -> QueueDefinition:
    """Return the queue of this name or former name. Raises `QueueNotFound` (404)."""
    for queue in QUEUES.values():
        if queue.scope == scope and name in (queue.name, *queue.former_names):
            return queue
    raise QueueNotFound(f"No queue of a {scope} is named {name[:64]!r}")


def get_queue_config(queue: QueueDefinition, project_id: str, warehouse_id: UUID = NO_ID) -> QueueConfig:
    """Return the stored configuration; an empty one if none is stored."""
    row = _rows(queue.name, project_id, warehouse_id).first()
    return QueueConfig({}, None) if row is None else QueueConfig(row.config, row.max_seconds_since_last_heartbeat)


def set_queue_config(queue: QueueDefinition, new: QueueConfig, project_id: str, warehouse_id: UUID = NO_ID) -> None:
    """Validate and store the configuration, in the caller's transaction. Raises `InvalidQueueConfig` (400)."""
    validate_queue_config(queue, new)
    TaskQueueConfig.objects.update_or_create(
        queue=queue.name,
        project_id=project_id,
        warehouse_id=warehouse_id,
        defaults={
            "config": new.config,
            "max_seconds_since_last_heartbeat": new.max_seconds_since_last_heartbeat,
        },
    )


def validate_queue_config(queue: QueueDefinition, new: QueueConfig) -> None:
    """Raises `InvalidQueueConfig` (400) for unknown members and invalid values."""
    members = {**_COMMON, **queue.members}
    for name, value in new.config.items():
        member = members.get(name)
        if member is None:
            raise InvalidQueueConfig(f"queue-config has no member {name[:64]!r}; known are {', '.join(members)}")
        if value is not None and not member.is_valid(value):
            raise InvalidQueueConfig(f"queue-config.{name}: {member.allowed}")
    seconds = new.max_seconds_since_last_heartbeat
    if seconds is not None and not MIN_HEARTBEAT_SECONDS <= seconds <= MAX_HEARTBEAT_SECONDS:
        raise InvalidQueueConfig(
            f"max-seconds-since-last-heartbeat: from {MIN_HEARTBEAT_SECONDS} to {MAX_HEARTBEAT_SECONDS}"
        )


def effective_member(queue: str, config: Mapping[str, Any], name: str) -> Any:
    """Return the value of a member of a configuration, or its default."""
    value = config.get(name)
    definition = QUEUES.get(queue)
    members = _COMMON if definition is None else {**_COMMON, **definition.members}
    return members[name].default if value is None else value


def queue_limits(queue: str, project_id: str, warehouse_id: UUID) -> QueueLimits:
    """Return when a task of the queue fails for good; one statement."""
    row = _rows(queue, project_id, warehouse_id).first()
    config = {} if row is None else row.config
    age = effective_member(queue, config, "max-age")
    return QueueLimits(effective_member(queue, config, "max-retries"), parse_duration(age))


_DURATION = re.compile(
    r"P(?:(?P<weeks>\d{1,6})W)?(?:(?P<days>\d{1,6})D)?"
    r"(?:T(?:(?P<hours>\d{1,8})H)?(?:(?P<minutes>\d{1,8})M)?(?:(?P<seconds>\d{1,10}(?:\.\d{1,6})?)S)?)?"
)


def parse_duration(text: Any) -> timedelta | None:
    """Parse an ISO 8601 duration without years and months; None for anything else."""
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if found is None or text.endswith(("P", "T")):
        return None
    return timedelta(**{name: float(value) for name, value in found.groupdict().items() if value is not None})


def _rows(queue: str, project_id: str, warehouse_id: UUID) -> Any:
    return TaskQueueConfig.objects.filter(queue=queue, project_id=project_id, warehouse_id=warehouse_id)
