"""Update or validate the storage profile and credential of a warehouse; its files never move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from icekeeper.kernel.errors.types import BadRequest, Conflict
from storage.credentials import SYSTEM_IDENTITY_TYPES, Credential
from storage.models import Warehouse
from storage.profiles.addresses import chosen_addresses, require_valid_addresses
from storage.profiles.kinds import parse_profile, read_profile, read_stored_profile
from storage.profiles.location import build_location_key
from storage.profiles.profile import Profile
from storage.secrets.stores import NewSecret, stored_credential
from storage.selectors import get_warehouse_for
from storage.services.warehouse_changes import WarehouseChanged, lock_changeable, require_not_managed, save_change
from storage.services.warehouses import (
    lock_locations,
    parse_new_credential,
    require_free_location,
    store_credential,
    storing_credential,
)
from storage.signing.enforcement import Enforcement
from storage.validation.access import require_enforcement, require_recorded_enforcement, run_store_checks
from storage.validation.checks import CheckName, CheckRun, FailFastRun, ReportRun, ValidationCheck
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.changes.transaction import ChangeTransaction, change


class CredentialRequired(BadRequest):
    """A stored credential is not sent to an address that it was not entered for: its secret could be learned there."""

    wire_type = "CredentialRequired"


class StorageChange:
    """An update of a warehouse's storage, with checks before anything is written.

    Without `storage_profile` the profile is unchanged. With `keeps_credential` the stored credential stays, which
    without `storage_credential` is deleted otherwise. The constructor raises `NoSuchWarehouse`, `Forbidden`.
    """

    def __init__(
        self,
        *,
        actor: Actor,
        warehouse_id: UUID,
        storage_profile: dict[str, Any] | None,
        storage_credential: dict[str, Any] | None,
        keeps_credential: bool = False,
    ) -> None:
        self._actor, self._documents = actor, (storage_profile, storage_credential)
        self.keeps_credential = keeps_credential
        self.seen = get_warehouse_for(actor=actor, action=Can.UPDATE_STORAGE, warehouse_id=warehouse_id)
        self.credential: Credential | None = None
        self.profile: Profile | None = None
        self.enforcement: Enforcement | None = None

    def run_checks(self, run: CheckRun) -> None:
        """Run the checks that need only the database."""
        run.check(CheckName.SPEC_MUTABLE, lambda: require_not_managed(self._actor, self.seen))
        run.check(CheckName.PROFILE_WELL_FORMED, self._read)
        run.check(CheckName.PROFILE_COMPATIBLE, self._read_update, needs=(CheckName.PROFILE_WELL_FORMED,))
        run.check(CheckName.LOCATION_EXCLUSIVE, self._require_location, needs=(CheckName.PROFILE_COMPATIBLE,))

    def run_store_checks(self, run: CheckRun) -> None:
        """Check the store. An unchanged profile passes whatever the store enforces, as that is recorded."""
        self.enforcement = run_store_checks(run, self.profile, self.credential)
        if self.profile != read_stored_profile(self.seen.storage_profile):
            require_enforcement(run, self.enforcement)

    def profile_for(self, warehouse: Warehouse) -> Profile:
        """Return the new profile under the lock. Raises `Conflict` after a concurrent change."""
        profile = self._profile_after(warehouse)
        is_other = self.keeps_credential and warehouse.secret_id != self.seen.secret_id
        if is_other or profile != self.profile or warehouse.storage_profile != self.seen.storage_profile:
            raise Conflict("The warehouse was changed by another request; try again")
        return profile

    def _read(self) -> None:
        document, credential = self._documents
        if self.keeps_credential:
            self.credential = stored_credential(self.seen.secret_id)
        else:
            self.credential = parse_new_credential(credential)
        before = self.seen.storage_profile
        proposed = before if document is None else document
        if parse_profile(proposed).type == before["type"]:  # else `_read_update` fails
            require_valid_addresses(read_profile(proposed, self.credential), self.credential)

    def _read_update(self) -> None:
        profile = self._profile_after(self.seen)
        if self.keeps_credential and self.credential is not None:
            former = read_stored_profile(self.seen.storage_profile)
            if not chosen_addresses(profile, self.credential) <= chosen_addresses(former, self.credential):
                message = "storage-credential: required, as the address of the store changes"
                raise CredentialRequired(message, field="storage-credential")
        self.profile = profile

    def _require_location(self) -> None:
        if self.profile is not None:
            _require_free_location(self.seen, self.profile, self.credential)

    def _profile_after(self, warehouse: Warehouse) -> Profile:
        document, before = self._documents[0], warehouse.storage_profile
        return read_profile(before if document is None else document, self.credential, before=before)


def update_storage(
    *,
    actor: Actor,
    warehouse_id: UUID,
    storage_profile: dict[str, Any],
    storage_credential: dict[str, Any] | None,
    keeps_credential: bool = False,
    expected_version: int | None = None,
    run: FailFastRun | None = None,
) -> Warehouse:
    """Replace the storage profile and the credential; without a credential the former one is deleted.

    With `keeps_credential` it stays as it is. `run` records the checks, for callers that show them after a failure. A
    profile without `storage-layout` keeps the current layout.

    Raises `IncompatibleProfiles` (400) for another type, `UpdateError` (400) if files would have to move,
    `CredentialRequired` (400) if a kept credential would be sent to another address, `Conflict` (409) after a
    concurrent change, `WarehouseChanged` (409) for another version, and as `create_warehouse`.
    """
    update = StorageChange(
        actor=actor,
        warehouse_id=warehouse_id,
        storage_profile=storage_profile,
        storage_credential=storage_credential,
        keeps_credential=keeps_credential,
    )
    return _change(update, actor, expected_version, run or FailFastRun())


def update_storage_credential(
    *,
    actor: Actor,
    warehouse_id: UUID,
    storage_credential: dict[str, Any] | None,
    expected_version: int | None = None,
    run: FailFastRun | None = None,
) -> Warehouse:
    """Replace the credential; None deletes it. Raises as `update_storage`."""
    update = StorageChange(
        actor=actor, warehouse_id=warehouse_id, storage_profile=None, storage_credential=storage_credential
    )
    return _change(update, actor, expected_version, run or FailFastRun())


def _change(update: StorageChange, actor: Actor, expected_version: int | None, run: FailFastRun) -> Warehouse:
    if expected_version is not None and update.seen.version != expected_version:
        raise WarehouseChanged("The warehouse was changed by another request")  # before the store is probed
    update.run_checks(run)
    run.require_passed()
    update.run_store_checks(run)
    run.require_passed()
    new_credential = None if update.keeps_credential else update.credential
    with storing_credential(new_credential) as secret, change(actor) as tx:
        lock_locations()
        warehouse = lock_changeable(actor=actor, warehouse_id=update.seen.pk, expected_version=expected_version)
        profile = update.profile_for(warehouse)
        _require_free_location(warehouse, profile, update.credential)
        _save(tx, warehouse, profile, update, secret)
    return warehouse


def _require_free_location(warehouse: Warehouse, profile: Profile, credential: Credential | None) -> None:
    """Call `require_free_location` if the update gives access to other files: a new location or the system identity.

    A new key for the same location is always allowed.
    """
    moves = build_location_key(profile.as_json(), profile.location) != warehouse.location_key
    gains_identity = (
        credential is not None
        and credential.uses_system_identity
        and warehouse.credential_type not in SYSTEM_IDENTITY_TYPES
    )
    if moves or gains_identity:
        require_free_location(profile, credential, project_id=warehouse.project_id, owner=warehouse.pk)


def validate_storage(
    *,
    actor: Actor,
    warehouse_id: UUID,
    storage_profile: dict[str, Any] | None,
    storage_credential: dict[str, Any] | None,
    keeps_credential: bool = False,
) -> list[ValidationCheck]:
    """Validate an update of the storage, or without `storage_profile` of its credential; nothing is changed."""
    report = ReportRun()
    update = StorageChange(
        actor=actor,
        warehouse_id=warehouse_id,
        storage_profile=storage_profile,
        storage_credential=storage_credential,
        keeps_credential=keeps_credential,
    )
    update.run_checks(report)
    update.run_store_checks(report)
    return report.checks()


def validate_access(*, actor: Actor, warehouse_id: UUID) -> list[ValidationCheck]:
    """Validate access to the store with the current profile and credential of a warehouse."""
    warehouse = get_warehouse_for(actor=actor, action=Can.UPDATE_STORAGE, warehouse_id=warehouse_id)
    return access_checks(warehouse, run_store_checks)


def access_checks(
    warehouse: Warehouse, run_checks: Callable[[CheckRun, Profile | None, Credential | None], Enforcement | None]
) -> list[ValidationCheck]:
    """As `validate_access`, without authorization; `run_checks` runs the checks of the store."""
    report = ReportRun()
    credential = stored_credential(warehouse.secret_id)
    profile = report.check(CheckName.PROFILE_WELL_FORMED, lambda: read_profile(warehouse.storage_profile, credential))
    found = run_checks(report, profile, credential)
    require_enforcement(report, found)
    require_recorded_enforcement(report, found, warehouse.enforced_signatures)
    return report.checks()


def _save(
    tx: ChangeTransaction, warehouse: Warehouse, profile: Profile, update: StorageChange, secret: NewSecret | None
) -> None:
    """Save the update. If the store was not probed, an unchanged profile keeps its recorded enforcement."""
    if not update.keeps_credential:
        store_credential(warehouse, update.credential, secret)
    former, new = warehouse.storage_profile, profile.as_json()
    members = sorted(each for each in {*former, *new} if former.get(each) != new.get(each))
    warehouse.storage_profile = new
    if update.enforcement is not None or former != new:
        warehouse.enforced_signatures = update.enforcement
    warehouse.location_key = build_location_key(warehouse.storage_profile, warehouse.location)
    details = {"credential_type": warehouse.credential_type, "storage_profile": members}
    fields = ("storage_profile", "location_key", "credential_type", "secret_id", "enforced_signatures")
    save_change(tx, warehouse, *fields, details=details)
