from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.server.database_checks import UnusableDatabase, check_databases
from storage.secrets.start import require_readable_secrets
from tasks.workers.worker import run_worker
from tenancy import maintenance


class Command(BaseCommand):
    help = (
        "Do what drops have queued, one task at a time, until SIGTERM or Ctrl-C: delete the files of tables that were "
        "dropped with purge, and the rows of those that were soft-deleted long enough ago. Any number of workers may "
        "run; `serve` starts one, too, unless --without-worker is given. Looks for work every "
        "LAKEKEEPER__TASK_POLL_INTERVAL. Log lines are JSON on stderr, one a task. In maintenance mode it waits; with "
        "LAKEKEEPER__MAINTENANCE_MODE=read-only it does not start, and with --once neither does it under the switch. "
        "Neither does it start when it cannot read the credentials of warehouses."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="do what is due now, then end")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            check_databases()
            require_readable_secrets()
        except (UnusableDatabase, CatalogError) as refusal:
            raise CommandError(str(refusal)) from refusal
        maintenance.switch.look()
        if maintenance.is_set_read_only() or (options["once"] and maintenance.is_read_only()):
            raise CommandError("Maintenance mode is read-only: no worker runs")
        run_worker(once=options["once"])
