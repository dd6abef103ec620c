"""Health endpoints: /health and /health/ready check the databases, /health/live only that the process runs requests.

They need no authentication and report nothing confidential.

django-health-check (4.8) is not used: it runs its checks again for each request, responds with 500 on failure, and its
JSON has none of Lakekeeper's members.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.conf import settings
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from icekeeper.kernel.clock import now, now_ms
from icekeeper.kernel.db.connections import restore_statement_limits
from icekeeper.kernel.json.strict import write_json
from icekeeper.kernel.request_context import deadline
from tasks.runtime.status import JobStatus, server_process_job_statuses, worker_job_statuses
from tenancy import maintenance
from tenancy.authn.providers import authenticators
from tenancy.authz.openfga.client import OpenFgaUnavailable
from tenancy.authz.openfga.store import TupleCheck, openfga_store
from tenancy.authz.openfga.tuples import TupleKey
from tenancy.authz.port import is_openfga

logger = logging.getLogger("icekeeper.health")

CHECK_SECONDS = 3.0
"""Timeout of a check."""

PROBE_TUPLE = TupleKey("server:none", "admin", "user:none")
"""The cheapest check for OpenFGA: neither object nor user exists."""

_NAMES = {"default": "write_pool", "read": "read_pool"}
"""Names of the databases in Lakekeeper's responses."""


@dataclass(frozen=True, slots=True)
class ServiceHealth:
    """The result of a check: `ok`, `error` or `unknown`; `last_check` in ms since the epoch.

    `missing` is the number of migrations that the database lacks.
    """

    name: str
    status: str
    last_check: int
    missing: int = 0


class HealthCheck(ABC):
    """A check of one service that runs at most every `frequency` seconds, in one thread at a time."""

    def __init__(self, name: str, frequency: float) -> None:
        self._name, self._frequency = name, frequency
        self._lock = threading.Lock()
        self._result: Future[ServiceHealth] | None = None
        self._started_at = float("-inf")

    def health(self) -> ServiceHealth:
        """Return the last result while it is fresh, else run the check; `unknown` after `CHECK_SECONDS`."""
        with self._lock:
            if self._result is None or (self._result.done() and self._is_stale()):
                self._started_at = time.monotonic()
                self._result = Future()
                # In a thread: a check that blocks in the network delays no request and not the stop of the server.
                threading.Thread(target=self._run, args=(self._result,), name="health", daemon=True).start()
            result, timeout = self._result, self._started_at + CHECK_SECONDS - time.monotonic()
        try:
            return result.result(timeout=max(0.0, timeout))
        except NotDone:
            return self._health("unknown")

    def _is_stale(self) -> bool:
        return time.monotonic() - self._started_at >= self._frequency

    def _run(self, result: Future[ServiceHealth]) -> None:
        try:
            with deadline(time.monotonic() + CHECK_SECONDS):
                health = self._check()
        except OpenFgaUnavailable as failure:
            logger.warning("OpenFGA is unavailable: %s", failure.reason)
            health = self._health("error")
        except Exception:
            logger.exception("health check of %s failed", self._name)
            health = self._health("error")
        result.set_result(health)

    @abstractmethod
    def _check(self) -> ServiceHealth:
        """Check the service. Raises an error if it does not respond."""

    def _health(self, status: str, missing: int = 0) -> ServiceHealth:
        return ServiceHealth(self._name, status, now_ms(), missing)


class DatabaseCheck(HealthCheck):
    def __init__(self, alias: str, frequency: float) -> None:
        super().__init__(_NAMES[alias], frequency)
        self._alias = alias

    def _check(self) -> ServiceHealth:
        connection = connections[self._alias]
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        applied = MigrationRecorder(connection).applied_migrations()
        return self._health("ok", len(_migrations() - applied.keys()))

    def _run(self, result: Future[ServiceHealth]) -> None:
        super()._run(result)
        restore_statement_limits()
        connections[self._alias].close()


@cache
def _migrations() -> frozenset[tuple[str, str]]:
    """Return app and name of each migration of this version."""
    return frozenset(MigrationLoader(None).disk_migrations)


class OpenFgaCheck(HealthCheck):
    """Checks a permission in OpenFGA; without OpenFGA every request is denied with 503."""

    def _check(self) -> ServiceHealth:
        openfga_store().check([TupleCheck(PROBE_TUPLE)], at=now())
        return self._health("ok")


