"""Who changed what in the administration of the server: a row of the audit trail and a line of the log for each change.

Never in them: tokens, credentials, mails. Commits to tables are not told of; the lines of requests name them.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction

from tenancy.actor import Actor
from tenancy.audit.entries import is_kept, make_entry
from tenancy.audit.projects import set_projects

logger = logging.getLogger("icekeeper.audit")


class Event(StrEnum):
    """What happened. Of a change, the word before the dot is the type of its object, unless `record` is told one."""

    ACCESS_TOKEN_CREATED = "access-token.created"  # noqa: S105 - a name, as the two below
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
    # no changes: see `tenancy.audit.occurrences`
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
    """Tell of a change, in the transaction that makes it: the row is committed with it or not at all.

    The line is written when the transaction is committed. Of what is done without one, the row is written at once, by
    itself, before this returns. `subject` is the id of what was changed and `project` that of the project that it is
    in; where that is not given and the object has a securable, it is looked up. `details` go into row and line as they
    are, in JSON, under their names, none of which may be one of `logging.LogRecord` ("name").
    """
    if is_kept():
        kind = event.value.partition(".")[0] if object_type is None else object_type
        row = make_entry(
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
    if not settings.ICEKEEPER.audit.tracing.enabled:
        return
    known: dict[str, Any] = {"id": fields["id"], "by": actor.name}
    if actor.identity is not None and actor.identity.access_token_id is not None:
        known["access_token"] = actor.identity.access_token_id
    logger.info(event.value, extra=known | fields)
