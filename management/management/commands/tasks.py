from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.core.management.base import CommandError, CommandParser

from catalog.services.task_control import ALL_TASKS, cancel_tasks, retry_tasks, run_tasks_at, stop_tasks
from catalog.services.task_queues import (
    get_project_queue_config_for,
    get_warehouse_queue_config_for,
    set_project_queue_config,
    set_warehouse_queue_config,
)
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.json.strict import read_json
from management.management.cli_lookup import resolve_project, resolve_warehouse
from management.management.operator_command import OperatorCommand, escape_unprintable, require_no_maintenance
from tasks.models import NO_ID, Task, TaskAttempt
from tasks.queue.config import QueueConfig
from tasks.queue.control import get_tasks
from tenancy.actor import INTERNAL

DEFAULT_LIMIT: Final = 100

CONTROLS: Final[dict[str, Callable[..., list[Task]]]] = {
    "retry": retry_tasks,
    "run-now": partial(run_tasks_at, at=None),
    "stop": stop_tasks,
    "cancel": cancel_tasks,
}


class Command(OperatorCommand):
    help = (
        "List and control tasks, such as purges. `list` prints the newest first, one per line, tab-separated. `show` "
        "prints tasks with their attempts and what they have done, such as the number of deleted files. `retry` "
        "schedules failed tasks again; `run-now` starts scheduled ones at once; `stop` ends the current attempt of "
        "running ones; `cancel` ends tasks that have not ended: the table of an expiration is restored, the files of "
        "a purge stay and its location becomes free. Tasks in another state are not changed. Exit status 1, and "
        "nothing is changed, if a task does not exist. `config QUEUE` prints the configuration of a queue in a "
        "warehouse, or with `--set` replaces it, such as "
        "`tasks config tabular_purge --warehouse sales --set '{\"max-retries\": 100}'`."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["list", "show", *CONTROLS, "config"])
        parser.add_argument(
            "ids", nargs="*", metavar="ID", help="ids of tasks, at most 100, not with `list`; the queue with `config`"
        )
        parser.add_argument(
            "--warehouse",
            help="list the tasks of this warehouse alone, or configure its queue: its name or id",
        )
        parser.add_argument(
            "--project-id",
            metavar="PROJECT",
            help="project of the warehouse or queue (default: the default project), or whose tasks are listed",
        )
        parser.add_argument("--queue", choices=sorted(Task.Queue.values), help="list the tasks of this queue alone")
        parser.add_argument(
            "--status", choices=sorted(Task.Status.values), help="list the tasks with this status alone"
        )
        parser.add_argument("--limit", type=int, default=DEFAULT_LIMIT, help=f"maximum number ({DEFAULT_LIMIT})")
        parser.add_argument("--set", metavar="JSON", help="replace the configuration with these members; {} resets it")
        parser.add_argument(
            "--max-seconds-since-last-heartbeat",
            type=int,
            metavar="SECONDS",
            help="with `--set`: after this time without a heartbeat another worker takes over a task",
        )
        parser.add_argument("--json", action="store_true", help="print JSON, one object per line")

    def handle(self, *args: Any, **options: Any) -> None:
        action = options["action"]
        if action == "config":
            self._config(options)
            return
        ids = [_task_id(text) for text in options["ids"]]
        if action == "list":
            if ids:
                raise CommandError("`list` takes no ids")
            self._list(options)
        elif not ids:
            raise CommandError(f"`{action}` needs the id of a task")
        elif action == "show":
            for task in get_tasks(ids):
                self._show(task, is_json=options["json"])
        else:
            require_no_maintenance("no task is changed")
            changed = CONTROLS[action](actor=INTERNAL, scope=ALL_TASKS, task_ids=ids)
            content = {"changed": [task.pk for task in changed]}
            self.print_result(options, content, f"Changed {len(changed)} of {len(set(ids))} tasks.")

    def _config(self, options: dict[str, Any]) -> None:
        if len(options["ids"]) != 1:
            raise CommandError("`config` needs the name of one queue")
        if options["max_seconds_since_last_heartbeat"] is not None and options["set"] is None:
            raise CommandError("--max-seconds-since-last-heartbeat needs --set")
        where: dict[str, Any] = {"actor": INTERNAL, "queue_name": options["ids"][0]}
        project = resolve_project(options["project_id"])
        get_config: Callable[..., QueueConfig] = get_project_queue_config_for
        set_config: Callable[..., None] = set_project_queue_config
        if options["warehouse"] is None:
            where["project"] = project
        else:
            where["warehouse_id"] = resolve_warehouse(project, options["warehouse"]).pk
            get_config, set_config = get_warehouse_queue_config_for, set_warehouse_queue_config
        if options["set"] is not None:
            require_no_maintenance("no configuration is changed")
            seconds = options["max_seconds_since_last_heartbeat"]
            set_config(**where, config=QueueConfig(_members(options["set"]), seconds))
        found = get_config(**where)
        seconds = found.max_seconds_since_last_heartbeat
        self.print_json({"queue-config": found.config, "max-seconds-since-last-heartbeat": seconds})

    def _list(self, options: dict[str, Any]) -> None:
        if options["limit"] < 1:
            raise CommandError("--limit takes 1 or more")
        found = Task.objects.order_by("-id")  # UUIDv7: newest first
        if options["project_id"] is not None:
            found = found.filter(project_id=resolve_project(options["project_id"]).pk)
        if options["warehouse"] is not None:
            project = resolve_project(options["project_id"])
            found = found.in_warehouse(resolve_warehouse(project, options["warehouse"]).pk)
        for name in ("queue", "status"):
            if options[name] is not None:
                found = found.filter(**{name: options[name]})
        for task in found[: options["limit"]]:
            if options["json"]:
                self.print_json(_content(task))
            else:
                self.stdout.write("\t".join(escape_unprintable(cell) for cell in _cells(task)))

    def _show(self, task: Task, *, is_json: bool) -> None:
        attempts = list(task.attempts.order_by("attempt"))
        if is_json:
            self.print_json(_content(task) | {"attempts": [_attempt(each) for each in attempts]})
            return
        for name, value in _content(task).items():
            if value is None or value == "":
                continue
            for key, each in value.items() if isinstance(value, dict) else [(name, value)]:
                self.stdout.write(escape_unprintable(f"{key}: {each}"))
        for each in attempts:
            self.stdout.write(f"attempt {each.attempt}: {each.status} at {each.created_at:%Y-%m-%d %H:%M:%S} UTC")
            if each.message:
                self.stdout.write(f"  {escape_unprintable(each.message)}")


