"""Compare a declaration with the catalog, plan the steps that are missing, and apply them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from django.conf import settings

from icekeeper.kernel.errors.types import CatalogError, Conflict
from icekeeper.kernel.names import name_key
from management.bootstrap.declaration import Declaration, DeclaredAdministrator, DeclaredWarehouse
from management.bootstrap.document import MissingSecret, resolve_secrets
from storage.models import Warehouse
from storage.profiles.addresses import require_valid_addresses
from storage.profiles.kinds import read_declared_profile, read_profile, read_stored_profile
from storage.profiles.location import build_location_key, keys_overlap
from storage.services.warehouse_changes import (
    rename_warehouse,
    set_delete_profile,
    set_format_version_policy,
    set_managed_by,
    set_warehouse_protection,
)
from storage.services.warehouses import (
    WarehouseOverlap,
    create_warehouse,
    is_shared_by_projects,
    parse_new_credential,
    require_free_location,
)
from tenancy.actor import INTERNAL, Actor
from tenancy.models import Project
from tenancy.selectors.projects import get_project, get_server
from tenancy.services.projects import create_project, rename_project
from tenancy.services.server import (
    DEFAULT_PROJECT_NAME,
    AlreadyBootstrapped,
    ConcurrentBootstrap,
    appoint_administrator,
    bootstrap,
    is_administrator,
)

BOOTSTRAP = "bootstrap"
MAX_ATTEMPTS: Final = 3
"""How often the plan is built when a concurrent change fails a step, as when two nodes start with one declaration."""


class PlanRejected(Exception):
    """The declaration cannot be applied; `problems` has one line each, which begins with the path of the member."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class BootstrapStep:
    """One change: the path of its entry, its kind, a description ("create the project p") and the call."""

    path: str
    action: str
    description: str
    run: Callable[[], object] = field(repr=False)


def build_plan(declaration: Declaration) -> list[BootstrapStep]:
    """Return the steps in the order of their execution; none if everything is as declared. Raises `PlanRejected`."""
    planning = _Planning(declaration)
    planning.plan_administrators()
    planning.plan_projects()
    planning.plan_warehouses()
    if planning.problems:
        raise PlanRejected(planning.problems)
    return planning.steps


def apply_declaration(declaration: Declaration, report: Callable[[BootstrapStep], object]) -> None:
    """Run the missing steps, each in its own transaction; call `report` after each.

    Raises `PlanRejected` before anything is changed, or when a step fails; the steps before it stay applied, and the
    next call continues after them.
    """
    for attempt in range(1, MAX_ATTEMPTS + 1):
        for step in build_plan(declaration):
            try:
                step.run()
            except (Conflict, AlreadyBootstrapped, ConcurrentBootstrap) as error:
                if attempt == MAX_ATTEMPTS:
                    raise _rejection(step, error) from None
                break
            except CatalogError as error:
                raise _rejection(step, error) from None
            report(step)
        else:
            return


