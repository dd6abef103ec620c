"""GET /health for load balancers and orchestrators: whether this process can reach its database."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from dataclasses import dataclass
from functools import cache

from django.conf import settings
from django.db import connections
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from icekeeper.kernel.clock import now_ms
from icekeeper.kernel.deadline import deadline
from icekeeper.kernel.json_text import write_json
from icekeeper.kernel.statement_deadline import restore_statement_limits

logger = logging.getLogger("icekeeper.health")

CHECK_SECONDS = 3.0
"""A database that takes longer than this to answer counts as gone."""

_NAMES = {"default": "write_pool", "read": "read_pool"}
"""Databases under the names that the system to match reports."""


@dataclass(frozen=True, slots=True)
class ServiceHealth:
    """The outcome of one check: `ok`, `error` or `unknown`; `last_check` in ms since the epoch."""

    name: str
    status: str
    last_check: int


class DatabaseHealth:
    """What is known about one database, asked at most every `frequency` seconds and by one thread at a time."""

    def __init__(self, alias: str, frequency: float) -> None:
        self._alias, self._frequency = alias, frequency
        self._lock = threading.Lock()
        self._checking: Future[ServiceHealth] | None = None
        self._asked_at = float("-inf")

    def look(self) -> ServiceHealth:
        """The last result while it is fresh, else that of a check which is waited for, but not for long."""
        with self._lock:
            if self._checking is None or (self._checking.done() and self._is_stale()):
                self._asked_at = time.monotonic()
                self._checking = Future()
                # A thread of its own: a check that hangs in the network holds up no request, nor a stop of the server.
                threading.Thread(target=self._check, args=(self._checking,), name="health", daemon=True).start()
            checking, patience = self._checking, self._asked_at + CHECK_SECONDS - time.monotonic()
        try:
            return checking.result(timeout=max(0.0, patience))
        except NotDone:
            return ServiceHealth(_NAMES[self._alias], "unknown", now_ms())

    def _is_stale(self) -> bool:
        return time.monotonic() - self._asked_at >= self._frequency

    def _check(self, outcome: Future[ServiceHealth]) -> None:
        connection = connections[self._alias]
        try:
            with deadline(time.monotonic() + CHECK_SECONDS), connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            status = "ok"
        except Exception:
            logger.exception("the database %s does not answer", self._alias)
            status = "error"
        outcome.set_result(ServiceHealth(_NAMES[self._alias], status, now_ms()))
        restore_statement_limits()
        connection.close()


@cache
def _databases() -> tuple[DatabaseHealth, ...]:
    """Made by the first request, so in the process that answers it: threads do not survive a fork."""
    frequency = float(settings.ICEKEEPER.health_check_frequency_seconds)
    return tuple(DatabaseHealth(alias, frequency) for alias in settings.DATABASES)


@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """200 when every service is ok, else 503; the body says which is not. Needs no authentication."""
    services = [database.look() for database in _databases()]
    is_well = all(service.status == "ok" for service in services)
    worst = next((service.status for service in services if service.status != "ok"), "ok")
    body = {
        "health": worst,
        "services": {
            "catalog": [
                {"name": service.name, "lastCheck": service.last_check, "status": service.status}
                for service in services
            ]
        },
        "maintenance_mode": "off",
    }
    return HttpResponse(write_json(body), content_type="application/json", status=200 if is_well else 503)
