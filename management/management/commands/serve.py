from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.utils.module_loading import import_string

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.server.child_process import ChildProcess
from icekeeper.server.database_checks import UnusableDatabase, check_databases, describe_database
from icekeeper.server.ports import CannotListen
from icekeeper.server.run import run_server
from icekeeper.server.writable_folders import UnwritableFolder, check_data_folder
from storage.io.local_root import unwritable_storage
from tenancy import maintenance
from tenancy.authn.providers import ProvidersUnreachable, authenticators, connect_providers

logger = logging.getLogger("icekeeper.server")


class Command(BaseCommand):
    help = (
        "Serve the REST catalog, the management API and Swagger UI until SIGTERM or Ctrl-C; requests in flight are "
        "finished first. Address: LAKEKEEPER__BIND_IP, LAKEKEEPER__LISTEN_PORT, and LAKEKEEPER__METRICS__PORT for "
        "/metrics; processes, threads and limits: ICEKEEPER__SERVER__*. "
        "Refuses to start on a database that cannot be reached or is not migrated to exactly "
        "this version (manage.py migrate), without accepted terms of use, without the identity providers it needs, and "
        "when it cannot read the credentials of warehouses. "
        "Log lines are JSON on stderr, one a request. It also runs and supervises a worker (manage.py worker --help); "
        "several servers that each run one are safe on PostgreSQL. In maintenance mode it answers reads only; when the "
        "setting says so it runs no worker."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        worker = parser.add_mutually_exclusive_group()
        worker.add_argument(
            "--with-worker", dest="worker", action="store_true", default=True,
            help="run a worker as a child process of the server (the default)",
        )  # fmt: skip
        worker.add_argument(
            "--without-worker", dest="worker", action="store_false",
            help="run no worker: queued tasks wait for one that runs elsewhere (manage.py worker)",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if connection.vendor == "sqlite":
                check_data_folder(Path(settings.DATABASES["default"]["NAME"]))
            check_databases()
            for name in settings.STARTUP_CHECKS:
                import_string(name)()
        except (UnusableDatabase, UnwritableFolder, CatalogError) as refusal:
            raise CommandError(str(refusal)) from refusal
        logger.info("database: %s", describe_database(), extra={"databases": _describe_databases()})
        if settings.UNREAD_VARIABLES:
            logger.warning(
                "variables that nothing reads: %s", ", ".join(settings.UNREAD_VARIABLES),
                extra={"variables": settings.UNREAD_VARIABLES},
            )  # fmt: skip
        self._connect_providers()
        conf = settings.ICEKEEPER
        if (problem := unwritable_storage(conf.local_storage_root)) is not None:
            logger.warning(problem)
        has_worker = options["worker"]
        if maintenance.is_set_read_only():
            logger.warning("maintenance mode is read-only by LAKEKEEPER__MAINTENANCE_MODE: nothing changes, no worker")
            has_worker = False
        try:
            run_server(conf, self._announce, [ChildProcess("the worker", _work)] if has_worker else [])
        except CannotListen as refusal:
            raise CommandError(str(refusal)) from refusal

    def _connect_providers(self) -> None:
        if not authenticators():
            logger.warning("authentication is OFF: whoever reaches this port may do anything")
            return
        try:
            connect_providers()
        except ProvidersUnreachable as refusal:
            raise CommandError(f"nobody could be let in: {refusal}") from refusal
        logger.info("authentication is on: %s", ", ".join(each.name for each in authenticators()))
        if missing := settings.ICEKEEPER.missing_audiences:
            logger.warning(
                "tokens that a provider issued for any other application are accepted: set %s", ", ".join(missing),
                extra={"variables": missing},
            )  # fmt: skip

    def _announce(self, metrics_port: int | None) -> None:
        conf = settings.ICEKEEPER
        base = (
            str(conf.base_uri).rstrip("/") if conf.base_uri else f"http://{_reachable(conf.bind_ip)}:{conf.listen_port}"
        )
        lines = [
            "Icekeeper serves",
            f"  Iceberg REST catalog  {base}/catalog",
            f"  management API        {base}/management",
            *([f"  Swagger UI            {base}/swagger-ui"] if conf.serve_swagger_ui else []),
            f"  health                {base}/health",
            *(
                [f"  metrics               http://{_reachable(conf.bind_ip)}:{metrics_port}/metrics"]
                if metrics_port
                else []
            ),
        ]
        self.stdout.write("\n".join(lines))
        self.stdout.flush()


def _describe_databases() -> dict[str, str]:
    return {alias: describe_database(alias) for alias in settings.DATABASES}


def _work(parent: int) -> None:
    """Runs in the worker's process."""
    from tasks.workers.worker import run_worker

    run_worker(parent=parent)


def _reachable(bind_ip: str) -> str:
    """An address for people to open: the wildcard addresses are none."""
    if bind_ip in {"0.0.0.0", "::"}:  # noqa: S104
        return "127.0.0.1"
    return f"[{bind_ip}]" if ":" in bind_ip else bind_ip