class _Planning:
    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.server = get_server()
        self.names = dict(Project.objects.values_list("pk", "name"))
        """Project names by id, as they will be after the steps so far."""
        self.locations: dict[str, tuple[str, str, bool]] = {}
        """Of the planned warehouses, by path: project, location and whether it overlaps across projects."""
        self.steps: list[BootstrapStep] = []
        self.problems: list[str] = []

    def plan_administrators(self) -> None:
        entries = list(enumerate(self.declaration.administrators))
        if self.server.bootstrapped_at is None:
            self._plan_bootstrap(entries.pop(0)[1] if entries else None)
        for number, entry in entries:
            if not is_administrator(self.server, entry.user_id, is_operator=entry.is_operator):
                do = partial(appoint_administrator, actor=INTERNAL, user_id=entry.user_id, **_about(entry))
                self._add(f"administrators[{number}]", "appoint-administrator", f"appoint {_described(entry)}", do)

    def _plan_bootstrap(self, first: DeclaredAdministrator | None) -> None:
        actor = Actor(user_id=first.user_id) if first else INTERNAL
        do = partial(bootstrap, actor=actor, accept_terms_of_use=True, **(_about(first) if first else {}))
        description = f"bootstrap the catalog and appoint {_described(first)}" if first else "bootstrap the catalog"
        self._add("administrators[0]" if first else "", BOOTSTRAP, description, do)
        if settings.ICEKEEPER.enable_default_project:
            self.names.setdefault(settings.ICEKEEPER.default_project_id, DEFAULT_PROJECT_NAME)

    def plan_projects(self) -> None:
        for number, entry in enumerate(self.declaration.projects):
            path, project_id, name = f"projects[{number}]", entry.project_id, entry.project_name
            others = {name_key(other) for other_id, other in self.names.items() if other_id != project_id}
            if name_key(name) in others:
                self.problems.append(f"{path}.project-name: another project is named {name!r}")
            elif project_id not in self.names:
                create = partial(create_project, actor=INTERNAL, name=name, project_id=project_id)
                self._add(path, "create-project", f"create the project {project_id}, named {name!r}", create)
            elif self.names[project_id] != name:
                rename = partial(rename_project, actor=INTERNAL, project_id=project_id, new_name=name)
                was = self.names[project_id]
                self._add(path, "rename-project", f"rename the project {project_id} from {was!r} to {name!r}", rename)
            self.names[project_id] = name

    def plan_warehouses(self) -> None:
        for number, entry in enumerate(self.declaration.warehouses):
            path = f"warehouses[{number}]"
            if entry.project not in self.names:
                self.problems.append(
                    f"{path}.project-id: the project {entry.project} does not exist and is not declared"
                )
                continue
            existing = Warehouse.objects.filter(project_id=entry.project)
            if entry.warehouse_id is not None:
                warehouse = existing.filter(pk=entry.warehouse_id).first()
                if warehouse is None:
                    self.problems.append(f"{path}.warehouse-id: no such warehouse in the project {entry.project}")
                    continue
            else:
                warehouse = existing.filter(name_key=name_key(entry.warehouse_name)).first()
            if warehouse is None:
                self._plan_new(path, entry)
            else:
                self._plan_changes(path, entry, warehouse)

    def _plan_new(self, path: str, entry: DeclaredWarehouse) -> None:
        try:
            credential = resolve_secrets(entry.storage_credential, f"{path}.storage-credential")
            read_declared_profile(entry.storage_profile, None)
            wanted = parse_new_credential(credential)
            profile = read_profile(entry.storage_profile, wanted)
            require_valid_addresses(profile, wanted)
            require_free_location(profile, wanted, project_id=entry.project)
        except WarehouseOverlap as error:
            self.problems.append(f"{path}: {error.message}")
            return
        except CatalogError as error:
            self.problems.append(f"{path}.{error.message}")
            return
        except MissingSecret as missing:
            self.problems.append(str(missing))
            return
        location = build_location_key(profile.as_json(), profile.location)
        self._reserve(path, entry.project, location, meets_all=is_shared_by_projects(profile, wanted))
        description = f"create the warehouse {entry.warehouse_name!r} in the project {entry.project}"
        self._add(path, "create-warehouse", description, partial(_create, entry, credential))

    def _reserve(self, path: str, project: str, location: str, *, meets_all: bool) -> None:
        for other, (other_project, other_location, other_meets_all) in self.locations.items():
            is_compared = project == other_project or meets_all or other_meets_all
            if is_compared and keys_overlap(location, other_location):
                self.problems.append(f"{path}.storage-profile: overlaps with {other}")
        self.locations[path] = (project, location, meets_all)

    def _plan_changes(self, path: str, entry: DeclaredWarehouse, warehouse: Warehouse) -> None:
        self.problems.extend(_changed_storage(path, entry, warehouse))
        allowed, default = _policy(entry, warehouse)
        if default is not None and default not in allowed:
            self.problems.append(
                f"{path}.default-format-version: {default} is not one of the allowed versions {allowed}"
            )
        for action, change, do in _changes(entry, warehouse):
            self._add(path, action, f"in the warehouse {warehouse.name!r} {change}", do)

    def _add(self, path: str, action: str, description: str, run: Callable[[], object]) -> None:
        self.steps.append(BootstrapStep(path, action, description, run))


