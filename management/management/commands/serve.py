from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection
from django.utils.module_loading import import_string

from icekeeper.kernel.db.checks import (
    UnusableDatabase,
    UnwritableFolder,
    check_data_folder,
    check_databases,
    describe_database,
)
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.server.child_process import ChildProcess
from icekeeper.server.run import CannotListen, run_server
from management.management.reachable_address import reachable_base_url, reachable_host
from management.sign_in.addresses import create_sign_in_address
from storage.io.local import unwritable_storage
from tasks.runtime.jobs import jobs_of_server_processes
from tasks.runtime.scheduler import Scheduler
from tenancy import maintenance
from tenancy.actor import INTERNAL
from tenancy.authn.providers import ProvidersUnreachable, authenticators, connect_providers
from tenancy.services.users import create_local_user

logger = logging.getLogger("icekeeper.server")

LOCAL_ADMINISTRATOR = "local~admin"


class Command(BaseCommand):
    help = (
        "Serve the REST catalog, the management API and Swagger UI until SIGTERM or Ctrl-C, which finish open "
        "requests first. Address: LAKEKEEPER__BIND_IP, LAKEKEEPER__LISTEN_PORT, and LAKEKEEPER__METRICS__PORT for "
        "/metrics; processes, threads and limits: ICEKEEPER__SERVER__*. The server does not start if the database is "
        "unreachable or not migrated to this version (manage.py migrate), if a required identity provider is "
        "unreachable, or if it cannot read the credentials of warehouses. It logs JSON on stderr, one line per "
        "request. It also runs and supervises a worker (manage.py worker --help); several servers with a worker each "
        "are safe on PostgreSQL. In maintenance mode it serves reads only; with "
        "LAKEKEEPER__MAINTENANCE_MODE=read-only it runs no worker."
    )

    _console_lines: list[str]

    def add_arguments(self, parser: CommandParser) -> None:
        worker = parser.add_mutually_exclusive_group()
        worker.add_argument(
            "--with-worker", dest="worker", action="store_true", default=True,
            help="run a worker as a child process of the server (the default)",
        )  # fmt: skip
        worker.add_argument(
            "--without-worker", dest="worker", action="store_false",
            help="run no worker: tasks wait for a worker of another process (manage.py worker)",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if connection.vendor == "sqlite":
                check_data_folder(Path(settings.DATABASES["default"]["NAME"]))
            check_databases()
            for name in settings.STARTUP_JOBS:
                import_string(name)()
        except (UnusableDatabase, UnwritableFolder, CatalogError) as error:
            raise CommandError(str(error)) from error
        logger.info("database: %s", describe_database(), extra={"databases": _describe_databases()})
        if settings.UNREAD_VARIABLES:
            logger.warning(
                "unknown variables: %s", ", ".join(settings.UNREAD_VARIABLES),
                extra={"variables": settings.UNREAD_VARIABLES},
            )  # fmt: skip
        self._connect_providers()
        conf = settings.ICEKEEPER
        if (problem := unwritable_storage(conf.local_storage_root)) is not None:
            logger.warning(problem)
        has_worker = options["worker"]
        if maintenance.is_read_only_by_setting():
            logger.warning(
                "maintenance mode is read-only by LAKEKEEPER__MAINTENANCE_MODE: changes are rejected, no worker runs"
            )
            has_worker = False
        try:
            children = [ChildProcess("the worker", _work)] if has_worker else []
            self._console_lines = _describe_console(conf)
            run_server(conf, self._announce, children, _start_jobs)
        except CannotListen as error:
            raise CommandError(str(error)) from error

    def _connect_providers(self) -> None:
        if not authenticators():
            logger.warning("authentication is OFF: every client that reaches this port has all permissions")
            return
        try:
            connect_providers()
        except ProvidersUnreachable as error:
            raise CommandError(f"no user could be authenticated: {error}") from error
        logger.info("authentication is on: %s", ", ".join(each.name for each in authenticators()))
        if missing := settings.ICEKEEPER.missing_audiences:
            logger.warning(
                "tokens that a provider issued for other applications are accepted: set %s", ", ".join(missing),
                extra={"variables": missing},
            )  # fmt: skip

    def _announce(self, metrics_port: int | None) -> None:
        conf = settings.ICEKEEPER
        base = reachable_base_url(conf)
        lines = [
            "Icekeeper is serving",
            f"  Iceberg REST catalog  {base}/catalog",
            f"  management API        {base}/management",
            *([f"  Swagger UI            {base}/swagger-ui"] if conf.serve_swagger_ui else []),
            f"  health                {base}/health",
            *(
                [f"  metrics               http://{reachable_host(conf.bind_ip)}:{metrics_port}/metrics"]
                if metrics_port
                else []
            ),
            *self._console_lines,
        ]
        self.stdout.write("\n".join(lines))
        self.stdout.flush()


def _describe_databases() -> dict[str, str]:
    return {alias: describe_database(alias) for alias in settings.DATABASES}


def _describe_console(conf: Any) -> list[str]:
    """Return the lines of the announcement about the console.

    With the embedded database and without authentication they have a one-time address for the user `local~admin`, who
    is created if needed: no other way to sign in is open. It is printed on stdout, and is in no log line.
    """
    if not conf.console.enabled:
        return []
    base = reachable_base_url(conf)
    line = f"  console               {base}/ui/"
    if connection.vendor != "sqlite" or authenticators() or maintenance.is_read_only():
        return [line]
    try:
        create_local_user(actor=INTERNAL, user_id=LOCAL_ADMINISTRATOR)
        address = create_sign_in_address(actor=INTERNAL, user_id=LOCAL_ADMINISTRATOR, base_url=base)
    except (CatalogError, DatabaseError) as error:  # an operator has blocked this user, or another process writes
        return [line, f"    no one-time address: {error}"]
    return [f"  console               {address}", f"    signs {LOCAL_ADMINISTRATOR} in once, within 15 minutes"]


def _start_jobs() -> Callable[[], None]:
    """Start the periodic jobs of a process that serves requests; return a function that stops them."""
    scheduler = Scheduler(jobs_of_server_processes(), is_paused=maintenance.is_read_only)
    scheduler.start()
    return scheduler.stop


def _work(parent: int) -> None:
    """Run in the process of the worker."""
    from tasks.workers.worker import run_worker

    run_worker(parent=parent)
