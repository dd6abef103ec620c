"""Validation of a store: the catalog and its clients can use it, and clients are denied everything else.

Probes use a folder of their own in the warehouse, which is deleted afterwards. Responses of the store are not trusted:
a validation ends within 30 seconds and deletes only the objects that it wrote, by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from django.conf import settings

from icekeeper.kernel import request_context
from icekeeper.kernel.ids import new_id
from storage.credentials import Credential
from storage.errors import StoreAccessDenied, StoreRefused
from storage.identity.keys import Keys
from storage.identity.s3 import catalog_keys
from storage.io.object_store import RemoteStore
from storage.io.port import ObjectNotFound, ObjectStore
from storage.io.stores import open_store, open_vended_store
from storage.profiles.profile import Profile, vends_credentials
from storage.profiles.s3 import S3Profile, StackitProfile
from storage.signing.enforcement import (
    Enforcement,
    may_sign_bulk_deletes,
    may_sign_writes,
    signs_with_warehouse_keys,
)
from storage.validation.checks import NOT_ATTEMPTED, STORE_CHECKS, CheckName, CheckRun, finish_in_time
from storage.validation.s3_probes import delete_outside, probe_enforcement, read_outside, write_outside
from storage.vending.delegation import FileAccess, Vended
from storage.vending.s3_sts import keys_from_vended
from storage.vending.vend import issue

T = TypeVar("T")

CONTENT: Final = b"written to validate this storage; may be deleted\n"
STEPS_SECONDS: Final = 25.0
"""Time limit of all steps except the cleanup, unless the deadline of the request is earlier."""
CLEANUP_SECONDS: Final = 5.0
"""Time limit of the cleanup, also after the deadline of the request."""
NO_TIME_LEFT: Final = "Not attempted: the time limit of the validation was reached."
NO_VENDING: Final = "Credential vending is not enabled for this storage profile."
NO_OWN_SIGNATURES: Final = "The catalog signs no requests with this warehouse's own keys."
ENFORCEMENT_FINDINGS: Final = {
    Enforcement.NONE: "The store does not enforce signatures: writes are signed nevertheless, as no authorization is "
    "configured or ICEKEEPER__STORAGE__SIGN_WRITES_WITH_WAREHOUSE_KEYS is set.",
    Enforcement.REQUESTS: "The store obeyed no header or query parameter that was added to a signed PUT, but another "
    "body of a signed DeleteObjects.",
    Enforcement.REQUESTS_AND_BODIES: "The store obeyed no header or query parameter that was added to a signed PUT, "
    "and no other body of a signed DeleteObjects.",
}
READS_ALONE: Final = "The store does not enforce signatures: only reads are signed with the warehouse's own keys."
FINDINGS: Final = (*ENFORCEMENT_FINDINGS.values(), READS_ALONE)
NOT_ENFORCED: Final = (
    "The store does not enforce signatures: with one for a single write, its sender reaches whatever the warehouse's "
    "keys reach. Set sts-enabled in the storage profile, so that clients get temporary keys of a table's folder; or "
    "set ICEKEEPER__STORAGE__SIGN_WRITES_WITH_WAREHOUSE_KEYS on the server if every writer may write everything; or "
    "set remote-signing-enabled to false"
)
VALIDATION_DISABLED: Final = "Storage validation is off (LAKEKEEPER__SKIP_STORAGE_VALIDATION)."


class ScopeNotEnforced(StoreRefused):
    """Credentials for one table give access to other objects."""

    status, wire_type = 412, "ShortTermCredentialError"


class SignaturesNotEnforced(StoreRefused):
    """The store lets the sender change a request that was signed with the warehouse's keys."""

    wire_type = "RemoteSigningNotEnforced"


class FindingNotRecorded(StoreRefused):
    """The store enforces more or less of a signature than is recorded with the warehouse."""

    wire_type = "RemoteSigningFindingNotRecorded"


def run_store_checks(run: CheckRun, profile: Profile | None, credential: Credential | None) -> Enforcement | None:
    """Run the checks of the store: about 60 requests, or none if validation is disabled.

    Returns what the store enforces of signatures by the warehouse's keys, None if it was not probed. `profile` is None
    if it is invalid. The folder of a local warehouse must exist.
    """
    if profile is not None and settings.ICEKEEPER.skip_storage_validation:
        for name in STORE_CHECKS:
            run.skip(name, VALIDATION_DISABLED)
        return None
    return run_access_checks(run, profile, credential)


