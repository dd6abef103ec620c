"""Services for tag definitions, and writes of tags on objects for callers that have checked the permission."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError
from django.db.models import QuerySet

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import delete_rows
from icekeeper.kernel.db.sql import execute, lock_row
from icekeeper.kernel.db.transactions import is_foreign_key_violation
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Conflict
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import hidden_character, name_key, require_description
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.model import OWNERSHIP
from tenancy.authz.permissions import require_permission
from tenancy.authz.securables import add_securable, remove_securable
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import Project, Securable, TagAttachment, TagDefinition
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.projects import no_such_project
from tenancy.selectors.tags import MAX_NAME_LENGTH, get_tag_definition_for, tag_id_not_found
from tenancy.services.automatic_grants import grant_creator

MAX_VALUE_LENGTH, MAX_DESCRIPTION_LENGTH = 256, 4096
"""Characters."""

MAX_KEY_LENGTH = 4 * MAX_NAME_LENGTH
"""Bytes of a normalized name."""

MAX_ALLOWED_VALUES = 1000

RESERVED_PREFIXES: Final = ("system.", "lakekeeper.")
"""Prefixes of definitions that only the server itself may create and update."""

_KINDS = TagDefinition.ValueKind


class InvalidTagName(BadRequest):
    wire_type = "InvalidTagName"


class ReservedTagNamespace(BadRequest):
    wire_type = "ReservedTagNamespace"


class InvalidTagDefinition(BadRequest):
    wire_type = "InvalidTagDefinition"


class InvalidTagValue(BadRequest):
    wire_type = "InvalidTagValue"


class TagScopeNarrowed(BadRequest):
    wire_type = "TagScopeNarrowed"


class TagNameExists(Conflict):
    wire_type = "TagNameAlreadyExists"


class TagDefinitionChanged(Conflict):
    """The definition was updated after the caller read it."""

    wire_type = "TagDefinitionChanged"


class TagDefinitionInUse(Conflict):
    wire_type = "TagDefinitionInUse"


def create_tag_definition(
    *,
    actor: Actor,
    project: Project,
    name: str,
    scope: Sequence[str],
    value_kind: str,
    allowed_values: Sequence[str] | None = None,
    description: str | None = None,
) -> TagDefinition:
    """Create a definition in `project`, owned by its creator. `scope` and `value_kind` are of `TagDefinition`.

    Raises `InvalidTagName`, `ReservedTagNamespace`, `InvalidTagDefinition`, `InvalidTagValue`, `BadRequest` (400),
    `TagNameExists` (409), `ProjectNotFound` (404).
    """
    require_permission(actor, Can.CREATE_TAG, Securable.Type.PROJECT, project.pk)
    definition = TagDefinition(
        id=new_id(),
        project=project,
        name=_checked_name(name),
        name_key=name_key(name),
        description=_checked_description(description),
        scope=_checked_scope(scope),
        value_kind=_KINDS(value_kind).value,
    )
    if (definition.value_kind == _KINDS.ENUMERATED) != bool(allowed_values):
        raise InvalidTagDefinition(
            "allowed-values: an enumerated definition needs one or more, others have none", field="allowed-values"
        )
    definition.allowed_values = _with_values([], allowed_values or [])
    try:
        with change(actor) as tx:
            definition.save(force_insert=True)
            ref = ObjectRef(Securable.Type.TAG, definition.pk)
            add_securable(*ref, parent=ObjectRef(Securable.Type.PROJECT, project.pk))
            granted = grant_creator(actor, OWNERSHIP, ref)
            tx.record(
                Change.TAG_DEFINITION_CREATED,
                subject=definition.pk,
                **_details(definition),
                **granted,
            )
    except Securable.DoesNotExist:
        raise no_such_project(project.pk) from None
    except IntegrityError as error:
        raise _conflict(error, definition) from error
    return definition


def update_tag_definition(
    *,
    actor: Actor,
    project: Project,
    definition_id: UUID,
    name: str,
    scope: Sequence[str],
    description: str | None,
    add_allowed_values: Sequence[str] | None = None,
    unchanged_since: datetime | None = None,
) -> TagDefinition:
    """Update name, description and scope of a definition, and add allowed values.

    Raises as `create_tag_definition`, `TagDefinitionIdNotFound` (404), `TagScopeNarrowed` (400) if `scope` lacks a
    type that the definition has, and `TagDefinitionChanged` (409) if its `changed_at` is not `unchanged_since`.
    """
    _get_changeable(actor, Can.UPDATE, project, definition_id)
    checked, wanted = _checked_name(name), _checked_scope(scope)
    checked_description = _checked_description(description)
    definition = None
    try:
        with change(actor) as tx:
            definition = lock_row(TagDefinition, "id = %s AND project_id = %s", [definition_id, project.pk])
            if definition is None:  # it was deleted in between
                raise tag_id_not_found(definition_id, project)
            if unchanged_since is not None and definition.changed_at != unchanged_since:
                raise TagDefinitionChanged("The tag was changed by another user meanwhile")
            lost = [each for each in definition.scope if each not in wanted]
            if lost:
                raise TagScopeNarrowed(f"scope: can only be widened, and lacks {', '.join(lost)}", field="scope")
            if add_allowed_values:
                if definition.value_kind != _KINDS.ENUMERATED:
                    raise InvalidTagDefinition(
                        "add-allowed-values: the definition is not enumerated", field="add-allowed-values"
                    )
                definition.allowed_values = _with_values(definition.allowed_values, add_allowed_values)
            definition.name, definition.name_key, definition.description = (
                checked,
                name_key(checked),
                checked_description,
            )
            definition.scope, definition.updated_at = wanted, now()
            definition.save(force_update=True)
            tx.record(Change.TAG_DEFINITION_UPDATED, subject=definition_id, **_details(definition))
    except IntegrityError as error:
        if definition is None:
            raise
        raise _conflict(error, definition) from error
    return definition


def delete_tag_definition(*, actor: Actor, project: Project, definition_id: UUID) -> None:
    """Delete a definition that is not in use, and the grants on it.

    Dropped objects that can be restored keep their tags. Raises `TagDefinitionIdNotFound` (404),
    `TagDefinitionInUse` (409).
    """
    definition = _get_changeable(actor, Can.DELETE, project, definition_id)
    in_use = TagDefinitionInUse(f"Tag {definition.name!r} is in use: remove it from all objects first")
    try:
        with change(actor) as tx:
            # New attachments wait for this lock.
            named = [definition_id, project.pk]
            if lock_row(TagDefinition, "id = %s AND project_id = %s", named, mode="UPDATE") is None:
                raise tag_id_not_found(definition_id, project)
            if TagAttachment.objects.filter(definition_id=definition_id).exists():
                raise in_use
            delete_rows(TagDefinition, [definition_id])
            ended = remove_securable(Securable.Type.TAG, definition_id)
            details = {**_details(definition), **ended.as_details()}
            tx.record(Change.TAG_DEFINITION_DELETED, subject=definition_id, **details)
    except IntegrityError:
        raise in_use from None


def checked_value(value: str, where: str) -> str:
    """Return a valid tag value. Raises `InvalidTagValue` (400)."""
    if not value.strip():
        raise InvalidTagValue(f"{where}: must not be empty")
    if len(value) > MAX_VALUE_LENGTH:
        raise InvalidTagValue(f"{where}: longer than {MAX_VALUE_LENGTH} characters")
    hidden = hidden_character(value)
    if hidden is not None:
        raise InvalidTagValue(f"{where}: character U+{ord(hidden):04X} is not allowed")
    return value


def _get_changeable(actor: Actor, action: Can, project: Project, definition_id: UUID) -> TagDefinition:
    definition = get_tag_definition_for(actor=actor, action=action, project=project, definition_id=definition_id)
    if definition.name_key.startswith(RESERVED_PREFIXES):
        raise ReservedTagNamespace(f"Tag {definition.name!r} is reserved by the server and cannot be changed")
    return definition


def _with_values(present: list[str], more: Sequence[str]) -> list[str]:
    too_many = InvalidTagDefinition(f"A definition has at most {MAX_ALLOWED_VALUES} allowed values")
    if len(more) > MAX_ALLOWED_VALUES:
        raise too_many
    checked = (checked_value(value, f"allowed value {number}") for number, value in enumerate(more, 1))
    values = list(dict.fromkeys([*present, *checked]))
    if len(values) > MAX_ALLOWED_VALUES:
        raise too_many
    return values


def _checked_scope(scope: Sequence[str]) -> list[str]:
    """Return each type once, in the order of `TagDefinition.Scope`."""
    if not scope:
        raise InvalidTagDefinition("scope: must name what the tag may be applied to", field="scope")
    return [each.value for each in TagDefinition.Scope if each.value in scope]


def _checked_description(description: str | None) -> str | None:
    return description and require_description(description, max_length=MAX_DESCRIPTION_LENGTH)


def _checked_name(name: str) -> str:
    key = name_key(name)
    if not name.strip() or len(name) > MAX_NAME_LENGTH or len(key.encode(errors="replace")) > MAX_KEY_LENGTH:
        raise InvalidTagName(f"A tag's name has 1 to {MAX_NAME_LENGTH} characters and is not blank", field="name")
    hidden = hidden_character(name)
    if hidden is not None:
        raise InvalidTagName(f"A tag's name must not contain the character U+{ord(hidden):04X}", field="name")
    if name != name.strip():
        raise InvalidTagName("A tag's name must not begin or end with a space", field="name")
    if "" in key.split("."):
        raise InvalidTagName("Dots separate parts of a tag's name, which must not be empty", field="name")
    if key.startswith(RESERVED_PREFIXES):
        raise ReservedTagNamespace(f"Names that begin with {' or '.join(RESERVED_PREFIXES)} are reserved", field="name")
    return name


def _conflict(error: IntegrityError, definition: TagDefinition) -> CatalogError:
    if is_foreign_key_violation(error):
        return no_such_project(definition.project_id)
    return TagNameExists(f"A tag named {definition.name!r} exists already in this project", field="name")


def _details(definition: TagDefinition) -> dict[str, Any]:
    """Return the audit details of a definition."""
    return {"project": definition.project_id, "named": definition.name}


# The empty text stands for no value in this comparison: it is never stored.
_PUT = """
INSERT INTO tenancy_tagattachment (id, definition_id, securable_id, field_id, value, created_at)
VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (definition_id, securable_id{column}) WHERE field_id IS {is_column}NULL
DO UPDATE SET value = excluded.value, updated_at = excluded.created_at
 WHERE COALESCE(tenancy_tagattachment.value, '') <> COALESCE(excluded.value, '')
