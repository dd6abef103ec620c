"""Check many permissions in one request, as gateways and policy engines do.

A malformed check is denied by itself; the others are answered. Checks are parsed without serializers, which would cost
more than the decision.
"""

from __future__ import annotations

from typing import Any, Final, cast
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.identifiers import Levels
from catalog.objects.object_keys import TABULARS, ObjectKey, resolve_objects
from icekeeper.kernel.errors.types import BadRequest, CatalogError
from icekeeper.kernel.http.serializers import operation_responses
from icekeeper.kernel.ids import parse_id
from management.api.action_check_shapes import MOST_CHECKS, ActionsBatchCheckRequest, ActionsBatchCheckResponse
from management.api.action_contexts import read_action
from management.api.base import ManagementView
from management.api.principals import read_grantee
from management.api.schema import EXTENSIONS_HEADER, MISSING_OBJECTS, NO_WAREHOUSE, PROJECT_HEADER
from tenancy.actor import Grantee
from tenancy.models import Securable
from tenancy.refs import ObjectRef
from tenancy.selectors.permission_checks import THE_SERVER, ActionCheck, Verdict, check_actions_for
from tenancy.selectors.projects import ProjectIdMissing, named_project_id, requested_project_id, require_project_id

TAGS = ["authorization"]

_IN_WAREHOUSES: Final = (Securable.Type.NAMESPACE, *TABULARS)
_TYPES: Final = {
    each.value: each
    for each in (Securable.Type.SERVER, Securable.Type.PROJECT, Securable.Type.WAREHOUSE, *_IN_WAREHOUSES)
}
_TABULAR_IDS: Final = ("table-id", "view-id", "generic-table-id", "table_id", "view_id", "generic_table_id")
_TABULAR_NAMES: Final = ("table", "view", "generic-table", "generic_table")


class TooManyChecks(BadRequest):
    wire_type = "TooManyChecks"


class AmbiguousCheckId(BadRequest):
    """A check without an id is called by its place, and another has that for its id: who looks answers up by their ids
    would take the one for the other."""

    wire_type = "AmbiguousCheckId"


class BatchCheckView(ManagementView):
    posts_read = True

    @extend_schema(
        operation_id="batch_check_actions",
        tags=TAGS,
        summary="Check up to 1,000 permissions",
        description="To check the permissions of others, the caller must be allowed to read the grants on the "
        "object. A check for which that is not so is denied, and so is one that is malformed: with "
        "`x-icekeeper-extensions: true` such a check has an `error`. Unknown objects, and objects that are hidden from "
        "the caller, are denied.",
        parameters=[PROJECT_HEADER, EXTENSIONS_HEADER],
        request=ActionsBatchCheckRequest,
        responses=operation_responses(
            {200: ActionsBatchCheckResponse},
            {
                400: "`TooManyChecks`, `AmbiguousCheckId`, `MalformedProjectID`",
                404: f"With `error-on-not-found`: `ProjectNotFound`, {NO_WAREHOUSE}, "
                f"{', '.join(MISSING_OBJECTS.values())}",
            },
        ),
    )
    def post(self, request: Request) -> Response:
        body, wants_extensions = cast("dict[str, Any]", request.data), self.wants_extensions()
        items, must_exist = _items(body), _must_exist(body)
        ids = _ids(items)
        own_project = requested_project_id(named_project_id(request.META))
        read = [_read(item, own_project) for item in items]
        checks = [each for each in read if isinstance(each, ActionCheck)]
        found = iter(check_actions_for(actor=self.actor, checks=checks, must_exist=must_exist, resolve=resolve_objects))
        verdicts = [
            next(found) if isinstance(each, ActionCheck) else Verdict(is_allowed=False, error=each) for each in read
        ]
        results = [_json(*each, with_error=wants_extensions) for each in zip(ids, verdicts, strict=True)]
        return Response({"results": results})


def _items(body: dict[str, Any]) -> list[Any]:
    checks = body.get("checks")
    if not isinstance(checks, list):
        raise BadRequest("checks: must be a list")
    if len(checks) > MOST_CHECKS:
        raise TooManyChecks(f"checks: {len(checks)} are more than {MOST_CHECKS}")
    return checks


def _must_exist(body: dict[str, Any]) -> bool:
    given = body.get("error-on-not-found", False)
    if not isinstance(given, bool):
        raise BadRequest("error-on-not-found: must be true or false")
    return given


