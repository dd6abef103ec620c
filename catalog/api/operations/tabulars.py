"""What the OpenAPI documents say of tables, views and generic tables alike.

Each function makes the decorator of an operation, from the words of the kind and what else is the kind's own: the id,
bodies, refusals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.serializers import Serializer

from catalog.api.operations.parameters import IDEMPOTENCY_KEY, IN_NAMESPACE, IN_WAREHOUSE, PAGE, REFERENCED_BY
from catalog.api.operations.refusals import (
    BAD_LOCATION,
    BAD_PAGE,
    NO_NAMESPACE,
    PROTECTED,
    STORE_FAILED,
    STORE_REFUSED,
    TOO_LARGE,
    TOO_MANY_VIEWS,
    UNKNOWN_STATE,
    answers_below_prefix,
)
from catalog.api.shapes.table_access import LoadCredentialsResponse
from catalog.api.shapes.tabulars import RenameTableRequest
from icekeeper.kernel.http.serializers import empty_response

F = TypeVar("F", bound=Callable[..., Any])
Shape: TypeAlias = type[Serializer[Any]]

_FORCE = OpenApiParameter(
    "force",
    OpenApiTypes.BOOL,
    default=False,
    description="Also when it is protected; and for good, also in a soft-delete warehouse",
)


class Decorator(Protocol):
    """Of a view's method, which at run time is what it was."""

    def __call__(self, method: F, /) -> F: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """The words of one kind of tabular: its name, its tags, its path, why there is none (404), why its name is not free
    (409), and what else is refused to who writes one, by status."""

    noun: str
    tags: list[str]
    path: list[OpenApiParameter]
    missing: str
    taken: str
    guards: dict[int, str] = field(default_factory=dict)


def listing(operation_id: str, kind: Kind, response: Shape, *, extras: list[OpenApiParameter]) -> Decorator:
    return extend_schema(
        operation_id=operation_id,
        tags=kind.tags,
        summary=f"The {kind.noun}s of a namespace",
        parameters=[*IN_NAMESPACE, *PAGE, *extras],
        responses=answers_below_prefix({200: response}, {400: BAD_PAGE, 404: NO_NAMESPACE}),
    )


def creation(
    operation_id: str, kind: Kind, request: Shape, response: Shape, *, summary: str, refusals: dict[int, str]
) -> Decorator:
    """`refusals` are those that depend on what is created."""
    return extend_schema(
        operation_id=operation_id,
        tags=kind.tags,
        summary=summary,
        parameters=[*IN_NAMESPACE, IDEMPOTENCY_KEY],
        request=request,
        responses=answers_below_prefix(
            {200: response},
            {
                404: NO_NAMESPACE,
                412: STORE_REFUSED,
                409: f"{kind.taken}; `LocationAlreadyTaken`",
                413: TOO_LARGE,
                **kind.guards,
                **refusals,
            },
        ),
    )


def registration(operation_id: str, kind: Kind, request: Shape, response: Shape, *, conflicts: str) -> Decorator:
    return extend_schema(
        operation_id=operation_id,
        tags=kind.tags,
        summary=f"Make a {kind.noun} of a metadata file that lies in the warehouse already",
        parameters=[*IN_NAMESPACE, IDEMPOTENCY_KEY],
        request=request,
        responses=answers_below_prefix(
            {200: response},
            {
                400: BAD_LOCATION,
                404: f"{NO_NAMESPACE}, `NotFoundException`: no such file",
                412: STORE_REFUSED,
                409: conflicts,
                413: TOO_LARGE,
                **kind.guards,
                503: STORE_FAILED,
            },
        ),
    )


def existence(operation_id: str, kind: Kind) -> Decorator:
    return extend_schema(
        operation_id=operation_id,
        tags=kind.tags,
        summary=f"Whether a {kind.noun} exists",
        parameters=kind.path,
        responses=answers_below_prefix(empty_response("It exists"), {404: "It does not exist"}, has_body=False),
    )


def commit(
    operation_id: str, kind: Kind, request: Shape, response: Shape, *, illegal: str, conflicts: str
) -> Decorator:
    """`illegal` is why it is never accepted (400), `conflicts` why not now (409)."""
    return extend_schema(
        operation_id=operation_id,
        tags=kind.tags,
        summary=f"Commit to a {kind.noun}: apply updates if all requirements hold",
        description="All or nothing, judged on the newest version. The new version is durable when the answer is sent.",
        parameters=[*kind.path, IDEMPOTENCY_KEY],
        request=request,
        responses=answers_below_prefix(
            {200: response},
            {
                400: illegal,
                404: kind.missing,
                412: STORE_REFUSED,
                409: conflicts,
                413: TOO_LARGE,
                **kind.guards,
                503: STORE_FAILED,
                500: UNKNOWN_STATE,
            },
        ),
    )


def drop(operation_id: str, kind: Kind, *, summary: str, purges_unless_told: bool) -> Decorator:
    purge_requested = OpenApiParameter(
        "purgeRequested",
        OpenApiTypes.BOOL,
        default=purges_unless_told,
        description="Also delete its files, by a task that is queued",
    )
    return extend_schema(
        operation_id=operation_id,
        tags=kind.tags,
        summary=summary,
        parameters=[*kind.path, purge_requested, _FORCE, IDEMPOTENCY_KEY],
        responses=answers_below_prefix(empty_response("Dropped"), {404: kind.missing, 409: PROTECTED}),
    )


def rename(operation_id: str, kind: Kind) -> Decorator:
    return extend_schema(
        operation_id=operation_id,
        tags=kind.tags,
        summary=f"Give a {kind.noun} another name; its files stay where they are",
        parameters=[*IN_WAREHOUSE, IDEMPOTENCY_KEY],
        request=RenameTableRequest,
        responses=answers_below_prefix(
            empty_response("Renamed"),
            {404: f"{kind.missing}, `NoSuchNamespaceException`: the destination's", 409: kind.taken, 413: TOO_LARGE},
        ),
    )


def credentials(operation_id: str, kind: Kind) -> Decorator:
    return extend_schema(
        operation_id=operation_id,
        tags=kind.tags,
        summary=f"Credentials for a {kind.noun}'s files",
        parameters=[*kind.path, REFERENCED_BY],
        responses=answers_below_prefix({200: LoadCredentialsResponse}, {400: TOO_MANY_VIEWS, 404: kind.missing}),
    )