class WorkerJobsCheck(HealthCheck):
    """Reads the last runs of the jobs of workers; `jobs` has those of the last check that succeeded."""

    def __init__(self, name: str, frequency: float) -> None:
        super().__init__(name, frequency)
        self.jobs: list[JobStatus] = []

    def _check(self) -> ServiceHealth:
        self.jobs = worker_job_statuses()
        return self._health("ok")

    def _run(self, result: Future[ServiceHealth]) -> None:
        super()._run(result)
        restore_statement_limits()
        connections["default"].close()


@cache
def _database_checks() -> tuple[DatabaseCheck, ...]:
    """Created by the first request, in the process that serves it: threads do not survive a fork."""
    frequency = float(settings.ICEKEEPER.health_check_frequency_seconds)
    return tuple(DatabaseCheck(alias, frequency) for alias in settings.DATABASES)


@cache
def _authorization_checks() -> tuple[OpenFgaCheck, ...]:
    frequency = float(settings.ICEKEEPER.health_check_frequency_seconds)
    return (OpenFgaCheck("openfga", frequency),) if is_openfga() else ()


@cache
def _worker_jobs_check() -> WorkerJobsCheck:
    return WorkerJobsCheck("jobs", float(settings.ICEKEEPER.health_check_frequency_seconds))


@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """Return 200 if every service is ok, else 503; the body has the status of each.

    It has Lakekeeper's members; with `x-icekeeper-extensions: true` also `authentication`, and the last runs of the
    periodic jobs, on which the status does not depend.
    """
    databases = [check.health() for check in _database_checks()]
    authorization = [check.health() for check in _authorization_checks()]
    body = _health_body(databases, authorization)
    if request.headers.get("x-icekeeper-extensions", "").lower() == "true":
        body["authentication"] = "on" if authenticators() else "off"
        body["jobs"] = _list_jobs()
    return _respond(body, is_ok=body["health"] == "ok")


@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """Return 200 from a process that runs requests; a process that does not respond must be restarted."""
    return _respond({"status": "live"}, is_ok=True)


@require_safe
def ready(request: HttpRequest) -> HttpResponse:
    """Return 200 if the process can serve requests, else 503 with the reasons."""
    reasons = []
    if request.META.get("icekeeper.is_stopping"):
        reasons.append("the server is stopping")
    for database in (check.health() for check in _database_checks()):
        if database.status != "ok":
            reasons.append(f"{database.name} does not respond")
        elif database.missing:
            reasons.append(f"{database.name} lacks {database.missing} migrations: manage.py migrate")
    body = {"status": "not ready", "reasons": reasons} if reasons else {"status": "ready"}
    return _respond(body, is_ok=not reasons)


def list_service_health() -> list[ServiceHealth]:
    """Return the last results of all checks, which run again if they are old."""
    return [check.health() for check in (*_database_checks(), *_authorization_checks())]


def list_job_statuses() -> list[JobStatus]:
    """Return the periodic jobs of this process, and those of workers, with their last runs."""
    workers = _worker_jobs_check()
    workers.health()
    return [*server_process_job_statuses(), *workers.jobs]


def _health_body(databases: Sequence[ServiceHealth], authorization: Sequence[ServiceHealth] = ()) -> dict[str, Any]:
    """Return the body of `/health` with Lakekeeper's members. Secrets are in the same databases as the catalog."""
    catalog, auth = (
        [{"name": service.name, "lastCheck": service.last_check, "status": service.status} for service in services]
        for services in (databases, authorization)
    )
    return {
        "health": next((service.status for service in (*databases, *authorization) if service.status != "ok"), "ok"),
        "services": {"catalog": catalog, "secrets": catalog, "auth": auth},
        "maintenance_mode": maintenance.mode(),
    }


def _list_jobs() -> list[dict[str, Any]]:
    return [
        {
            "name": job.name,
            "status": job.status,
            "lastRun": None if job.ended_at is None else int(job.ended_at.timestamp() * 1000),
            "durationMs": None if job.seconds is None else round(job.seconds * 1000, 3),
            "lastError": job.error_type or None,
        }
        for job in list_job_statuses()
    ]


def _respond(body: dict[str, Any], *, is_ok: bool) -> HttpResponse:
    response = HttpResponse(write_json(body), content_type="application/json", status=200 if is_ok else 503)
    response.headers["Cache-Control"] = "no-store"
    return response
