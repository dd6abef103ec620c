"""Create a warehouse or validate a request to create one; the rules for names, locations and policies of warehouses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError

from icekeeper.kernel.db.sql import fetch_one, lock_row
from icekeeper.kernel.errors.types import BadRequest, Conflict
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import name_key, require_trimmed_name
from storage.credentials import SYSTEM_IDENTITY_TYPES, Credential, read_credential
from storage.io.stores import create_base_folder
from storage.models import Warehouse
from storage.profiles.addresses import require_valid_addresses
from storage.profiles.kinds import read_profile
from storage.profiles.location import ancestor_keys, build_location_key, descendant_key_range
from storage.profiles.profile import Profile
from storage.secrets.stores import NewSecret, delete_secret, new_secret, secret_store
from storage.validation.access import require_enforcement, run_store_checks
from storage.validation.checks import CheckName, CheckRun, FailFastRun, ReportRun, ValidationCheck
from tenancy.actor import Actor, require_instance_admin
from tenancy.authz.actions import Can
from tenancy.authz.model import OWNERSHIP
from tenancy.authz.permissions import require_permission
from tenancy.authz.securables import add_securable
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import ChangeTransaction, change
from tenancy.models import Project, Securable, Server
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
    protected: bool = False,
    run: FailFastRun | None = None,
) -> Warehouse:
    """Create a warehouse in `project` after its store has passed validation (`storage.validation`).

    The actor becomes its owner, and so has the permission that `protected` needs (`set_protection`); it is recorded as
    `set_warehouse_protection` records it. The folder of a local warehouse is created. `run` records the checks, for
    callers that show them after a failure.

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
    run, warehouse = run or FailFastRun(), draft.warehouse
    warehouse.protected = protected
    draft.run_checks(run)
    run.require_passed()
    try:
        with create_base_folder(warehouse.storage_profile, warehouse.location):
            draft.run_store_checks(run)
            run.require_passed()
            with storing_credential(draft.credential) as secret, change(actor) as tx:
                _insert(tx, draft, secret)
    except IntegrityError:
        if Warehouse.objects.filter(project=project, name_key=warehouse.name_key).exists():
            raise name_taken(warehouse.name) from None
        raise
    return warehouse


