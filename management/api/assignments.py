"""Assignments: the direct grants on an object; each type of object has its own routes."""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import Page, listing_key
from icekeeper.kernel.http.serializers import KebabSerializer, Text, empty_response, operation_responses
from management.api.base import paged
from management.api.permission_places import DESCRIBED, PROJECT_BY_ID, TAGS, PermissionView
from management.api.principals import read_grantee, seen_json
from management.api.schema import BAD_PAGE, BAD_USER_ID, EXTENSIONS_HEADER, PAGE, PROJECT_ERRORS, ObjectType
from management.api.serializers import IdText
from management.api.users.serializers import SEEN
from tenancy.authz.privileges import privileges_on
from tenancy.models import Securable
from tenancy.selectors.grants import GrantFilter, HeldGrant, list_grants_for
from tenancy.services.grants import MAX_CHANGES, GrantSpec, assign, build_difference

T = Securable.Type
_BAD_CHANGE: Final = (
    "`GrantDiffTooLarge`, `DuplicateGrantEntry`, `ContradictoryGrantDiff`, `GrantUserNotFound`, "
    "`GrantRoleNotInProject`, `GrantExpired`"
)
_CONFLICTS: Final = (
    "`TupleAlreadyExistsError`: a privilege is already granted; `LastAdministrator`: the object would lose its "
    "last administrator; "
    "`GrantLockTimeout`"
)
_OF_ROLES: Final = (
    "`SelfAssignment`, `RoleAssignmentUserNotFound`",
    "`RoleMembershipCycle`, `RoleMembershipDepthExceeded`, `RoleMembershipLockTimeout`",
)


class AssignmentShape(KebabSerializer):
    user = Text(required=False, help_text="`<provider>~<subject>`; either a user or a role")
    role = IdText(required=False, help_text="The role's id: the privilege is granted to all its members")
    expires_at = serializers.DateTimeField(
        required=False, help_text="The expiry, absent when there is none; not needed in `deletes`"
    )


def _shapes(kind: Securable.Type) -> tuple[type[KebabSerializer], type[KebabSerializer]]:
    """Of a change and of a list of assignments on objects of a type."""
    names = [each.name for each in privileges_on(kind)]
    shape = DESCRIBED[kind].shape
    entry: Any = type(f"{shape}Assignment", (AssignmentShape,), {"type": serializers.ChoiceField(names)})
    seen = serializers.BooleanField(required=False, help_text=f"Of users. {SEEN}")
    listed: Any = type(f"Listed{shape}Assignment", (entry,), {"seen": seen})
    change = type(
        f"Update{shape}AssignmentsRequest",
        (KebabSerializer,),
        {
            "writes": entry(many=True, required=False, help_text="To grant; none may exist yet"),
            "deletes": entry(many=True, required=False, help_text="To revoke; each must exist"),
        },
    )
    members = {
        "assignments": listed(many=True, help_text="In order of creation"),
        "next_page_token": Text(required=False, help_text="Absent on the last page"),
    }
    if kind is T.PROJECT:
        members["project_id"] = Text()
    return change, type(f"{shape}AssignmentsResponse", (KebabSerializer,), members)


_SHAPES: Final = {kind: _shapes(kind) for kind in DESCRIBED}