def _members(text: str) -> dict[str, Any]:
    try:
        members = read_json(text.encode())
    except CatalogError as error:
        raise CommandError(f"--set: {error.message}") from error
    if not isinstance(members, dict):
        raise CommandError("--set takes a JSON object")
    return members


def _task_id(text: str) -> UUID:
    found = parse_id(text)
    if found is None:
        raise CommandError(f"{text[:100]!r} is not the id of a task")
    return found


def _cells(task: Task) -> list[str]:
    name = ".".join(task.entity_name)
    due = f"{task.scheduled_for:%Y-%m-%d %H:%M} UTC"
    return [str(task.pk), task.queue, task.status, f"attempt {task.attempt}", due, name, task.message]


def _content(task: Task) -> dict[str, Any]:
    return {
        "task-id": str(task.pk),
        "queue-name": task.queue,
        "status": task.status,
        "project-id": task.project_id,
        "warehouse-id": None if task.warehouse_id == NO_ID else str(task.warehouse_id),
        "entity-type": task.entity_type,
        "entity-id": None if task.entity_uuid is None else str(task.entity_uuid),
        "entity-name": ".".join(task.entity_name),
        "attempt": task.attempt,
        "progress": task.progress,
        "execution-details": task.execution_details,
        "message": task.message,
        "scheduled-for": task.scheduled_for.isoformat(),
        "created-at": task.created_at.isoformat(),
        "created-by": task.created_by,
        "parent-task-id": None if task.parent_id is None else str(task.parent_id),
        "finished-at": None if task.finished_at is None else task.finished_at.isoformat(),
    }


def _attempt(attempt: TaskAttempt) -> dict[str, Any]:
    return {
        "attempt": attempt.attempt,
        "status": attempt.status,
        "message": attempt.message,
        "execution-details": attempt.execution_details,
        "started-at": None if attempt.started_at is None else attempt.started_at.isoformat(),
        "ended-at": attempt.created_at.isoformat(),
    }
