"""Create a warehouse, or validate a request to create one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from django.db import IntegrityError

from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import name_key
from storage.credentials import Credential, read_credential
from storage.io.stores import create_base_folder
from storage.models import Warehouse
from storage.profiles.addresses import require_valid_addresses
from storage.profiles.kinds import read_profile
from storage.profiles.location import build_location_key
from storage.profiles.profile import Profile
from storage.secrets.stores import NewSecret, delete_secret, new_secret, secret_store
from storage.services.warehouse_rules import (
    lock_locations,
    name_taken,
    require_free_location,
    require_free_name,
    validate_delete_profile,
    validate_format_policy,
    validate_warehouse_name,
)
from storage.validation.access import require_enforcement, run_store_checks
from storage.validation.checks import CheckName, CheckRun, FailFastRun, ReportRun, ValidationCheck
from tenancy.actor import Actor, require_instance_admin
from tenancy.audit.recording import Event, record
from tenancy.authz.actions import Can
from tenancy.authz.model import OWNERSHIP
from tenancy.authz.permissions import require_permission
from tenancy.authz.securables import add_securable
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import no_such_project
from tenancy.services.automatic_grants import grant_creator


class WarehouseDraft:
    """A warehouse that is being created: checks fill its row, profile and credential.

    Arguments are those of `create_warehouse`. The constructor raises `Forbidden`, and `BadRequest` for the delete
    profile.
    """

    def __init__(
        self,
        *,
        actor: Actor,
        project: Project,
        name: str,
        storage_profile: dict[str, Any],
        storage_credential: dict[str, Any] | None,
        delete_profile: dict[str, Any] | None,
        allowed_format_versions: list[int] | None,
        default_format_version: int | None,
        managed_by: str,
    ) -> None:
        require_permission(actor, Can.CREATE_WAREHOUSE, Securable.Type.PROJECT, project.pk)
        self._actor, self._name = actor, name
        self._storage = storage_profile, storage_credential
        self._policy = allowed_format_versions, default_format_version
        self.credential: Credential | None = None
        self.profile: Profile | None = None
        self.warehouse = Warehouse(
            id=new_id(), project=project, managed_by=managed_by, delete_profile=validate_delete_profile(delete_profile)
        )

    def run_checks(self, run: CheckRun) -> None:
        """Run the checks that need only the database."""
        run.check(CheckName.MANAGED_BY_ALLOWED, self._require_permitted)
        run.check(CheckName.PROFILE_WELL_FORMED, self._read_storage)
        run.check(CheckName.WAREHOUSE_NAME_VALID, self._read_name)
        run.check(CheckName.LOCATION_EXCLUSIVE, self.require_free_location, needs=(CheckName.PROFILE_WELL_FORMED,))
        run.check(CheckName.FORMAT_VERSION_POLICY_CONSISTENT, self._read_policy)

    def run_store_checks(self, run: CheckRun) -> None:
        found = run_store_checks(run, self.profile, self.credential)
        require_enforcement(run, found)
        self.warehouse.enforced_signatures = found

    def require_free_name(self) -> None:
        """Raises `WarehouseExists` (409)."""
        require_free_name(self.warehouse.project_id, self.warehouse.name)

    def require_free_location(self) -> None:
        """Raises `WarehouseOverlap` (400)."""
        if self.profile is not None:
            project_id, owner = self.warehouse.project_id, self.warehouse.pk
            require_free_location(self.profile, self.credential, project_id=project_id, owner=owner)

    def _read_storage(self) -> None:
        document, credential = self._storage
        self.credential = parse_new_credential(credential)
        profile = read_profile(document, self.credential)
        require_valid_addresses(profile, self.credential)
        self.profile = profile
        self.warehouse.storage_profile, self.warehouse.location = profile.as_json(), profile.location
        self.warehouse.location_key = build_location_key(self.warehouse.storage_profile, self.warehouse.location)

    def _read_name(self) -> None:
        self.warehouse.name = validate_warehouse_name(self._name)
        self.warehouse.name_key = name_key(self.warehouse.name)
        self.require_free_name()

    def _read_policy(self) -> None:
        policy = validate_format_policy(*self._policy)
        self.warehouse.allowed_format_versions, self.warehouse.default_format_version = policy

    def _require_permitted(self) -> None:
        if self.warehouse.managed_by != Warehouse.ManagedBy.SELF_MANAGED:
            require_instance_admin(self._actor)


def validate_new_warehouse(**arguments: Any) -> list[ValidationCheck]:
    """Validate a request to create a warehouse; arguments are those of `create_warehouse`."""
    draft, report = WarehouseDraft(**arguments), ReportRun()
    draft.run_checks(report)
    with _temporary_base_folder(draft):
        draft.run_store_checks(report)
    return report.checks()


class _RemoveFolder(Exception):
    """Raised to have `create_base_folder` remove the folder."""


@contextmanager
def _temporary_base_folder(draft: WarehouseDraft) -> Iterator[None]:
    if draft.profile is None:
        yield
        return
    with suppress(_RemoveFolder), create_base_folder(draft.profile.as_json(), draft.profile.location):
        yield
        raise _RemoveFolder


def create_warehouse(
    *,
    actor: Actor,
    project: Project,
    name: str,
    storage_profile: dict[str, Any],
    storage_credential: dict[str, Any] | None = None,
    delete_profile: dict[str, Any] | None = None,
    allowed_format_versions: list[int] | None = None,
    default_format_version: int | None = None,
    managed_by: str = Warehouse.ManagedBy.SELF_MANAGED,
) -> Warehouse:
    """Create a warehouse in `project` after its store has passed validation (`storage.validation`).

    The actor becomes its owner. The folder of a local warehouse is created.

    Raises `WarehouseExists` (409) for a taken name, `WarehouseOverlap` (400) for a location that overlaps another
    warehouse, `BadRequest` for an invalid name, profile, credential, delete profile or format policy,
    `SecretStoreNotConfigured` (412), `InstanceAdminRequired` (403) for a managed warehouse, and
    `StorageValidationFailed`.
    """
    draft = WarehouseDraft(
        actor=actor,
        project=project,
        name=name,
        storage_profile=storage_profile,
        storage_credential=storage_credential,
        delete_profile=delete_profile,
        allowed_format_versions=allowed_format_versions,
        default_format_version=default_format_version,
        managed_by=managed_by,
    )
    run, warehouse = FailFastRun(), draft.warehouse
    draft.run_checks(run)
    run.require_passed()
    try:
        with create_base_folder(warehouse.storage_profile, warehouse.location):
            draft.run_store_checks(run)
            run.require_passed()
            with storing_credential(draft.credential) as secret, write_transaction():
                _insert(actor, draft, secret)
    except IntegrityError:
        if Warehouse.objects.filter(project=project, name_key=warehouse.name_key).exists():
            raise name_taken(warehouse.name) from None
        raise
    return warehouse


def _insert(actor: Actor, draft: WarehouseDraft, secret: NewSecret | None) -> None:
    """Insert the row, under a lock on locations; checks are repeated under the lock."""
    warehouse = draft.warehouse
    lock_locations()
    if lock_row(Project, "id = %s", [warehouse.project_id]) is None:
        raise no_such_project(warehouse.project_id)
    draft.require_free_name()
    draft.require_free_location()
    store_credential(warehouse, draft.credential, secret)
    warehouse.save(force_insert=True)
    warehouse_ref = ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk)
    add_securable(*warehouse_ref, parent=ObjectRef(Securable.Type.PROJECT, warehouse.project_id))
    granted = grant_creator(actor, OWNERSHIP, warehouse_ref)
    record(
        Event.WAREHOUSE_CREATED, actor=actor, subject=warehouse.pk, project=warehouse.project_id, named=warehouse.name,
        location=warehouse.location, credential_type=warehouse.credential_type, **granted,
    )  # fmt: skip


def parse_new_credential(document: dict[str, Any] | None) -> Credential | None:
    """Parse a credential that will be stored. Raises as `read_credential`, and `SecretStoreNotConfigured`."""
    if document is None:
        return None
    credential = read_credential(document)
    secret_store().require_ready()
    return credential


def storing_credential(credential: Credential | None) -> AbstractContextManager[NewSecret | None]:
    """Create the secret of a credential around the transaction that saves the warehouse, see `new_secret`."""
    return nullcontext() if credential is None else new_secret(credential.reveal())


def store_credential(warehouse: Warehouse, credential: Credential | None, secret: NewSecret | None) -> None:
    """In the transaction that saves the warehouse, set its secret and delete the former one."""
    former = warehouse.secret_id
    warehouse.credential_type = warehouse.secret_id = None
    if credential is not None and secret is not None:
        secret.store()
        warehouse.credential_type, warehouse.secret_id = credential.credential_type, secret.id
    if former is not None:
        delete_secret(former)
