"""Records administrative changes: an audit record and a log line for each change.

They never contain tokens, credentials or e-mail addresses. Table commits are in the access log only.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction

from tenancy.actor import Actor
from tenancy.audit.records import build_record, is_audit_enabled, set_projects

logger = logging.getLogger("icekeeper.audit")


class Event(StrEnum):
    """Events. For changes, the part before the dot is the object type, unless `record` is called with another one."""

    ACCESS_TOKEN_CREATED = "access-token.created"  # noqa: S105 - a name, no password
    ACCESS_TOKEN_ROTATED = "access-token.rotated"  # noqa: S105
    ACCESS_TOKEN_REVOKED = "access-token.revoked"  # noqa: S105
    USER_CREATED = "user.created"
    USER_UPDATED = "user.updated"
    USER_DELETED = "user.deleted"
    USER_BLOCKED = "user.blocked"
    USER_UNBLOCKED = "user.unblocked"
    SERVICE_ACCOUNT_CREATED = "service-account.created"
    SERVICE_ACCOUNT_DELETED = "service-account.deleted"
    ROLE_CREATED = "role.created"
    ROLE_UPDATED = "role.updated"
    ROLE_DELETED = "role.deleted"
    ROLE_MEMBERS_ADDED = "role.members-added"
    ROLE_MEMBERS_REMOVED = "role.members-removed"
    GRANT_CREATED = "grant.created"
    GRANT_REVOKED = "grant.revoked"
    GRANT_ENDED = "grant.ended"
    MANAGED_ACCESS_SET = "managed-access.set"
    PROJECT_CREATED = "project.created"
    PROJECT_RENAMED = "project.renamed"
    PROJECT_DELETED = "project.deleted"
    TAG_DEFINITION_CREATED = "tag-definition.created"
    TAG_DEFINITION_UPDATED = "tag-definition.updated"
    TAG_DEFINITION_DELETED = "tag-definition.deleted"
    TAG_ATTACHED = "tag.attached"
    TAG_DETACHED = "tag.detached"
    WAREHOUSE_CREATED = "warehouse.created"
    WAREHOUSE_UPDATED = "warehouse.updated"
    WAREHOUSE_DELETED = "warehouse.deleted"
    NAMESPACE_MOVED = "namespace.moved"
    TABLE_MOVED = "table.moved"
    VIEW_MOVED = "view.moved"
    GENERIC_TABLE_MOVED = "generic-table.moved"
    WAREHOUSE_TABULARS_UNDROPPED = "warehouse.tabulars-undropped"
    STAGED_LOCATION_RELEASED = "staged-location.released"
    PROTECTION_SET = "protection.set"
    SERVER_BOOTSTRAPPED = "server.bootstrapped"
    SERVER_BOOTSTRAP_REOPENED = "server.bootstrap-reopened"
    SERVER_ADMINISTRATOR_APPOINTED = "server.administrator-appointed"
    SERVER_MAINTENANCE_SWITCHED = "server.maintenance-switched"
    SERVER_SECRETS_MOVED = "server.secrets-moved"
    SERVER_ENCRYPTION_KEY_ROTATED = "server.encryption-key-rotated"
    # occurrences, not changes: see `tenancy.audit.occurrences`
    ACCESS_DENIED = "access.denied"
    SIGN_IN_ACCEPTED = "sign-in.accepted"
    SIGN_IN_REFUSED = "sign-in.refused"
    TOKEN_USED = "token.used"  # noqa: S105
    DATA_CREDENTIALS_VENDED = "data.credentials-vended"
    DATA_REQUEST_SIGNED = "data.request-signed"
    AUDIT_LISTED = "audit.listed"
    AUDIT_EXPORTED = "audit.exported"
    ACCESS_REVIEWED = "access.reviewed"
    ACCESS_OVERRIDDEN = "access.overridden"
    AUDIT_RECORDS_LOST = "audit.records-lost"
    AUDIT_RECORDS_DELETED = "audit.records-deleted"


def record(
    event: Event,
    *,
    actor: Actor,
    subject: object,
    project: str | None = None,
    object_type: str | None = None,
    **details: Any,
) -> None:
    """Record a change in the current transaction, so that the record is committed with the change or not at all.

    The log line is written after the commit. Without a transaction the record is written before this returns. `subject`
    is the id of the changed object and `project` the id of its project, which is looked up for securables if it is not
    given. `details` are added to the record and to the log line; their names must not be attributes of
    `logging.LogRecord`, such as `name`.
    """
    if is_audit_enabled():
        kind = event.value.partition(".")[0] if object_type is None else object_type
        row = build_record(
            event.value, actor=actor, object_type=kind, object_id=subject, project=project, details=details
        )
        set_projects([row])
        row.save(force_insert=True)
    fields: dict[str, Any] = {"id": str(subject)}
    if object_type is not None:
        fields["type"] = object_type
    if project is not None:
        fields["project"] = project
    transaction.on_commit(partial(write_line, event, actor, fields | details), robust=True)


def write_line(event: Event, actor: Actor, fields: dict[str, Any]) -> None:
    """Write the log line of an event, unless audit tracing is disabled."""
    if not settings.ICEKEEPER.audit.tracing.enabled:
        return
    known: dict[str, Any] = {"id": fields["id"], "by": actor.name}
    if actor.identity is not None and actor.identity.access_token_id is not None:
        known["access_token"] = actor.identity.access_token_id
    logger.info(event.value, extra=known | fields)
