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

from icekeeper.kernel.db.connections import release_connections
from icekeeper.kernel.errors.types import Busy, CatalogError, RequestTimeout
from icekeeper.kernel.request import deadline
from icekeeper.kernel.request.context import copy_request_context
from storage.errors import StoreUnavailable

T = TypeVar("T")

NOT_ATTEMPTED: Final = "Not attempted: a prerequisite check failed."
NOT_APPLICABLE: Final = "Not concerned by this request."


class CheckName(StrEnum):
    """What a check is passed for."""

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
    """Signed requests of the warehouse's own keys do only what was signed, or no authorization is configured."""
    CLEANUP = "cleanup"


STORE_CHECKS: Final = tuple(CheckName)[tuple(CheckName).index(CheckName.STORAGE_CLIENT_INITIALIZED) :]
"""The checks that need the store."""


class Status(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class ValidationCheck:
    """`milliseconds` of one that ran, `error` of one that failed; `reason` says why one was skipped, or what a
    passed one found."""

    name: CheckName
    status: Status
    milliseconds: int | None = None
    reason: str | None = None
    error: CatalogError | None = None


class StorageValidationFailed(CatalogError):
    """The first check of the store that failed, with the type and status of what it failed with."""

    def __init__(self, name: CheckName, error: CatalogError) -> None:
        super().__init__(f"Storage validation failed [{name}]: {error.message}")
        self.status, self.wire_type = error.status, error.wire_type  # type: ignore[misc]  # of the cause
        self.retry_after = error.retry_after  # type: ignore[misc]


class CheckRun(ABC):
    """Runs checks and records their results."""

    def __init__(self) -> None:
        self._results: dict[CheckName, ValidationCheck] = {}

    def check(self, name: CheckName, look: Callable[[], T], *, needs: tuple[CheckName, ...] = ()) -> T | None:
        """What `look` returns; None when it failed, or was skipped since one of `needs` was not passed."""
        if not self._may_run(needs):
            self.skip(name, NOT_ATTEMPTED)
            return None
        return self.check_always(name, look)

    def check_always(self, name: CheckName, look: Callable[[], T]) -> T | None:
        """As `check`, whatever happened before."""
        began = time.monotonic()
        try:
            found = look()
        except CatalogError as error:
            self._results[name] = ValidationCheck(name, Status.FAILED, _since(began), error=error)
            return None
        self._results[name] = ValidationCheck(name, Status.PASSED, _since(began))
        return found

    def skip(self, name: CheckName, reason: str) -> None:
        self._results[name] = ValidationCheck(name, Status.SKIPPED, reason=reason)

    def fail(self, name: CheckName, error: CatalogError) -> None:
        """Fail a check for what it found."""
        self._results[name] = replace(self._results[name], status=Status.FAILED, reason=None, error=error)

    def note(self, name: CheckName, finding: str) -> None:
        """Add what a passed check found."""
        self._results[name] = replace(self._results[name], reason=finding)

    def has_passed(self, name: CheckName) -> bool:
        return name in self._results and self._results[name].status == Status.PASSED

    def failed(self) -> list[ValidationCheck]:
        """Return them in the order in which they ran."""
        return [check for check in self._results.values() if check.status == Status.FAILED]

    @abstractmethod
    def _may_run(self, needs: tuple[CheckName, ...]) -> bool: ...


class ReportRun(CheckRun):
    """Looks at everything that can be looked at, whatever else failed."""

    def checks(self) -> list[ValidationCheck]:
        """All of them in their order, also those that were never come to."""
        return [
            self._results.get(name, ValidationCheck(name, Status.SKIPPED, reason=NOT_APPLICABLE)) for name in CheckName
        ]

    def _may_run(self, needs: tuple[CheckName, ...]) -> bool:
        return all(self.has_passed(name) for name in needs)


class FailFastRun(CheckRun):
    """Looks no further once something failed: for requests that do what they ask for, or nothing."""

    def require_passed(self) -> None:
        """Raises what the first check failed with: as it is, or as `StorageValidationFailed` if the store was asked."""
        for check in self.failed():
            if check.error is not None:
                raise StorageValidationFailed(check.name, check.error) if check.name in STORE_CHECKS else check.error

    def _may_run(self, needs: tuple[CheckName, ...]) -> bool:
        return not self.failed()


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


MAX_UNFINISHED: Final = 64
"""Steps that run at the same time in a process, abandoned ones included."""

_unfinished = BoundedSemaphore(MAX_UNFINISHED)


class StepTimedOut(StoreUnavailable):
    """The store did not finish a step of a validation before the deadline."""


def finish_in_time(step: Callable[[], T]) -> T:
    """What `step` returns, if it does so before the deadline.

    It runs in a thread of its own: the libraries that ask stores cannot be interrupted, and each of their requests has
    a timeout of its own. A step that is not waited for any more ends with the request to the store that it is at, as
    it asks the same deadline before the next one. Raises what `step` raises, `StepTimedOut` (503), `Busy` (503).
    """
    try:
        left = deadline.remaining()
    except RequestTimeout:
        raise _timed_out() from None
    if not _unfinished.acquire(blocking=False):
        raise Busy("Too many storage validations are running")
    future: Future[T] = Future()
    context = copy_request_context()
    try:
        Thread(target=context.run, args=(_run, step, future), name="validation", daemon=True).start()
    except RuntimeError:  # the system has no thread left
        _unfinished.release()
        raise Busy("Too many storage validations are running") from None
    release_connections()
    if not wait([future], left).done:
        raise _timed_out()
    try:
        return future.result()
    except RequestTimeout:
        raise _timed_out() from None


def _run(step: Callable[[], T], future: Future[T]) -> None:
    try:
        result = step()
    except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        _unfinished.release()


def _timed_out() -> StepTimedOut:
    return StepTimedOut(
        "The store did not finish this step in time: a validation may take 30 seconds, or "
        "LAKEKEEPER__MAX_REQUEST_TIME if that is shorter"
    )