def run_access_checks(run: CheckRun, profile: Profile | None, credential: Credential | None) -> Enforcement | None:
    """As `run_store_checks`, even if validation is disabled."""
    if profile is None:
        for name in STORE_CHECKS:
            run.skip(name, NOT_ATTEMPTED)
        return None
    steps = _Steps(run)
    with _time_limit(STEPS_SECONDS):
        store = steps.check(
            CheckName.STORAGE_CLIENT_INITIALIZED,
            lambda: _open_ready_store(profile, credential),
            needs=(CheckName.PROFILE_WELL_FORMED,),
        )
        if store is None:
            _run_steps(steps, profile, credential, None)
            run.check(CheckName.CLEANUP, lambda: None, needs=(CheckName.STORAGE_CLIENT_INITIALIZED,))
            return None
        probe = _Probe(store, f"{profile.location}/{new_id()}")
        try:
            return _run_steps(steps, profile, credential, probe)
        finally:  # also after an unexpected exception
            with request_context.deadline(time.monotonic() + CLEANUP_SECONDS):
                run.check_always(CheckName.CLEANUP, lambda: finish_in_time(probe.clean_up))


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Set a time limit for the block, within the deadline of the request. Raises `RequestTimeout`."""
    left = request_context.remaining_seconds()
    with request_context.deadline(time.monotonic() + (seconds if left is None else min(seconds, left))):
        yield


@dataclass(frozen=True, slots=True)
class _Steps:
    """Runs the checks of the store; each ends at the deadline.

    After the deadline, a check fails if no other has failed before, and is skipped otherwise.
    """

    run: CheckRun

    def check(self, name: CheckName, action: Callable[[], T], *, needs: tuple[CheckName, ...] = ()) -> T | None:
        """As `CheckRun.check`."""
        if request_context.deadline_expired() and self.run.failed():
            self.run.skip(name, NO_TIME_LEFT)
            return None
        return self.run.check(name, lambda: finish_in_time(action), needs=needs)

    def skip(self, name: CheckName, reason: str) -> None:
        self.run.skip(name, reason)


def require_enforcement(run: CheckRun, found: Enforcement | None) -> None:
    """Fail the check of signatures if writes are not signed because of `found`."""
    if found is not None and not may_sign_writes(found):
        run.fail(CheckName.REMOTE_SIGNING, SignaturesNotEnforced(NOT_ENFORCED))


def require_recorded_enforcement(run: CheckRun, found: Enforcement | None, kept: str | None) -> None:
    """Fail the check of signatures if `found` and what is recorded differ in what is signed."""
    if found is None:
        return
    recorded = None if kept is None else Enforcement(kept)
    if (may_sign_writes(found), may_sign_bulk_deletes(found)) != (
        may_sign_writes(recorded),
        may_sign_bulk_deletes(recorded),
    ):
        run.fail(
            CheckName.REMOTE_SIGNING,
            FindingNotRecorded(
                f"The store enforces of signatures: {found}. Recorded with the warehouse: {kept or 'nothing'}, which "
                "decides what is signed. Update the storage credential, which records what the store enforces"
            ),
        )


def _open_ready_store(profile: Profile, credential: Credential | None) -> ObjectStore:
    store = open_store(profile, credential)
    store.require_ready()
    return store


def _run_steps(
    steps: _Steps, profile: Profile, credential: Credential | None, probe: _Probe | None
) -> Enforcement | None:
    client = (CheckName.STORAGE_CLIENT_INITIALIZED,)
    steps.check(CheckName.LAKEKEEPER_READ_WRITE, lambda: _require(probe).read_and_write(), needs=client)
    if vends_credentials(profile.as_json()):
        _check_vending(steps, profile, credential, probe)
    else:
        for name in (
            CheckName.VENDED_CREDENTIALS_ISSUED,
            CheckName.VENDED_CREDENTIALS_READ_WRITE,
            CheckName.VENDED_CREDENTIALS_SCOPE_ENFORCED,
        ):
            steps.skip(name, NO_VENDING)
    return _check_signing(steps, profile, credential, probe)


def _check_signing(
    steps: _Steps, profile: Profile, credential: Credential | None, probe: _Probe | None
) -> Enforcement | None:
    if not isinstance(profile, S3Profile | StackitProfile) or not signs_with_warehouse_keys(profile):
        steps.skip(CheckName.REMOTE_SIGNING, NO_OWN_SIGNATURES)
        return None
    s3 = profile.as_s3()

    def probe_signatures() -> Enforcement:
        return _require(probe).probe_signatures(s3, catalog_keys(s3, credential))

    found = steps.check(CheckName.REMOTE_SIGNING, probe_signatures, needs=(CheckName.LAKEKEEPER_READ_WRITE,))
    if found is Enforcement.NONE:
        steps.skip(CheckName.REMOTE_SIGNING, ENFORCEMENT_FINDINGS[found] if may_sign_writes(found) else READS_ALONE)
    elif found is not None:
        steps.run.note(CheckName.REMOTE_SIGNING, ENFORCEMENT_FINDINGS[found])
    return found


def _check_vending(steps: _Steps, profile: Profile, credential: Credential | None, probe: _Probe | None) -> None:
    def issue_for(rights: FileAccess) -> Vended:
        vended = issue(profile, credential, location=_require(probe).table, rights=rights)
        if vended is None:
            raise StoreRefused("No credential was issued")
        return vended

    vended = steps.check(
        CheckName.VENDED_CREDENTIALS_ISSUED,
        lambda: issue_for(FileAccess.READ_WRITE),
        needs=(CheckName.STORAGE_CLIENT_INITIALIZED,),
    )

    def vended_store() -> RemoteStore:
        return open_vended_store(profile, _require(vended))

    def require_closed() -> None:
        _require(probe).require_denied_outside(vended_store())
        if isinstance(profile, S3Profile | StackitProfile):
            _require(probe).require_no_key_escape(profile.as_s3(), keys_from_vended(_require(vended)))
        _require(probe).require_read_only(open_vended_store(profile, issue_for(FileAccess.READ)))

    issued = (CheckName.VENDED_CREDENTIALS_ISSUED,)
    steps.check(
        CheckName.VENDED_CREDENTIALS_READ_WRITE, lambda: _require(probe).use_inside(vended_store()), needs=issued
    )
    steps.check(
        CheckName.VENDED_CREDENTIALS_SCOPE_ENFORCED, require_closed, needs=(*issued, CheckName.LAKEKEEPER_READ_WRITE)
    )


@dataclass(frozen=True, slots=True)
class _Probe:
    """Probes in `folder` of `store`, which has the catalog's credential; `written` are the objects that may exist."""

    store: ObjectStore
    folder: str
    written: list[str] = field(default_factory=list)

    @property
    def table(self) -> str:
        """The table that credentials are vended for."""
        return f"{self.folder}/vended-test"

    def read_and_write(self) -> None:
        """Write, read, list and delete with the catalog's own identity."""
        self._use(self.store, self.folder)

    def use_inside(self, vended_store: ObjectStore) -> None:
        self._use(vended_store, self.table)

    def require_denied_outside(self, vended_store: RemoteStore) -> None:
        """Check that vended credentials cannot write, read, list or delete outside of the table.

        Only a denial passes: raises any other error of the store, and `ScopeNotEnforced` for a success.
        """
        outside = f"{self.folder}/metadata/not-for-clients"
        self._put(self.store, outside)
        attempts: dict[str, Callable[[], object]] = {
            "write access to parent location": lambda: self._put(vended_store, f"{self.folder}/metadata/forbidden"),
            "write access to a location with the same prefix": lambda: self._put(vended_store, f"{self.table}2/x"),
            "read access to parent location": lambda: vended_store.get(outside, limit=len(CONTENT)),
            "listing of parent location": lambda: vended_store.is_empty(self.folder, ignore=lambda _: False),
            "listing of the whole bucket": vended_store.list_root,
            "deletion in parent location": lambda: vended_store.delete(outside),
        }
        _require_denied("Downscoped credentials", attempts)
        self.store.require_exists(outside)

    def require_no_key_escape(self, profile: S3Profile, keys: Keys) -> None:
        """Check object keys with parent segments as well. Raises as `require_denied_outside`."""
        start = len(f"s3://{profile.bucket}/")
        table, outside = self.table[start:], f"{self.folder}/metadata/not-for-clients"
        _require_no_escape(
            "deletion in",
            delete_outside(
                profile, keys, table=table, name="metadata/not-for-clients", exists=lambda: self._exists(outside)
            ),
        )
        _require_no_escape(
            "read access to",
            read_outside(profile, keys, table=table, name="metadata/not-for-clients", content=CONTENT),
        )
        forbidden = f"{self.folder}/metadata/forbidden-by-dots"
        self.written.append(forbidden)
        escape = write_outside(
            profile,
            keys,
            table=table,
            name="metadata/forbidden-by-dots",
            content=CONTENT,
            exists=lambda: self._exists(forbidden),
        )
        _require_no_escape("write access to", escape)
        self.written.remove(forbidden)

    def probe_signatures(self, profile: S3Profile, keys: Keys) -> Enforcement:
        """Return what the store enforces of signatures by `keys`. Raises as `probe_enforcement`."""
        base = f"s3://{profile.bucket}/"
        victim, own = f"{self.folder}/metadata/unchanged", f"{self.folder}/metadata/signed"
        self._put(self.store, victim)
        self.written.append(own)
        return probe_enforcement(
            profile,
            keys,
            key=own.removeprefix(base),
            victim=victim.removeprefix(base),
            content=CONTENT,
            exists=lambda key: self._exists(f"{base}{key}"),
        )

    def require_read_only(self, vended_store: RemoteStore) -> None:
        """Check that read-only credentials cannot write or delete in the table. Raises as `require_denied_outside`."""
        inside = f"{self.table}/metadata/not-for-readers"
        self._put(self.store, inside)
        if vended_store.get(inside, limit=len(CONTENT)) != CONTENT:
            raise StoreRefused("The content of the object differs from what was written")
        attempts: dict[str, Callable[[], object]] = {
            "write access": lambda: self._put(vended_store, f"{self.table}/metadata/forbidden"),
            "deletion": lambda: vended_store.delete(inside),
        }
        _require_denied("Credentials for reading", attempts)
        self.store.require_exists(inside)

    def clean_up(self) -> None:
        """Delete the objects that were written, then empty directories."""
        if self.written:
            self.store.delete_many(self.written)
        if not self.store.is_empty(self.folder, ignore=lambda _: False):
            raise StoreRefused(f"Objects in {self.folder} still exist after they were deleted")
        self.store.delete_below(self.folder, request_context.remaining_seconds)

    def _exists(self, location: str) -> bool:
        try:
            self.store.require_exists(location)
        except ObjectNotFound:
            return False
        return True

    def _put(self, store: ObjectStore, location: str) -> None:
        self.written.append(location)
        try:
            store.put_new(location, CONTENT)
        except StoreAccessDenied:
            self.written.remove(location)
            raise

    def _use(self, store: ObjectStore, folder: str) -> None:
        location = f"{folder}/metadata/test"
        self._put(store, location)
        if store.get(location, limit=len(CONTENT)) != CONTENT:
            raise StoreRefused("The content of the object differs from what was written")
        if store.is_empty(folder, ignore=lambda _: False):
            raise StoreRefused("The object is not listed")
        store.delete(location)
        if not store.is_empty(folder, ignore=lambda _: False):  # AWS responds 403 instead of 404 for missing objects
            raise StoreRefused("The object still exists after it was deleted")


def _require_denied(credentials: str, attempts: dict[str, Callable[[], object]]) -> None:
    for what, attempt in attempts.items():
        try:
            attempt()
        except StoreAccessDenied:
            continue
        raise ScopeNotEnforced(f"{credentials} allow {what}.")


def _require_no_escape(what: str, segments: str | None) -> None:
    """Raise `ScopeNotEnforced` if keys that contain `segments` give access outside of the folder."""
    if segments is not None:
        raise ScopeNotEnforced(f"Downscoped credentials allow {what} parent location, by keys with '{segments}'.")


def _require(found: T | None) -> T:
    """Return the result of an earlier check, without which this one would have been skipped."""
    if found is None:
        raise RuntimeError("a check ran before its prerequisites")
    return found