class AssignmentsView(PermissionView):
    def get(self, request: Request, **names: str) -> Response:
        relations, page, wants_extensions = self._relations(), self._page(), self.wants_extensions()
        target = self.target()
        found, token = list_grants_for(
            actor=self.actor, ref=target.ref, missing=target.missing, wanted=GrantFilter(relations), page=page
        )
        seen = seen_json([each.grantee for each in found], wants_extensions=wants_extensions)
        entries = [assignment_json(each) | extension for each, extension in zip(found, seen, strict=True)]
        body = paged("assignments", entries, token)
        return Response(body | ({"project-id": target.ref.id} if self.kind is T.PROJECT else {}))

    def post(self, request: Request, **names: str) -> Response:
        change, _ = _SHAPES[self.kind]
        body = self.body(change)
        difference = build_difference(
            writes=[_spec(each, f"writes[{index}]") for index, each in enumerate(body.get("writes", []))],
            deletes=[_spec(each, f"deletes[{index}]") for index, each in enumerate(body.get("deletes", []))],
        )
        target = self.target()
        assign(actor=self.actor, ref=target.ref, difference=difference, missing=target.missing)
        return Response(status=204)

    def _relations(self) -> list[str] | None:
        """None without any."""
        given = {*self.request.GET.getlist("relations"), *self.request.GET.getlist("relations[]")}
        unknown = sorted(given - {each.name for each in privileges_on(self.kind)})
        if unknown:
            raise BadRequest(f"relations: {unknown[0][:100]!r} cannot be granted on a {self.kind.value}")
        return sorted(given) or None

    def _page(self) -> Page:
        """Return everything unless the request has a page: Lakekeeper's clients know none."""
        kind = listing_key("assignments", self.kind, sorted(self.kwargs.items()), self._relations())
        is_asked_for = "pageToken" in self.request.GET or "pageSize" in self.request.GET
        return self.page(kind) if is_asked_for else Page(kind, None, None)


def assignment_json(held: HeldGrant) -> dict[str, Any]:
    grantee = held.grantee
    to = {"user": grantee.user_id} if grantee.role_id is None else {"role": str(grantee.role_id)}
    until = {} if held.expires_at is None else {"expires-at": held.expires_at}
    return {"type": held.privilege, **to, **until}


def _spec(entry: dict[str, Any], where: str) -> GrantSpec:
    return GrantSpec(entry["type"], read_grantee(entry, where), entry.get("expires_at"))


def _assignments_view(
    kind: Securable.Type, told: ObjectType, *, suffix: str = "", deprecated: bool = False
) -> type[AssignmentsView]:
    """Return the view of a type of object with its OpenAPI descriptions."""
    change, answer = _SHAPES[kind]
    bad_place = PROJECT_ERRORS[400] if kind is T.PROJECT else ""
    of_roles = _OF_ROLES if kind is T.ROLE else ("", "")
    bad = [each for each in (bad_place, _BAD_CHANGE, BAD_USER_ID, of_roles[0]) if each]
    relations = OpenApiParameter(
        "relations",
        {"type": "array", "items": {"type": "string", "enum": [each.name for each in privileges_on(kind)]}},
        description="Only these; may be repeated",
    )
    pages = "All are returned at once unless the request has `pageToken` (empty for the first page) or `pageSize`."
    described = extend_schema_view(
        get=extend_schema(
            operation_id=f"get_{told.word}_assignments{suffix}",
            tags=TAGS,
            summary=f"List direct assignments on {told.noun}",
            description=f"Inherited and expired assignments are not included. {pages}",
            deprecated=deprecated,
            parameters=[*told.parameters, relations, *PAGE, EXTENSIONS_HEADER],
            responses=operation_responses(
                {200: answer},
                told.errors(*(each for each in (bad_place, BAD_PAGE) if each)),
            ),
        ),
        post=extend_schema(
            operation_id=f"update_{told.word}_assignments{suffix}",
            tags=TAGS,
            summary=f"Update direct assignments on {told.noun}",
            description=f"All changes are applied, or none; at most {MAX_CHANGES} at once. The caller needs the "
            f"permission to grant each privilege.",
            deprecated=deprecated,
            parameters=told.parameters,
            request=change,
            responses=operation_responses(
                empty_response("Updated"),
                {
                    **told.errors(*bad, missing="`TupleNotFoundError`: a privilege to revoke is not granted"),
                    403: "`GrantActionForbidden`",
                    409: "; ".join(each for each in (_CONFLICTS, of_roles[1]) if each),
                },
            ),
        ),
    )
    made: type[AssignmentsView] = type(f"{told.shape}AssignmentsView", (AssignmentsView,), {"kind": kind})
    return described(made)


ASSIGNMENTS_VIEWS: Final = {kind: _assignments_view(kind, told) for kind, told in DESCRIBED.items()}
PROJECT_BY_ID_ASSIGNMENTS_VIEW: Final = _assignments_view(
    T.PROJECT, PROJECT_BY_ID, suffix="_by_id_deprecated", deprecated=True
)