def _insert(tx: ChangeTransaction, draft: WarehouseDraft, secret: NewSecret | None) -> None:
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
    granted = grant_creator(tx.actor, OWNERSHIP, warehouse_ref)
    tx.record(
        Change.WAREHOUSE_CREATED, subject=warehouse.pk, project=warehouse.project_id, named=warehouse.name,
        location=warehouse.location, credential_type=warehouse.credential_type, **granted,
    )  # fmt: skip
    if warehouse.protected:
        tx.record(
            Change.WAREHOUSE_UPDATED, subject=warehouse.pk, project=warehouse.project_id, named=warehouse.name,
            changed={"protected": True},
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


SUPPORTED_FORMAT_VERSIONS = (1, 2, 3, 4)
DEFAULT_ALLOWED_FORMAT_VERSIONS = (1, 2, 3)
"""Version 4 is not final, so warehouses must allow it explicitly."""

MAX_NAME_BYTES = 128
MAX_EXPIRATION_SECONDS = 3_155_760_000
"""A hundred years."""


class EmptyWarehouseName(BadRequest):
    wire_type = "EmptyWarehouseName"


class WarehouseNameTooLong(BadRequest):
    wire_type = "WarehouseNameTooLong"


class EmptyAllowedFormatVersions(BadRequest):
    wire_type = "EmptyAllowedFormatVersions"


class DefaultFormatVersionNotAllowed(BadRequest):
    wire_type = "DefaultFormatVersionNotAllowed"


def validate_warehouse_name(name: str) -> str:
    """Return a valid name, stripped. Raises `EmptyWarehouseName`, `WarehouseNameTooLong`, `BadRequest`.

    A slash is not allowed, as clients address a warehouse by `<project id>/<name>`.
    """
    if not name.strip():
        raise EmptyWarehouseName("The name of a warehouse must not be empty", field="warehouse-name")
    if len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise WarehouseNameTooLong(
            f"The name of a warehouse must not be longer than {MAX_NAME_BYTES} bytes", field="warehouse-name"
        )
    if "/" in name:
        raise BadRequest("Invalid warehouse name: must not contain a slash", field="warehouse-name")
    return require_trimmed_name(name, "warehouse name")


def validate_delete_profile(profile: dict[str, Any] | None) -> dict[str, Any]:
    """Return a valid delete profile; `hard` is the default. Raises `BadRequest`."""
    if not profile or profile.get("type") == "hard":
        return {"type": "hard"}
    if profile.get("type") != "soft":
        message = 'delete-profile: must be {"type": "hard"} or {"type": "soft", "expiration-seconds": ...}'
        raise BadRequest(message, field="delete-profile")
    seconds = profile.get("expiration-seconds")
    if type(seconds) is not int or not 0 <= seconds <= MAX_EXPIRATION_SECONDS:
        message = f"delete-profile: expiration-seconds must be a number from 0 to {MAX_EXPIRATION_SECONDS}"
        raise BadRequest(message, field="delete-profile.expiration-seconds")
    return {"type": "soft", "expiration-seconds": seconds}


def validate_format_policy(allowed: list[int] | None, default: int | None) -> tuple[list[int], int | None]:
    """Return the allowed versions, in order, and the default version.

    Raises `EmptyAllowedFormatVersions`, `DefaultFormatVersionNotAllowed`, `BadRequest`.
    """
    versions = sorted(set(DEFAULT_ALLOWED_FORMAT_VERSIONS if allowed is None else allowed))
    if not versions:
        raise EmptyAllowedFormatVersions("allowed-format-versions: must not be empty", field="allowed-format-versions")
    if not set(versions) <= set(SUPPORTED_FORMAT_VERSIONS):
        raise BadRequest("allowed-format-versions: must be a subset of [1, 2, 3, 4]", field="allowed-format-versions")
    if default is not None and default not in versions:
        raise DefaultFormatVersionNotAllowed(
            "default-format-version: must be one of allowed-format-versions", field="default-format-version"
        )
    return versions, default


# The bounds are compared byte by byte, as the index `warehouse_by_location_key` is sorted.
_OTHERS = """
SELECT 1 FROM storage_warehouse
 WHERE (location_key = ANY(%s) OR (location_key ~>=~ %s AND location_key ~<~ %s))
   AND (project_id = %s OR %s OR credential_type = ANY(%s))
   AND id <> %s LIMIT 1
"""


NO_WAREHOUSE: Final = UUID(int=0)


class WarehouseExists(Conflict):
    wire_type = "WarehouseAlreadyExists"


class WarehouseOverlap(BadRequest):
    wire_type = "CreateWarehouseStorageProfileOverlap"


def lock_locations() -> None:
    """Lock the row of the server. Must be the first lock of a transaction that changes locations."""
    Server.objects.select_for_update().get()


def name_taken(name: str) -> WarehouseExists:
    return WarehouseExists(f"A warehouse named {name!r} already exists in this project", field="warehouse-name")


def require_free_name(project_id: str, name: str) -> None:
    """Raises `WarehouseExists` (409)."""
    if Warehouse.objects.filter(project_id=project_id, name_key=name_key(name)).exists():
        raise name_taken(name)


def is_shared_by_projects(profile: Profile, credential: Credential | None) -> bool:
    """Return whether projects could use the same files, so that warehouses of all projects must not overlap.

    True for local folders, and for the server's own identity. Elsewhere the credential decides who may use a bucket.
    """
    return profile.type == "local" or (credential is not None and credential.uses_system_identity)


def require_free_location(
    profile: Profile, credential: Credential | None, *, project_id: str, owner: UUID = NO_WAREHOUSE
) -> None:
    """Raise `WarehouseOverlap` (400) when the location overlaps that of another warehouse, active or not.

    `owner`, the warehouse of the location, is ignored. So are warehouses of other projects, unless one of the two
    `is_shared_by_projects`.
    """
    key = build_location_key(profile.as_json(), profile.location)
    meets_all = is_shared_by_projects(profile, credential)
    others = [ancestor_keys(key), *descendant_key_range(key), project_id, meets_all, SYSTEM_IDENTITY_TYPES, owner]
    if fetch_one("default", _OTHERS, others) is not None:
        message = f"Storage profile overlaps with that of another warehouse: {profile.location}"
        raise WarehouseOverlap(message, field="storage-profile")
