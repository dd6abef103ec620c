"""Principals and objects as administrators at a shell call them: by name or by id. Nothing is hidden from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from django.db.models import Q

from catalog.selectors.addressed import Address, find_addressed
from icekeeper.kernel.errors.types import BadRequest, NotFound
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.names import name_key
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.grantee import Grantee
from tenancy.models import Project, Role, Securable, TagDefinition
from tenancy.refs import Ref
from tenancy.selectors.projects import get_project, no_such_project
from tenancy.selectors.roles import role_id_not_found
from tenancy.selectors.server import get_server
from tenancy.selectors.tag_definitions import tag_id_not_found
from tenancy.user_ids import require_user_id

T = Securable.Type
SPOKEN: Final = {
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
"""The words that say which object of a type is meant."""

_FEWEST: Final = {T.SERVER: 0, T.PROJECT: 0, T.WAREHOUSE: 1, T.ROLE: 1, T.TAG: 1}
_MOST: Final = {T.SERVER: 0, T.PROJECT: 1, T.WAREHOUSE: 1, T.ROLE: 1, T.TAG: 1}


def find_spoken_project(text: str | None) -> Project:
    """By its id, else by its name; None: the default project. Raises what `get_project` raises."""
    if text is None:
        return get_project(None)
    _require_text(text)
    by_id = Project.objects.filter(pk=text).first()
    found = by_id or Project.objects.filter(name_key=name_key(text)).first()
    if found is None:
        raise no_such_project(text[:200])
    return found


def find_spoken_grantee(project: Project, text: str) -> Grantee:
    """A user as `<provider>~<subject>`, else a role by its id, which need not be there, or by its name in the project.

    Raises `NotFound`, and what `require_user_id` raises.
    """
    _require_text(text)
    if "~" in text:  # whatever a role may be called: nobody is to be taken for somebody else
        return Grantee(user_id=require_user_id(text))
    return Grantee(role_id=_find_role_id(project, text))


def describe_grantee(grantee: Grantee) -> str:
    """What people read: the user's id, or the role's name."""
    if grantee.user_id is not None:
        return grantee.user_id
    name = Role.objects.filter(pk=str(grantee.role_id)).values_list("name", flat=True).first()
    return str(grantee) if name is None else f"role {name}"


def find_spoken_warehouse(project: Project, text: str) -> Warehouse:
    """By its id, of any project, else by its name in the project. Raises `BadRequest`, `NotFound`."""
    _require_text(text)
    own_id = parse_id(text)
    by_id = None if own_id is None else Warehouse.objects.filter(pk=own_id).first()
    found = by_id or Warehouse.objects.filter(project=project, name_key=name_key(text)).first()
    if found is None:
        raise no_such_warehouse(text) if own_id is not None else _none_named("Warehouse", text, project)
    return found


def find_spoken_object(project: Project, kind: Securable.Type, words: Sequence[str]) -> Ref:
    """The object of a type that the words of `SPOKEN` mean; names are looked up in the project, ids in all of them.

    Raises `BadRequest` for too few words or too many, and the 404 of its type.
    """
    if not _FEWEST.get(kind, 2) <= len(words) <= _MOST.get(kind, len(words)):
        raise BadRequest(f"{kind.value} takes {SPOKEN[kind]}")
    for word in words:
        _require_text(word)
    if kind is T.SERVER:
        return (kind, get_server().server_id)
    if kind is T.PROJECT:
        return (kind, find_spoken_project(words[0]).pk if words else project.pk)
    if kind is T.ROLE:
        return (kind, _require_role(_find_role_id(project, words[0])))
    if kind is T.TAG:
        return (kind, _find_tag_id(project, words[0]))
    warehouse = find_spoken_warehouse(project, words[0])
    if kind is T.WAREHOUSE:
        return (kind, warehouse.pk)
    return _find_inside(warehouse, kind, words[1:])


def _find_role_id(project: Project, text: str) -> UUID:
    """By its id, which need not be there, else by its name in the project. Raises `NotFound`."""
    own_id = parse_id(text)
    if own_id is None:
        own_id = Role.objects.filter(project=project, name_key=name_key(text)).values_list("pk", flat=True).first()
    if own_id is None:
        raise _none_named("Role", text, project)
    return own_id


def _require_role(role_id: UUID) -> UUID:
    """Raises `RoleIdNotFound` (404)."""
    if not Role.objects.filter(pk=role_id).exists():
        raise role_id_not_found(role_id)
    return role_id


def _find_tag_id(project: Project, text: str) -> UUID:
    """By its id, of any project, else by its name in the project. Raises `NotFound`, `TagDefinitionIdNotFound`."""
    own_id = parse_id(text)
    named = Q(pk=own_id) if own_id is not None else Q(project=project, name_key=name_key(text))
    found = TagDefinition.objects.filter(named).values_list("pk", flat=True).first()
    if found is None:
        raise _none_named("Tag", text, project) if own_id is None else tag_id_not_found(own_id, None)
    return found


def _none_named(noun: str, text: str, project: Project) -> NotFound:
    return NotFound(
        f"{noun} does not exist in project {project.pk}: {text[:200]}. `--project-id` names another project"
    )


def _find_inside(warehouse: Warehouse, kind: Securable.Type, words: Sequence[str]) -> Ref:
    is_namespace = kind is T.NAMESPACE
    own_id = parse_id(words[0]) if len(words) == 1 else None
    if own_id is not None:
        found = find_addressed(Address(kind, warehouse.pk, own_id))
        if found is not None or not is_namespace:
            return _require_found(found, Address(kind, warehouse.pk, own_id), words)
    if is_namespace:
        address = Address(kind, warehouse.pk, levels=tuple(words))
    elif len(words) > 1:
        address = Address(kind, warehouse.pk, levels=tuple(words[:-1]), name=words[-1])
    else:
        raise BadRequest(f"{kind.value} takes {SPOKEN[kind]}")
    return _require_found(find_addressed(address), address, words)


def _require_found(found: Ref | None, address: Address, words: Sequence[str]) -> Ref:
    if found is not None:
        return found
    missing = address.missing()
    if any("." in word for word in words):
        raise NotFound(f"{missing.message}. Each level of a namespace is a word of its own: a b, not a.b")
    raise missing


def _require_text(word: str) -> None:
    """Raises `BadRequest` for what no database takes as a text."""
    try:
        word.encode()
    except UnicodeEncodeError:
        raise BadRequest("A name that is not UTF-8") from None
    if not word or "\x00" in word:
        raise BadRequest("A name must not be empty")
