"""What the OpenAPI descriptions of several resources share: parameters, error texts, and the types of objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema

from icekeeper.kernel.http.openapi import operation_responses
from icekeeper.kernel.http.paging import MAX_PAGE_SIZE
from tenancy.models import Securable

T = Securable.Type
Operation = Callable[[Any], Any]
"""What `extend_schema` returns."""
V = TypeVar("V")


def path_parameter(name: str, description: str, kind: Any = OpenApiTypes.UUID) -> OpenApiParameter:
    return OpenApiParameter(name, kind, OpenApiParameter.PATH, description=description)


PROJECT_HEADER: Final = OpenApiParameter(
    "x-project-id",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="The project; default: the server's default project",
)
EXTENSIONS_HEADER: Final = OpenApiParameter(
    "x-icekeeper-extensions",
    OpenApiTypes.BOOL,
    OpenApiParameter.HEADER,
    default=False,
    description="Also return the members that Lakekeeper's API does not have",
)
OVERRIDE_HEADER: Final = OpenApiParameter(
    "x-icekeeper-override-rules",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="Override rules that reject the change: the reason, 1 to 200 characters, which is audited. Needs the "
    "permission to override rules where they are attached",
)
REJECTED_BY_RULE: Final = "`ContractViolation`: a rule rejected the change"
WITH_EXTENSIONS: Final = "Only with `x-icekeeper-extensions: true`"
PAGE: Final = [
    OpenApiParameter("pageToken", OpenApiTypes.STR, description="`next-page-token` of the previous page"),
    OpenApiParameter(
        "pageSize",
        {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE},
        description="Entries per page; the server has a default and a maximum",
    ),
]
PAGE_NAMES: Final = ("pageToken", "pageSize")
PRINCIPAL: Final = [
    OpenApiParameter("principalUser", OpenApiTypes.STR, description="The id of a user; default: the caller"),
    OpenApiParameter("principalRole", OpenApiTypes.UUID, description="The id of a role; not together with a user"),
]
PRINCIPAL_NAMES: Final = ("principalUser", "principalRole")
WAREHOUSE_ID: Final = path_parameter("warehouse_id", "The warehouse's `id`, which the catalog calls `prefix`")
PROJECT_ID: Final = path_parameter("project_id", "The project's id", OpenApiTypes.STR)
ROLE_ID: Final = path_parameter("role_id", "The role's id")
TAG_ID: Final = path_parameter("tag_definition_id", "The tag definition's id")
USER_ID: Final = path_parameter(
    "user_id", "`<provider>~<subject>`, percent-encoded: it may contain slashes", OpenApiTypes.STR
)

BAD_PAGE: Final = "`InvalidPaginationToken`"
BAD_PROJECT: Final = "`ProjectIdMissing`, `MalformedProjectID`"
BAD_USER_ID: Final = "`InvalidUserIdError`, `EmptyUserIdError`, `UserIdTooLongError`"
BAD_PRINCIPAL: Final = f"`AmbiguousGrantPrincipal`, {BAD_USER_ID}"
NO_PROJECT: Final = "`ProjectNotFound`"
NO_WAREHOUSE: Final = "`NoSuchWarehouseException`"
NO_NAMESPACE: Final = "`NoSuchNamespaceException`"
NO_TABULAR: Final = "`NoSuchTableException`, `NoSuchViewException`, `NoSuchGenericTableException`"
NO_USER: Final = "`UserNotFound`"
NO_ROLE: Final = f"`RoleNotFoundInProject`, {NO_PROJECT}"
NO_PRINCIPAL: Final = "`UserNotFound`, `RoleIdNotFound`"
PROJECT_ERRORS: Final = {400: BAD_PROJECT, 404: NO_PROJECT}
TOO_LARGE: Final = "`PayloadTooLargeException`"
LAST_ADMINISTRATOR: Final = "`LastAdministrator`: a project or the server would lose its last administrator"
GRANT_DENIED: Final = "`GrantActionForbidden`"
MISSING_OBJECTS: Final[Mapping[Securable.Type, str]] = {
    T.NAMESPACE: NO_NAMESPACE,
    T.TABLE: "`NoSuchTableException`",
    T.VIEW: "`NoSuchViewException`",
    T.GENERIC_TABLE: "`NoSuchGenericTableException`",
}


@dataclass(frozen=True, slots=True)
class ObjectType:
    """How descriptions of operations name objects of one type, and the path parameters and 404s of its routes."""

    noun: str
    """With its article."""
    word: str
    """In operation ids."""
    shape: str
    """The first part of component names."""
    parameters: list[OpenApiParameter]
    missing: str | None
    """Error types of the 404."""

    def errors(self, *bad: str, missing: str | None = None) -> dict[int, str]:
        """Return error texts by status: those of the object's path, and those of an operation itself."""
        texts = {
            400: ", ".join(each for each in bad if each),
            404: ", ".join(each for each in (self.missing, missing) if each),
        }
        return {status: text for status, text in texts.items() if text}


