"""Who changed what in the administration of the server: one line of the log for each change that was committed.

Never in it: tokens, credentials, mails. Tables and namespaces are not told of; the lines of requests name them.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from functools import partial
from typing import Any

from django.db import transaction

from tenancy.actor import Actor

logger = logging.getLogger("icekeeper.audit")


class Event(StrEnum):
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
    SERVER_BOOTSTRAPPED = "server.bootstrapped"
    SERVER_BOOTSTRAP_REOPENED = "server.bootstrap-reopened"
    SERVER_ADMINISTRATOR_APPOINTED = "server.administrator-appointed"
    SERVER_MAINTENANCE_SWITCHED = "server.maintenance-switched"
    SERVER_SECRETS_MOVED = "server.secrets-moved"
    SERVER_ENCRYPTION_KEY_ROTATED = "server.encryption-key-rotated"


def record(event: Event, *, actor: Actor, subject: object, **details: Any) -> None:
    """Write the line when the transaction at hand is committed, or at once where there is none; never if it is not.

    `subject` is the id of what was changed; `details` go into the line as they are, in JSON, under their names, none of
    which may be one of `logging.LogRecord` ("name").
    """
    fields: dict[str, Any] = {"id": str(subject), "by": actor.name}
    if actor.identity is not None and actor.identity.access_token_id is not None:
        fields["access_token"] = actor.identity.access_token_id
    transaction.on_commit(partial(logger.info, event.value, extra=fields | details), robust=True)
