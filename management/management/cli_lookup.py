"""Resolve the names and ids that operators pass to commands. Nothing is hidden from operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from django.db.models import Q

from catalog.objects import ObjectKey, resolve_object_key
from events.models import EventSink
from events.selectors.sinks import sink_not_found
from icekeeper.kernel.errors.types import BadRequest, NotFound
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.names import name_key
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Grantee, require_user_id
from tenancy.models import Project, Role, Securable, TagDefinition
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project, get_server, no_such_project
from tenancy.selectors.roles import role_id_not_found
from tenancy.selectors.tags import tag_id_not_found

T = Securable.Type
USAGE: Final = {
    T.SERVER: "nothing more",
    T.PROJECT: "[PROJECT]",
    T.WAREHOUSE: "WAREHOUSE",
    T.NAMESPACE: "WAREHOUSE LEVEL [LEVEL ...], or WAREHOUSE ID",
    T.TABLE: "WAREHOUSE LEVEL [LEVEL ...] NAME, or WAREHOUSE ID",
    T.VIEW: "WAREHOUSE LEVEL [LEVEL ...] NAME, or WAREHOUSE ID",
    T.GENERIC_TABLE: "WAREHOUSE LEVEL [LEVEL ...] NAME, or WAREHOUSE ID",
    T.ROLE: "ROLE",
    T.TAG: "TAG",
}
"""The arguments that name an object, by its type."""

_MIN_ARGUMENTS: Final = {T.SERVER: 0, T.PROJECT: 0, T.WAREHOUSE: 1, T.ROLE: 1, T.TAG: 1}
_MAX_ARGUMENTS: Final = {T.SERVER: 0, T.PROJECT: 1, T.WAREHOUSE: 1, T.ROLE: 1, T.TAG: 1}


def resolve_project(text: str | None) -> Project:
    """Find a project by id, else by name; None: the default project. Raises what `get_project` raises."""
    if text is None:
        return get_project(None)
    _require_text(text)
    by_id = Project.objects.filter(pk=text).first()
    found = by_id or Project.objects.filter(name_key=name_key(text)).first()
    if found is None:
        raise no_such_project(text[:200])
    return found


def resolve_principal(project: Project, text: str) -> Grantee:
    """Find a user by `<provider>~<subject>`, else a role by id, which need not exist, or by name in the project.

    Raises `NotFound`, and what `require_user_id` raises.
    """
    _require_text(text)
    if "~" in text:  # always a user, even if a role has this name
        return Grantee(user_id=require_user_id(text))
    return Grantee(role_id=_find_role_id(project, text))


def describe_grantee(grantee: Grantee) -> str:
    """Return the id of the user, or the name of the role."""
    if grantee.user_id is not None:
        return grantee.user_id
    name = Role.objects.filter(pk=str(grantee.role_id)).values_list("name", flat=True).first()
    return str(grantee) if name is None else f"role {name}"


def resolve_warehouse(project: Project, text: str) -> Warehouse:
    """Find a warehouse by id in any project, else by name in the project. Raises `BadRequest`, `NotFound`."""
    _require_text(text)
    own_id = parse_id(text)
    by_id = None if own_id is None else Warehouse.objects.filter(pk=own_id).first()
    found = by_id or Warehouse.objects.filter(project=project, name_key=name_key(text)).first()
    if found is None:
        raise no_such_warehouse(text) if own_id is not None else _not_found("Warehouse", text, project)
    return found


def resolve_event_sink(text: str) -> EventSink:
    """Find an event sink by name, else by id. Raises `BadRequest`, `SinkNotFound`."""
    _require_text(text)
    own_id = parse_id(text)
    found = EventSink.objects.filter(name=text).first()
    if found is None and own_id is not None:
        found = EventSink.objects.filter(pk=own_id).first()
    if found is None:
        raise sink_not_found(text[:200])
    return found


def resolve_object(project: Project, kind: Securable.Type, arguments: Sequence[str]) -> ObjectRef:
    """Find the object that arguments in the form of `USAGE` name; names in the project, ids in every project.

    Raises `BadRequest` for a wrong number of arguments, and the 404 error of the type.
    """
    if not _MIN_ARGUMENTS.get(kind, 2) <= len(arguments) <= _MAX_ARGUMENTS.get(kind, len(arguments)):
        raise BadRequest(f"{kind.value} takes {USAGE[kind]}")
    for argument in arguments:
        _require_text(argument)
    if kind is T.SERVER:
        return ObjectRef(kind, get_server().server_id)
    if kind is T.PROJECT:
        return ObjectRef(kind, resolve_project(arguments[0]).pk if arguments else project.pk)
    if kind is T.ROLE:
        return ObjectRef(kind, _require_role(_find_role_id(project, arguments[0])))
    if kind is T.TAG:
        return ObjectRef(kind, _find_tag_id(project, arguments[0]))
    warehouse = resolve_warehouse(project, arguments[0])
    if kind is T.WAREHOUSE:
        return ObjectRef(kind, warehouse.pk)
    return _find_inside(warehouse, kind, arguments[1:])


def _find_role_id(project: Project, text: str) -> UUID:
    """Find a role by id, which need not exist, else by name in the project. Raises `NotFound`."""
    own_id = parse_id(text)
    if own_id is None:
        own_id = Role.objects.filter(project=project, name_key=name_key(text)).values_list("pk", flat=True).first()
    if own_id is None:
        raise _not_found("Role", text, project)
    return own_id


def _require_role(role_id: UUID) -> UUID:
    """Raises `RoleIdNotFound` (404)."""
    if not Role.objects.filter(pk=role_id).exists():
        raise role_id_not_found(role_id)
    return role_id


def _find_tag_id(project: Project, text: str) -> UUID:
    """Find a tag by id in any project, else by name in the project. Raises `NotFound`, `TagDefinitionIdNotFound`."""
    own_id = parse_id(text)
    named = Q(pk=own_id) if own_id is not None else Q(project=project, name_key=name_key(text))
    found = TagDefinition.objects.filter(named).values_list("pk", flat=True).first()
    if found is None:
        raise _not_found("Tag", text, project) if own_id is None else tag_id_not_found(own_id, None)
    return found


def _not_found(noun: str, text: str, project: Project) -> NotFound:
    return NotFound(
        f"{noun} does not exist in project {project.pk}: {text[:200]}. Use `--project-id` for another project"
    )


def _find_inside(warehouse: Warehouse, kind: Securable.Type, arguments: Sequence[str]) -> ObjectRef:
    is_namespace = kind is T.NAMESPACE
    own_id = parse_id(arguments[0]) if len(arguments) == 1 else None
    if own_id is not None:
        found = resolve_object_key(ObjectKey(kind, warehouse.pk, own_id))
        if found is not None or not is_namespace:
            return _require_found(found, ObjectKey(kind, warehouse.pk, own_id), arguments)
    if is_namespace:
        key = ObjectKey(kind, warehouse.pk, levels=tuple(arguments))
    elif len(arguments) > 1:
        key = ObjectKey(kind, warehouse.pk, levels=tuple(arguments[:-1]), name=arguments[-1])
    else:
        raise BadRequest(f"{kind.value} takes {USAGE[kind]}")
    return _require_found(resolve_object_key(key), key, arguments)


def _require_found(found: ObjectRef | None, key: ObjectKey, arguments: Sequence[str]) -> ObjectRef:
    if found is not None:
        return found
    missing = key.missing()
    if any("." in argument for argument in arguments):
        raise NotFound(f"{missing.message}. Pass each level of a namespace as an argument: a b, not a.b")
    raise missing


def _require_text(argument: str) -> None:
    """Raises `BadRequest` for text that the database cannot store."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise BadRequest("The name is not valid UTF-8") from None
    if not argument or "\x00" in argument:
        raise BadRequest("A name must not be empty")
