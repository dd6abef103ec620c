"""`INTERNAL`, the server itself, has every permission, and no request can act as it.

Commands of `manage.py` act as the operator of the server, who could also write to its database. The worker completes
authorized requests (a purge), or periodic jobs (deletion of old rows). Both call the services that requests call,
which check permissions for every actor; the port allows these.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECTS = ("icekeeper", "catalog", "events", "management", "storage", "tasks", "tenancy")

ACTS_AS_THE_SERVER = {
    "management/management/": "commands",
    "management/bootstrap/": "the command `bootstrap`: what its file declares",
    "management/table_import/": "the command `register_tables`",
    "tasks/workers/execution.py": "tasks",
    "tasks/workers/worker.py": "periodic jobs",
    "tasks/workers/celery_beat.py": "periodic jobs",
    "events/worker.py": "deletion of old events",
    "tenancy/services/openfga_import.py": "the command `copy_grants`",
    "tenancy/services/task_events.py": "events of tasks that a worker ended",
    "tenancy/audit/collector.py": "records that it lost records, and seals",
}
"""Who names `INTERNAL`, and as what. Nothing that a request gets to."""


@cache
def sources() -> list[tuple[str, ast.AST]]:
    return [
        (str(path.relative_to(ROOT)), ast.parse(path.read_text()))
        for project in PROJECTS
        for path in sorted((ROOT / project).rglob("*.py"))
        if "migrations" not in path.parts
    ]


def test_only_commands_and_workers_act_as_the_server() -> None:
    naming = {
        file
        for file, source in sources()
        for node in ast.walk(source)
        if isinstance(node, ast.ImportFrom) and any(each.name == "INTERNAL" for each in node.names)
    }
    assert {file for file in naming if not file.startswith(tuple(ACTS_AS_THE_SERVER))} == set()
    assert {location for location in ACTS_AS_THE_SERVER if any(file.startswith(location) for file in naming)} == set(
        ACTS_AS_THE_SERVER
    )


def test_no_other_code_creates_such_an_actor() -> None:
    creating = {
        file
        for file, source in sources()
        for node in ast.walk(source)
        if isinstance(node, ast.keyword) and node.arg == "is_internal"
    }
    assert creating == {"tenancy/actor.py"}


def test_no_interface_imports_what_acts_as_the_server() -> None:
    """The modules of the commands are next to the interfaces: an import of them would bypass the port."""
    closed = tuple(location.rstrip("/").removesuffix(".py").replace("/", ".") for location in ACTS_AS_THE_SERVER)
    importing = {
        (file, node.module)
        for file, source in sources()
        if file.startswith(("catalog/api/", "management/api/"))
        for node in ast.walk(source)
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith(closed)
    }
    assert importing == set()
