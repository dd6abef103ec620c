"""Named checks of a storage profile, and their results.

The names are identifiers in the management API, in the order in which the checks run. Checks that use the store end at
the deadline of the validation, whatever the store does.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from enum import StrEnum
from threading import BoundedSemaphore, Thread
from typing import Final, TypeVar

from icekeeper.kernel import request_context
from icekeeper.kernel.db.connections import release_connections
from icekeeper.kernel.errors.types import Busy, CatalogError, RequestTimeout
from icekeeper.kernel.request_context import copy_request_context
from storage.errors import StoreUnavailable

T = TypeVar("T")

NOT_ATTEMPTED: Final = "Not attempted: a prerequisite check failed."
NOT_APPLICABLE: Final = "Not concerned by this request."


class CheckName(StrEnum):
    """The checks, in their order."""

    PROFILE_WELL_FORMED = "profile-well-formed"
    PROFILE_COMPATIBLE = "profile-compatible"
    WAREHOUSE_NAME_VALID = "warehouse-name-valid"
    LOCATION_EXCLUSIVE = "location-exclusive"
    SPEC_MUTABLE = "spec-mutable"
    FORMAT_VERSION_POLICY_CONSISTENT = "format-version-policy-consistent"
    MANAGED_BY_ALLOWED = "managed-by-allowed"
    STORAGE_CLIENT_INITIALIZED = "storage-client-initialized"
    LAKEKEEPER_READ_WRITE = "lakekeeper-read-write"
    VENDED_CREDENTIALS_ISSUED = "vended-credentials-issued"
    VENDED_CREDENTIALS_READ_WRITE = "vended-credentials-read-write"
    VENDED_CREDENTIALS_SCOPE_ENFORCED = "vended-credentials-scope-enforced"
    REMOTE_SIGNING = "remote-signing"
    """The store enforces signatures of the warehouse's own keys, or no authorization is configured."""
    CLEANUP = "cleanup"


STORE_CHECKS: Final = tuple(CheckName)[tuple(CheckName).index(CheckName.STORAGE_CLIENT_INITIALIZED) :]
"""The checks that need the store."""


class Status(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class ValidationCheck:
    """The result of a check.

    `milliseconds` if it ran, `error` if it failed; `reason` says why it was skipped, or what it found if it passed.
    """

    name: CheckName
    status: Status
    milliseconds: int | None = None
    reason: str | None = None
    error: CatalogError | None = None


class StorageValidationFailed(CatalogError):
    """A check of the store failed; status and wire type are those of its error."""

    def __init__(self, name: CheckName, error: CatalogError) -> None:
        super().__init__(f"Storage validation failed [{name}]: {error.message}")
        self.status, self.wire_type = error.status, error.wire_type  # type: ignore[misc]  # of the cause
        self.retry_after = error.retry_after  # type: ignore[misc]


class CheckRun(ABC):
    """Runs checks and records their results."""

    def __init__(self) -> None:
        self._results: dict[CheckName, ValidationCheck] = {}

    def check(self, name: CheckName, action: Callable[[], T], *, needs: tuple[CheckName, ...] = ()) -> T | None:
        """Run `action` and return its result; None if it failed, or was skipped because one of `needs` did not pass."""
        if not self._may_run(needs):
            self.skip(name, NOT_ATTEMPTED)
            return None
        return self.check_always(name, action)

    def check_always(self, name: CheckName, action: Callable[[], T]) -> T | None:
        """As `check`, whatever the results so far."""
        began = time.monotonic()
        try:
            result = action()
        except CatalogError as error:
            self._results[name] = ValidationCheck(name, Status.FAILED, _since(began), error=error)
            return None
        self._results[name] = ValidationCheck(name, Status.PASSED, _since(began))
        return result

    def skip(self, name: CheckName, reason: str) -> None:
        self._results[name] = ValidationCheck(name, Status.SKIPPED, reason=reason)

    def fail(self, name: CheckName, error: CatalogError) -> None:
        """Fail a check after it ran, because of what it found."""
        self._results[name] = replace(self._results[name], status=Status.FAILED, reason=None, error=error)

    def note(self, name: CheckName, finding: str) -> None:
        """Add what a check that passed has found."""
        self._results[name] = replace(self._results[name], reason=finding)

    def checks(self) -> list[ValidationCheck]:
        """Return all checks in order, including those that do not apply."""
        return [
            self._results.get(name, ValidationCheck(name, Status.SKIPPED, reason=NOT_APPLICABLE)) for name in CheckName
        ]

    def has_passed(self, name: CheckName) -> bool:
        return name in self._results and self._results[name].status == Status.PASSED

    def failed(self) -> list[ValidationCheck]:
        """Return the failed checks in the order in which they ran."""
        return [check for check in self._results.values() if check.status == Status.FAILED]

    @abstractmethod
    def _may_run(self, needs: tuple[CheckName, ...]) -> bool: ...


class ReportRun(CheckRun):
    """Runs all checks whose prerequisites passed, for a report."""

    def _may_run(self, needs: tuple[CheckName, ...]) -> bool:
        return all(self.has_passed(name) for name in needs)


class FailFastRun(CheckRun):
    """Runs no further checks after a failure, for requests that then fail as a whole."""

    def require_passed(self) -> None:
        """Raise the error of the first failed check; `StorageValidationFailed` for checks of the store."""
        for check in self.failed():
            if check.error is not None:
                raise StorageValidationFailed(check.name, check.error) if check.name in STORE_CHECKS else check.error

    def _may_run(self, needs: tuple[CheckName, ...]) -> bool:
        return not self.failed()


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


MAX_UNFINISHED: Final = 64
"""Limit of steps that run at the same time in a process, including abandoned ones."""

_unfinished = BoundedSemaphore(MAX_UNFINISHED)


class StepTimedOut(StoreUnavailable):
    """The store did not finish a step of a validation before the deadline."""


def finish_in_time(step: Callable[[], T]) -> T:
    """Run `step` in a thread and return its result, if it finishes before the deadline.

    In a thread, because the libraries of stores cannot be interrupted. An abandoned step ends after the request that it
    is sending, as it checks the deadline before the next one. Raises the errors of `step`, `StepTimedOut` and `Busy`
    (503).
    """
    try:
        left = request_context.remaining_seconds()
    except RequestTimeout:
        raise _timed_out() from None
    slots = _unfinished
    if not slots.acquire(blocking=False):
        raise Busy("Too many storage validations are running")
    future: Future[T] = Future()
    context = copy_request_context()
    try:
        Thread(target=context.run, args=(_run, step, future, slots), name="validation", daemon=True).start()
    except RuntimeError:  # the system has no thread left
        slots.release()
        raise Busy("Too many storage validations are running") from None
    release_connections()
    if not wait([future], left).done:
        raise _timed_out()
    try:
        return future.result()
    except RequestTimeout:
        raise _timed_out() from None


def _run(step: Callable[[], T], future: Future[T], slots: BoundedSemaphore) -> None:
    try:
        result = step()
    except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        slots.release()


def _timed_out() -> StepTimedOut:
    return StepTimedOut(
        "The store did not finish this step in time: a validation may take 30 seconds, or "
        "LAKEKEEPER__MAX_REQUEST_TIME if that is shorter"
    )