def _ids(items: list[Any]) -> list[str]:
    """What the answer to each check is called: its id, else its place. Two may have the same id if they say so
    themselves. Raises `AmbiguousCheckId`."""
    own = [item.get("id") if isinstance(item, dict) else None for item in items]
    given = {each for each in own if isinstance(each, str)}
    found = []
    for place, each in enumerate(own):
        if not isinstance(each, str) and str(place) in given:
            raise AmbiguousCheckId(f"id: {str(place)!r} is also the place of a check that has no id, counted from 0")
        found.append(each if isinstance(each, str) else str(place))
    return found


def _json(check_id: str, verdict: Verdict, *, with_error: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"id": check_id, "allowed": verdict.is_allowed}
    error = verdict.error
    if error is not None and with_error:
        result["error"] = {"message": error.message, "type": error.wire_type, "code": error.status}
    return result


def _read(item: Any, own_project: str | None) -> ActionCheck | CatalogError:
    """One check, or what is wrong with it."""
    try:
        return _check(item, own_project)
    except BadRequest as error:
        return error


def _check(item: Any, own_project: str | None) -> ActionCheck:
    if not isinstance(item, dict):
        raise BadRequest("A check must be an object")
    if not isinstance(item.get("id"), str | None):
        raise BadRequest("id: must be a string")
    named = item.get("identity")
    identity = None if named is None else _identity(named)
    operation = item.get("operation")
    if not isinstance(operation, dict) or len(operation) != 1:
        raise BadRequest(f"operation: must be an object with one of {', '.join(_TYPES)}")
    ((name, asked),) = operation.items()
    securable_type = _TYPES.get(name)
    if securable_type is None:
        raise BadRequest(f"operation: {name[:100]!r} is none of {', '.join(_TYPES)}")
    if not isinstance(asked, dict):
        raise BadRequest(f"operation.{name}: must be an object")
    action = read_action(asked.get("action"), securable_type)
    if securable_type is Securable.Type.SERVER:
        return ActionCheck(action, THE_SERVER, identity)
    if securable_type is Securable.Type.PROJECT:
        return ActionCheck(action, _project(asked, own_project), identity)
    return ActionCheck(action, _object_key(asked, securable_type), identity)


def _identity(named: Any) -> Grantee:
    if not isinstance(named, dict) or not named.keys() <= {"user", "role"}:
        raise BadRequest("identity: must be an object with either user or role")
    if not all(isinstance(each, str | None) for each in named.values()):
        raise BadRequest("identity: an id is a string")
    return read_grantee(named, "identity")


def _project(asked: dict[str, Any], own_project: str | None) -> ObjectRef:
    given = asked.get("project-id")
    if not isinstance(given, str | None):
        raise BadRequest("project-id: must be a string")
    if given is None and own_project is None:
        raise ProjectIdMissing("project-id: is missing, and there is no default project")
    return ObjectRef(Securable.Type.PROJECT, own_project if given is None else require_project_id(given))


def _object_key(asked: dict[str, Any], securable_type: Securable.Type) -> ObjectKey:
    warehouse_id = _uuid(asked.get("warehouse-id"), "warehouse-id")
    if securable_type is Securable.Type.WAREHOUSE:
        return ObjectKey(securable_type, warehouse_id)
    is_namespace = securable_type is Securable.Type.NAMESPACE
    own_id = _one_of(asked, ("namespace-id",) if is_namespace else _TABULAR_IDS)
    if own_id is not None:
        return ObjectKey(securable_type, warehouse_id, _uuid(*own_id))
    levels = _levels(asked.get("namespace"))
    if is_namespace:
        return ObjectKey(securable_type, warehouse_id, None, levels)
    name = _one_of(asked, _TABULAR_NAMES)
    if name is None or not isinstance(name[0], str) or not name[0]:
        raise BadRequest(f"operation: what {securable_type.value} is meant must be said by its id or its name")
    return ObjectKey(securable_type, warehouse_id, None, levels, name[0])


def _one_of(asked: dict[str, Any], spellings: tuple[str, ...]) -> tuple[Any, str] | None:
    """The value of the one member that is there, and how that is spelled. Raises `BadRequest` for several."""
    given = [name for name in spellings if name in asked]
    if len(given) > 1:
        raise BadRequest(f"operation: {' and '.join(given)} mean the same")
    return (asked[given[0]], given[0]) if given else None


def _uuid(value: Any, where: str) -> UUID:
    parsed = parse_id(value) if isinstance(value, str) else None
    if parsed is None:
        raise BadRequest(f"{where}: must be a UUID")
    return parsed


def _levels(value: Any) -> Levels:
    if not isinstance(value, list) or not value or not all(isinstance(level, str) for level in value):
        raise BadRequest("namespace: must be a list of at least one name")
    return tuple(value)
