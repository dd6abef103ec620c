"""The declaration of a catalog: administrators, projects and warehouses, with the member names of the API.

A missing member has no effect: a new object gets the default, an existing object keeps its value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from typing import Annotated, Any, Literal
from uuid import UUID

from django.conf import settings
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.names import name_key
from storage.services.warehouses import (
    MAX_EXPIRATION_SECONDS,
    SUPPORTED_FORMAT_VERSIONS,
    validate_warehouse_name,
)
from tenancy.actor import require_user_id
from tenancy.services.projects import checked_project_name
from tenancy.services.registration import checked_email, checked_name

MAX_ENTRIES = 1000


class InvalidDeclaration(Exception):
    """`problems` has one line each: the path of the member and the values that it accepts, never its value."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _as(check: Callable[[str], str]) -> AfterValidator:
    """Validate with the check of the service that stores the value."""

    def checked(value: str) -> str:
        try:
            return check(value)
        except BadRequest as error:
            raise ValueError(error.message) from None

    return AfterValidator(checked)


def _warehouse_id(value: str) -> UUID:
    warehouse_id = parse_id(value)
    if warehouse_id is None:
        raise ValueError("must be a UUID")
    return warehouse_id


UserId = Annotated[str, _as(require_user_id)]
UserName = Annotated[str, _as(checked_name)]
UserEmail = Annotated[str, _as(checked_email)]
ProjectName = Annotated[str, _as(checked_project_name)]
WarehouseName = Annotated[str, _as(validate_warehouse_name)]
ProjectId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,128}\Z")]
FormatVersion = Annotated[int, Field(ge=1, le=4)]


class DeclaredEntry(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        hide_input_in_errors=True,
        regex_engine="python-re",
        alias_generator=lambda name: name.replace("_", "-"),
    )


class DeclaredAdministrator(DeclaredEntry):
    user_id: UserId
    user_name: UserName | None = None
    user_email: UserEmail | None = None
    user_type: Literal["human", "application"] | None = None
    is_operator: bool = False


class DeclaredProject(DeclaredEntry):
    project_id: ProjectId
    project_name: ProjectName


class DeclaredDeleteProfile(DeclaredEntry):
    type: Literal["hard", "soft"]
    expiration_seconds: Annotated[int, Field(ge=0, le=MAX_EXPIRATION_SECONDS)] | None = None

    def as_stored(self) -> dict[str, Any]:
        if self.type == "hard":
            return {"type": "hard"}
        return {"type": "soft", "expiration-seconds": self.expiration_seconds}


class DeclaredWarehouse(DeclaredEntry):
    """Identified by its name in the project, or by `warehouse-id`; then another name renames it."""

    warehouse_name: WarehouseName
    warehouse_id: Annotated[str, AfterValidator(_warehouse_id)] | None = None
    project_id: ProjectId | None = None
    storage_profile: dict[str, Any]
    storage_credential: dict[str, Any] | None = Field(None, repr=False)
    delete_profile: DeclaredDeleteProfile | None = None
    allowed_format_versions: Annotated[list[FormatVersion], Field(min_length=1)] | None = None
    default_format_version: FormatVersion | None = None
    protected: bool | None = None
    managed_by: Literal["self-managed", "instance-admin"] | None = None

    @property
    def project(self) -> str:
        """Return the id of the project; `read_declaration` has checked that it is set."""
        return self.project_id or str(settings.ICEKEEPER.default_project_id)


class Declaration(DeclaredEntry):
    administrators: Annotated[list[DeclaredAdministrator], Field(max_length=MAX_ENTRIES)] = []
    projects: Annotated[list[DeclaredProject], Field(max_length=MAX_ENTRIES)] = []
    warehouses: Annotated[list[DeclaredWarehouse], Field(max_length=MAX_ENTRIES)] = []


def read_declaration(document: Any) -> Declaration:
    """Validate a document. Raises `InvalidDeclaration` with all problems that do not depend on the database."""
    if not isinstance(document, dict):
        raise InvalidDeclaration(["the document must be an object with administrators, projects, warehouses"])
    try:
        declaration = Declaration.model_validate(document)
    except ValidationError as error:
        raise InvalidDeclaration([_problem(item) for item in error.errors(include_input=False)]) from None
    problems = [*_duplicates(declaration), *_inconsistencies(declaration)]
    if problems:
        raise InvalidDeclaration(problems)
    return declaration


def _duplicates(declaration: Declaration) -> list[str]:
    entries = declaration
    return [
        *_repeated("administrators", "user-id", ((a.user_id, a.is_operator) for a in entries.administrators)),
        *_repeated("projects", "project-id", (project.project_id for project in entries.projects)),
        *_repeated("projects", "project-name", (name_key(project.project_name) for project in entries.projects)),
        *_repeated(
            "warehouses", "warehouse-name", ((w.project, name_key(w.warehouse_name)) for w in entries.warehouses)
        ),
        *_repeated("warehouses", "warehouse-id", (w.warehouse_id for w in entries.warehouses)),
    ]


def _repeated(kind: str, member: str, values: Iterable[Hashable]) -> list[str]:
    first: dict[Hashable, int] = {}
    problems = []
    for number, value in enumerate(values):
        if value is not None and first.setdefault(value, number) != number:
            problems.append(f"{kind}[{number}].{member}: the same as in {kind}[{first[value]}]")
    return problems


def _inconsistencies(declaration: Declaration) -> list[str]:
    problems = []
    for number, warehouse in enumerate(declaration.warehouses):
        path = f"warehouses[{number}]"
        if warehouse.project_id is None and not settings.ICEKEEPER.enable_default_project:
            problems.append(f"{path}.project-id: is required, because there is no default project")
        if not isinstance(warehouse.storage_profile.get("type"), str):
            problems.append(f"{path}.storage-profile.type: must be a string")
        default = warehouse.default_format_version
        if default is not None and default not in (warehouse.allowed_format_versions or SUPPORTED_FORMAT_VERSIONS):
            problems.append(f"{path}.default-format-version: must be one of allowed-format-versions")
        profile = warehouse.delete_profile
        if profile is not None and (profile.type == "soft") != (profile.expiration_seconds is not None):
            problems.append(f"{path}.delete-profile.expiration-seconds: required for soft, not allowed for hard")
    return problems


def _problem(item: Any) -> str:
    path = ""
    for part in item["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    if item["type"] == "extra_forbidden":
        return f"{path[:200]}: unknown member"
    if item["type"] == "missing":
        return f"{path}: is missing"
    message = str(item["msg"])
    if item["type"] == "value_error":
        return f"{path}: {message.removeprefix('Value error, ')}"
    return f"{path}: must {re.sub(r'^[A-Z][a-z]+ should ', '', message)}"
