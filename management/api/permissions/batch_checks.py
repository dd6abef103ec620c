"""Reading of the requests of batch checks.

They are parsed without serializers, which would cost more than the evaluation, and a malformed check does not fail the
others.
"""

from __future__ import annotations

from typing import Any, Final

from catalog.identifiers import Levels
from catalog.objects import TABULARS, ObjectKey
from icekeeper.kernel.errors.types import BadRequest, CatalogError
from management.api.permissions.action_contexts import read_action
from management.api.permissions.serializers import MAX_CHECKS, TABULAR_IDS, TABULAR_NAMES
from management.api.serializers import read_grantee, read_uuid
from tenancy.actor import Grantee
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.permission_checks import THE_SERVER, ActionCheck
from tenancy.selectors.projects import ProjectIdMissing, require_project_id

_TYPES: Final = {
    each.value: each
    for each in (
        Securable.Type.SERVER,
        Securable.Type.PROJECT,
        Securable.Type.WAREHOUSE,
        Securable.Type.NAMESPACE,
        *TABULARS,
    )
}


class TooManyChecks(BadRequest):
    wire_type = "TooManyChecks"


class AmbiguousCheckId(BadRequest):
    """The result of a check without an id has the index for its id, and another check has that id."""

    wire_type = "AmbiguousCheckId"


def read_items(body: Any) -> list[Any]:
    """Return the unparsed checks. Raises `TooManyChecks`, `BadRequest`."""
    checks = body.get("checks")
    if not isinstance(checks, list):
        raise BadRequest("checks: must be a list")
    if len(checks) > MAX_CHECKS:
        raise TooManyChecks(f"checks: {len(checks)} checks; the maximum is {MAX_CHECKS}")
    return checks


def read_must_exist(body: Any) -> bool:
    given = body.get("error-on-not-found", False)
    if not isinstance(given, bool):
        raise BadRequest("error-on-not-found: must be true or false")
    return given


def read_ids(items: list[Any]) -> list[str]:
    """Return the id of each result: that of its check, else the index. Two checks may have the same id.

    Raises `AmbiguousCheckId`.
    """
    ids = [item.get("id") if isinstance(item, dict) else None for item in items]
    given = {each for each in ids if isinstance(each, str)}
    found = []
    for index, each in enumerate(ids):
        if not isinstance(each, str) and str(index) in given:
            raise AmbiguousCheckId(f"id: {str(index)!r} is also the index, from 0, of a check without an id")
        found.append(each if isinstance(each, str) else str(index))
    return found


def read_batch_check(item: Any, own_project: str | None) -> ActionCheck | CatalogError:
    """Read one check, of the project `own_project` if it names none. An error is returned."""
    try:
        return _check(item, own_project)
    except BadRequest as error:
        return error


def _check(item: Any, own_project: str | None) -> ActionCheck:
    if not isinstance(item, dict):
        raise BadRequest("A check must be an object")
    if not isinstance(item.get("id"), str | None):
        raise BadRequest("id: must be a string")
    identity = item.get("identity")
    grantee = None if identity is None else _grantee(identity)
    operation = item.get("operation")
    if not isinstance(operation, dict) or len(operation) != 1:
        raise BadRequest(f"operation: must be an object with one of {', '.join(_TYPES)}")
    ((name, given),) = operation.items()
    securable_type = _TYPES.get(name)
    if securable_type is None:
        raise BadRequest(f"operation: {name[:100]!r} is none of {', '.join(_TYPES)}")
    if not isinstance(given, dict):
        raise BadRequest(f"operation.{name}: must be an object")
    action = read_action(given.get("action"), securable_type)
    if securable_type is Securable.Type.SERVER:
        return ActionCheck(action, THE_SERVER, grantee)
    if securable_type is Securable.Type.PROJECT:
        return ActionCheck(action, _project(given, own_project), grantee)
    return ActionCheck(action, _object_key(given, securable_type), grantee)


def _grantee(identity: Any) -> Grantee:
    if not isinstance(identity, dict) or not identity.keys() <= {"user", "role"}:
        raise BadRequest("identity: must be an object with either user or role")
    if not all(isinstance(each, str | None) for each in identity.values()):
        raise BadRequest("identity: ids are strings")
    return read_grantee(identity, "identity")


def _project(given: dict[str, Any], own_project: str | None) -> ObjectRef:
    project_id = given.get("project-id")
    if not isinstance(project_id, str | None):
        raise BadRequest("project-id: must be a string")
    if project_id is None and own_project is None:
        raise ProjectIdMissing("project-id: required, as there is no default project")
    return ObjectRef(Securable.Type.PROJECT, own_project if project_id is None else require_project_id(project_id))


def _object_key(given: dict[str, Any], securable_type: Securable.Type) -> ObjectKey:
    warehouse_id = read_uuid(given.get("warehouse-id"), "warehouse-id")
    if securable_type is Securable.Type.WAREHOUSE:
        return ObjectKey(securable_type, warehouse_id)
    is_namespace = securable_type is Securable.Type.NAMESPACE
    object_id = _one_of(given, ("namespace-id",) if is_namespace else TABULAR_IDS)
    if object_id is not None:
        return ObjectKey(securable_type, warehouse_id, read_uuid(*object_id))
    levels = _levels(given.get("namespace"))
    if is_namespace:
        return ObjectKey(securable_type, warehouse_id, None, levels)
    name = _one_of(given, TABULAR_NAMES)
    if name is None or not isinstance(name[0], str) or not name[0]:
        raise BadRequest(f"operation: the id or the name of the {securable_type.value} is required")
    return ObjectKey(securable_type, warehouse_id, None, levels, name[0])


def _one_of(given: dict[str, Any], names: tuple[str, ...]) -> tuple[Any, str] | None:
    """Return the value of the only member with one of these names, and that name. Raises `BadRequest` for several."""
    found = [name for name in names if name in given]
    if len(found) > 1:
        raise BadRequest(f"operation: only one of {' and '.join(found)} is allowed")
    return (given[found[0]], found[0]) if found else None


def _levels(value: Any) -> Levels:
    if not isinstance(value, list) or not value or not all(isinstance(level, str) for level in value):
        raise BadRequest("namespace: must be a list of at least one name")
    return tuple(value)
