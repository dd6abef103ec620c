from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from icekeeper.kernel.db.checks import UnusableDatabase, check_databases
from icekeeper.kernel.errors.types import CatalogError
from storage.secrets.stores import require_readable_secrets
from tasks.workers.execution import WORK
from tasks.workers.worker import run_worker
from tenancy import maintenance


class Command(BaseCommand):
    help = (
        "Run queued tasks until SIGTERM or Ctrl-C: delete the files of tables that were dropped with purge, expire "
        "soft-deleted tables, delete old tasks and record statistics. Any number of workers may run; `serve` also "
        "runs one unless --without-worker is given. A task that becomes due starts at once; the worker also polls "
        "every LAKEKEEPER__TASK_POLL_INTERVAL. It logs JSON on stderr, one line per task. In maintenance mode it "
        "pauses; with LAKEKEEPER__MAINTENANCE_MODE=read-only it does not start, and --once does not start under the "
        "maintenance switch either. It does not start if it cannot read the credentials of warehouses."
    )
    requires_system_checks: list[str] = []  # as in `OperatorCommand`

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="run the tasks that are due now, then exit")
        parser.add_argument(
            "--queue", action="append", choices=sorted(WORK), help="run the tasks of this queue alone; may be repeated"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            check_databases()
            require_readable_secrets()
        except (UnusableDatabase, CatalogError) as error:
            raise CommandError(str(error)) from error
        maintenance.switch.refresh()
        if maintenance.is_read_only_by_setting() or (options["once"] and maintenance.is_read_only()):
            raise CommandError("Maintenance mode is read-only: the worker does not run")
        run_worker(once=options["once"], queues=options["queue"])
