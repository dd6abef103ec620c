"""Writes of tags on targets. What a target is and who may tag it is for the caller to find out."""

from __future__ import annotations

from django.db.models import QuerySet

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import execute
from icekeeper.kernel.ids import new_id
from tenancy.models import TagAttachment, TagDefinition
from tenancy.refs import ObjectRef, securable_id

# No value is the empty text: services refuse it.
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
    """The attachment of a tag to a target or a column, with this value; and whether that is news.

    In the caller's transaction, which holds what deletes of the target lock. That the definition or the target's
    securable is gone, the database says at the latest at the commit.
    """
    own_id = securable_id(*target)
    statement = _PUT_ON_TARGET if field_id is None else _PUT_ON_COLUMN
    changed = execute(statement, [new_id(), definition.pk, own_id, field_id, value, now()])
    return _of(definition, own_id, field_id).get(), bool(changed)


def remove_attachment(definition: TagDefinition, target: ObjectRef, *, field_id: int | None) -> bool:
    """Whether there was one, which is gone when the caller's transaction is committed."""
    removed, _ = _of(definition, securable_id(*target), field_id).delete()
    return bool(removed)


def _of(definition: TagDefinition, own_id: str, field_id: int | None) -> QuerySet[TagAttachment]:
    return TagAttachment.objects.filter(definition=definition, securable_id=own_id, field_id=field_id)
