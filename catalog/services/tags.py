"""Attachment of tags to warehouses, their objects and columns, and their removal."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError

from catalog.models import Namespace, Tabular
from catalog.selectors.tagged_objects import TagTarget, TagTargetKey, get_tag_target_for
from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.errors.types import BadRequest
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import Project, Securable, TagAttachment, TagDefinition
from tenancy.selectors.tags import get_tag_definition_named_for, tag_name_not_found
from tenancy.services.tags import InvalidTagValue, checked_value, put_attachment, remove_attachment

_KINDS = TagDefinition.ValueKind


class TagScopeNotAllowed(BadRequest):
    wire_type = "TagScopeNotAllowed"


def attach_tag(*, actor: Actor, project: Project, key: TagTargetKey, name: str, value: str | None) -> TagAttachment:
    """Attach a tag to an object, or change the value of an attached one; the same value again is a no-op.

    `value` is None for a marker. Raises as `get_tag_target_for`, `TagDefinitionNameNotFound` (404),
    `TagScopeNotAllowed`, `InvalidTagValue` (400).
    """
    target = get_tag_target_for(actor=actor, action=Can.MANAGE_TAGS, project=project, key=key)
    definition = get_tag_definition_named_for(actor=actor, action=Can.APPLY, project=project, name=name)
    if key.scope not in definition.scope:
        raise TagScopeNotAllowed(f"Tag {definition.name!r} is for {', '.join(definition.scope)}, not for {key.scope}")
    _require_value(definition, value)
    try:
        with change(actor) as tx:
            _lock(target)
            attachment, is_changed = put_attachment(definition, target.ref, field_id=target.field_id, value=value)
            if is_changed:
                fields = _audit_fields(definition, target) | ({} if value is None else {"value": value})
                tx.record(Change.TAG_ATTACHED, subject=definition.pk, **fields)
    except IntegrityError:  # the definition was deleted concurrently; the target is locked
        raise tag_name_not_found(name, project) from None
    attachment.definition = definition
    return attachment


def detach_tag(*, actor: Actor, project: Project, key: TagTargetKey, name: str) -> None:
    """Detach a tag from an object; no-op when it is not attached.

    Raises as `get_tag_target_for`, `TagDefinitionNameNotFound` (404).
    """
    target = get_tag_target_for(actor=actor, action=Can.MANAGE_TAGS, project=project, key=key)
    definition = get_tag_definition_named_for(actor=actor, action=Can.REMOVE, project=project, name=name)
    with change(actor) as tx:
        if remove_attachment(definition, target.ref, field_id=target.field_id):
            tx.record(Change.TAG_DETACHED, subject=definition.pk, **_audit_fields(definition, target))


def _require_value(definition: TagDefinition, value: str | None) -> None:
    if definition.value_kind == _KINDS.MARKER:
        if value is not None:
            raise InvalidTagValue(f"value: tag {definition.name!r} is a marker and has none")
        return
    if value is None:
        raise InvalidTagValue(f"value: tag {definition.name!r} needs one")
    checked_value(value, "value")
    if definition.value_kind == _KINDS.ENUMERATED and value not in definition.allowed_values:
        raise InvalidTagValue(f"value: {value!r} is not among those that tag {definition.name!r} allows")


def _lock(target: TagTarget) -> None:
    """Lock the row that drops and deletes lock, too, so that no tag is attached to an object that is being deleted."""
    found: Warehouse | Namespace | Tabular | None
    if target.key.kind == Securable.Type.WAREHOUSE:
        found = lock_row(Warehouse, "id = %s", [target.id])
    elif target.key.kind == Securable.Type.NAMESPACE:
        found = lock_row(Namespace, "id = %s", [target.id])
    else:
        found = lock_row(Tabular, "id = %s AND deleted_at IS NULL", [target.id])
    if found is None:
        raise target.key.missing


def _audit_fields(definition: TagDefinition, target: TagTarget) -> dict[str, Any]:
    """Fields of the audit row: the tag and its target, with the ids that clients see."""
    key, column = target.key, target.field_id
    fields = {
        "project": definition.project_id,
        "named": definition.name,
        "warehouse": str(key.warehouse_id),
        "target": f"{key.kind.value}:{key.object_id}",
    }
    return fields if column is None else fields | {"field_id": column}
