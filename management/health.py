"""What load balancers and orchestrators ask: /health and /health/ready about the databases, /health/live about nothing.

None of them needs authentication, and none says more than what to do about it.

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
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from icekeeper.kernel.clock import now, now_ms
from icekeeper.kernel.db.statement_deadline import restore_statement_limits
from icekeeper.kernel.json.strict import write_json
from icekeeper.kernel.request.deadline import deadline
from management.selectors.missing_migrations import missing_migrations
from tenancy import maintenance
from tenancy.authn.providers import authenticators
from tenancy.authz.openfga.client import OpenFgaUnavailable
from tenancy.authz.openfga.delivery import is_openfga
from tenancy.authz.openfga.store import TupleCheck, openfga_store
from tenancy.authz.openfga.tuples import TupleKey

logger = logging.getLogger("icekeeper.health")

CHECK_SECONDS = 3.0
"""A database that takes longer than this to answer counts as gone."""

NOBODYS = TupleKey("server:none", "admin", "user:none")
"""A question that costs OpenFGA the least."""

_NAMES = {"default": "write_pool", "read": "read_pool"}
"""Databases under the names that the system to match reports."""


@dataclass(frozen=True, slots=True)
class ServiceHealth:
    """The outcome of one check: `ok`, `error` or `unknown`; `last_check` in ms since the epoch.

    `lacks` counts the migrations that the database has not had.
    """

    name: str
    status: str
    last_check: int
    lacks: int = 0


class Watched(ABC):
    """What is known about one service, asked at most every `frequency` seconds and by one thread at a time."""

    def __init__(self, name: str, frequency: float) -> None:
        self._name, self._frequency = name, frequency
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
            return ServiceHealth(self._name, "unknown", now_ms())

    def _is_stale(self) -> bool:
        return time.monotonic() - self._asked_at >= self._frequency

    @abstractmethod
    def _check(self, outcome: Future[ServiceHealth]) -> None:
        """Sets the outcome, whatever happens."""


class DatabaseHealth(Watched):
    def __init__(self, alias: str, frequency: float) -> None:
        super().__init__(_NAMES[alias], frequency)
        self._alias = alias

    def _check(self, outcome: Future[ServiceHealth]) -> None:
        connection = connections[self._alias]
        lacks = 0
        try:
            with deadline(time.monotonic() + CHECK_SECONDS):
                with connection.cursor() as cursor:
                    cursor.execute("SELECT 1")
                lacks = len(missing_migrations(connection))
            status = "ok"
        except Exception:
            logger.exception("the database %s does not answer", self._alias)
            status = "error"
        outcome.set_result(ServiceHealth(self._name, status, now_ms(), lacks))
        restore_statement_limits()
        connection.close()


class OpenFgaHealth(Watched):
    """Whether it answers a question about rights; without it everybody is refused with 503."""

    def _check(self, outcome: Future[ServiceHealth]) -> None:
        status = "error"
        try:
            with deadline(time.monotonic() + CHECK_SECONDS):
                openfga_store().check([TupleCheck(NOBODYS)], at=now())
            status = "ok"
        except OpenFgaUnavailable as failure:
            logger.warning("OpenFGA does not answer: %s", failure.reason)
        except Exception:
            logger.exception("OpenFGA is unavailable")
        outcome.set_result(ServiceHealth(self._name, status, now_ms()))


@cache
def _databases() -> tuple[DatabaseHealth, ...]:
    """Made by the first request, so in the process that answers it: threads do not survive a fork."""
    frequency = float(settings.ICEKEEPER.health_check_frequency_seconds)
    return tuple(DatabaseHealth(alias, frequency) for alias in settings.DATABASES)


@cache
def _judges() -> tuple[OpenFgaHealth, ...]:
    """Whoever else is asked about rights."""
    frequency = float(settings.ICEKEEPER.health_check_frequency_seconds)
    return (OpenFgaHealth("openfga", frequency),) if is_openfga() else ()


@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """200 when every service is ok, else 503; the body says which is not.

    It has Lakekeeper's members, and `authentication` with `x-icekeeper-extensions: true`.
    """
    services = [database.look() for database in _databases()]
    judges = [judge.look() for judge in _judges()]
    is_well = all(service.status == "ok" for service in (*services, *judges))
    body = _described(services, judges)
    if request.headers.get("x-icekeeper-extensions", "").lower() == "true":
        body["authentication"] = "on" if authenticators() else "off"
    return _answer(body, is_good=is_well)


@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """200 from a process that runs requests at all; when there is no answer, start it again."""
    return _answer({"status": "live"}, is_good=True)


@require_safe
def ready(request: HttpRequest) -> HttpResponse:
    """200 when requests should be sent here, else 503 with the reasons."""
    reasons = []
    if request.META.get("icekeeper.is_stopping"):
        reasons.append("the server is stopping")
    for service in (database.look() for database in _databases()):
        if service.status != "ok":
            reasons.append(f"{service.name} does not answer")
        elif service.lacks:
            reasons.append(f"{service.name} lacks {service.lacks} migrations: manage.py migrate")
    body = {"status": "not ready", "reasons": reasons} if reasons else {"status": "ready"}
    return _answer(body, is_good=not reasons)


def _described(services: Sequence[ServiceHealth], judges: Sequence[ServiceHealth] = ()) -> dict[str, Any]:
    """The body of `/health` with Lakekeeper's members. Secrets lie in the same databases."""
    databases, others = (
        [{"name": service.name, "lastCheck": service.last_check, "status": service.status} for service in each]
        for each in (services, judges)
    )
    return {
        "health": next((service.status for service in (*services, *judges) if service.status != "ok"), "ok"),
        "services": {"catalog": databases, "secrets": databases, "auth": others},
        "maintenance_mode": maintenance.mode(),
    }


def _answer(body: dict[str, Any], *, is_good: bool) -> HttpResponse:
    answer = HttpResponse(write_json(body), content_type="application/json", status=200 if is_good else 503)
    answer.headers["Cache-Control"] = "no-store"
    return answer