"""
_PUT_ON_TARGET = _PUT.format(column="", is_column="")
_PUT_ON_COLUMN = _PUT.format(column=", field_id", is_column="NOT ")


def put_attachment(
    definition: TagDefinition, target: ObjectRef, *, field_id: int | None, value: str | None
) -> tuple[TagAttachment, bool]:
    """Attach a tag to an object or a column, or update its value; return the attachment and whether it changed.

    The caller's transaction must have locked the rows that a deletion of the object locks. A definition or securable
    that is deleted concurrently fails the transaction at the latest at the commit.
    """
    own_id = securable_id(*target)
    statement = _PUT_ON_TARGET if field_id is None else _PUT_ON_COLUMN
    changed = execute(statement, [new_id(), definition.pk, own_id, field_id, value, now()])
    return _of(definition, own_id, field_id).get(), bool(changed)


def remove_attachment(definition: TagDefinition, target: ObjectRef, *, field_id: int | None) -> bool:
    """Remove a tag from an object or a column; return whether it was attached."""
    removed, _ = _of(definition, securable_id(*target), field_id).delete()
    return bool(removed)


def _of(definition: TagDefinition, own_id: str, field_id: int | None) -> QuerySet[TagAttachment]:
    return TagAttachment.objects.filter(definition=definition, securable_id=own_id, field_id=field_id)