def _about(entry: DeclaredAdministrator) -> dict[str, Any]:
    return {
        "is_operator": entry.is_operator,
        "name": entry.user_name,
        "email": entry.user_email,
        "user_type": entry.user_type,
    }


def _described(entry: DeclaredAdministrator) -> str:
    return f"{entry.user_id} {'operator' if entry.is_operator else 'administrator'} of the server"


def _create(entry: DeclaredWarehouse, credential: dict[str, Any] | None) -> None:
    create_warehouse(
        actor=INTERNAL,
        project=get_project(entry.project),
        name=entry.warehouse_name,
        storage_profile=entry.storage_profile,
        storage_credential=credential,
        delete_profile=entry.delete_profile.as_stored() if entry.delete_profile else None,
        allowed_format_versions=entry.allowed_format_versions,
        default_format_version=entry.default_format_version,
        managed_by=entry.managed_by or Warehouse.ManagedBy.SELF_MANAGED,
        protected=bool(entry.protected),
    )


def _changed_storage(path: str, entry: DeclaredWarehouse, warehouse: Warehouse) -> Iterator[str]:
    """Yield a problem for each difference in the storage location, which bootstrap does not change."""
    path = f"{path}.storage-profile"
    stored = warehouse.storage_profile
    if entry.storage_profile["type"] != stored["type"]:
        yield f"{path}.type: the warehouse {warehouse.name!r} is of type {stored['type']}, which cannot be changed"
        return
    try:
        declared = read_declared_profile(entry.storage_profile, warehouse.credential_type).effective_json()
    except CatalogError as error:
        yield f"{path.removesuffix('storage-profile')}{error.message}"
        return
    current = read_stored_profile(stored).effective_json()
    for member in sorted(declared):
        if entry.storage_profile.get(member) is not None and declared[member] != current[member]:
            yield f"{path}.{member}: the warehouse {warehouse.name!r} has another value; bootstrap does not change it"


def _policy(entry: DeclaredWarehouse, warehouse: Warehouse) -> tuple[list[int], int | None]:
    """Return the allowed format versions and the default version after the change."""
    allowed = sorted(set(entry.allowed_format_versions or warehouse.allowed_format_versions))
    is_set = "default_format_version" in entry.model_fields_set
    return allowed, entry.default_format_version if is_set else warehouse.default_format_version


def _changes(entry: DeclaredWarehouse, warehouse: Warehouse) -> Iterator[tuple[str, str, Callable[[], object]]]:
    """Yield each difference: the action, its description, the call."""
    about: dict[str, Any] = {"actor": INTERNAL, "warehouse_id": warehouse.pk}
    if entry.warehouse_name != warehouse.name:
        do = partial(rename_warehouse, **about, new_name=entry.warehouse_name)
        yield "rename-warehouse", f"set the name to {entry.warehouse_name!r}", do
    profile = entry.delete_profile.as_stored() if entry.delete_profile else warehouse.delete_profile
    if profile != warehouse.delete_profile:
        kind = profile["type"] if profile["type"] == "hard" else f"soft, {profile['expiration-seconds']} s"
        yield (
            "set-delete-profile",
            f"set the delete profile to {kind}",
            partial(set_delete_profile, **about, delete_profile=profile),
        )
    allowed, default = _policy(entry, warehouse)
    if (allowed, default) != (warehouse.allowed_format_versions, warehouse.default_format_version):
        yield (
            "set-format-version-policy",
            f"set the format versions to {allowed}, default {default or 'none'}",
            partial(set_format_version_policy, **about, allowed=allowed, default=default),
        )
    if entry.protected is not None and entry.protected != warehouse.protected:
        yield (
            "set-warehouse-protection",
            f"{'enable' if entry.protected else 'disable'} protection",
            partial(set_warehouse_protection, **about, is_protected=entry.protected),
        )
    if entry.managed_by is not None and entry.managed_by != warehouse.managed_by:
        yield (
            "set-managed-by",
            f"set the manager to {entry.managed_by}",
            partial(set_managed_by, **about, managed_by=entry.managed_by),
        )


def _rejection(step: BootstrapStep, error: CatalogError) -> PlanRejected:
    return PlanRejected([f"{step.path}: {error.message}" if step.path else error.message])