def _in_warehouse(securable_type: Securable.Type, shape: str) -> ObjectType:
    noun, word = securable_type.value.replace("-", " "), securable_type.value.replace("-", "_")
    parameters = [WAREHOUSE_ID, path_parameter(f"{word}_id", f"The {noun}'s id")]
    return ObjectType(f"a {noun}", word, shape, parameters, f"{MISSING_OBJECTS[securable_type]}, {NO_WAREHOUSE}")


OBJECT_TYPES: Final[Mapping[Securable.Type, ObjectType]] = {
    T.SERVER: ObjectType("the server", "server", "Server", [], None),
    T.PROJECT: ObjectType("a project", "project", "Project", [], NO_PROJECT),
    T.WAREHOUSE: ObjectType("a warehouse", "warehouse", "Warehouse", [WAREHOUSE_ID], NO_WAREHOUSE),
    T.NAMESPACE: _in_warehouse(T.NAMESPACE, "Namespace"),
    T.TABLE: _in_warehouse(T.TABLE, "Table"),
    T.VIEW: _in_warehouse(T.VIEW, "View"),
    T.GENERIC_TABLE: _in_warehouse(T.GENERIC_TABLE, "GenericTable"),
    T.TAG: ObjectType("a tag definition", "tag", "Tag", [TAG_ID], "`TagDefinitionIdNotFound`"),
    T.ROLE: ObjectType("a role", "role", "Role", [ROLE_ID], NO_ROLE),
    T.USER: ObjectType("a user", "user", "User", [USER_ID], NO_USER),
}

PERMISSION_OBJECT_TYPES: Final[Mapping[Securable.Type, ObjectType]] = {
    **{each: OBJECT_TYPES[each] for each in (T.SERVER, T.WAREHOUSE, T.TABLE, T.VIEW, T.GENERIC_TABLE, T.TAG)},
    T.PROJECT: replace(OBJECT_TYPES[T.PROJECT], parameters=[PROJECT_HEADER]),
    T.NAMESPACE: replace(
        OBJECT_TYPES[T.NAMESPACE],
        parameters=[path_parameter("namespace_id", "The namespace's id")],
        missing=NO_NAMESPACE,
    ),
    T.ROLE: replace(OBJECT_TYPES[T.ROLE], missing="`RoleIdNotFound`"),
}
"""For the routes below `permissions`, which find objects of any project and namespaces by id alone."""
PROJECT_BY_ID: Final = replace(OBJECT_TYPES[T.PROJECT], parameters=[PROJECT_ID])


def operation(
    operation_id: str,
    summary: str,
    *,
    tag: str,
    success: dict[Any, Any],
    errors: dict[int, str] | None = None,
    **more: Any,
) -> Operation:
    """Describe an operation: the shape of each `success`, and its own `errors`, as `operation_responses` takes them.

    `more` are further arguments of `extend_schema`.
    """
    responses = operation_responses(success, errors)
    return extend_schema(operation_id=operation_id, tags=[tag], summary=summary, responses=responses, **more)


def describe(**operations: Operation) -> Callable[[type[V]], type[V]]:
    """Attach the `extend_schema` of each action to the method of that name."""

    def decorate(view: type[V]) -> type[V]:
        for action, described in operations.items():
            described(view.__dict__[action])
        return view

    return decorate


class OperationsByType:
    """The `schema` of a ViewSet with routes for several types of objects: `describe` returns, for a type, the
    `extend_schema` of each action. `attribute` is that of the view in which each route has its type."""

    def __init__(self, describe: Callable[[Any], Mapping[str, Operation]], attribute: str = "securable_type") -> None:
        self._describe, self._attribute = describe, attribute

    def __get__(self, view: Any, owner: type) -> OperationsByType | AutoSchema:
        if view is None:
            return self

        def action() -> None: ...

        self._describe(getattr(view, self._attribute))[view.action](action)
        schema: AutoSchema = action.kwargs["schema"]()  # type: ignore[attr-defined]  # set by extend_schema
        schema.view = view
        return schema
