"""The kinds of changes, in one table: which audit event, which CloudEvents type, and what else follows from each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property


@dataclass(frozen=True)
class ChangeKind:
    """What follows from a change of this kind, besides its audit record and its event.

    `audit_event` is the name in the audit trail and in log lines; its part before the dot is the object's type, unless
    the change is recorded for an object of another one. `event_type` is the type of the CloudEvent, Lakekeeper's where
    it has one. The data of the event are the audit details, or with `has_request_data` the request's body, or null.
    `changes_permissions`: decisions that are cached anywhere are invalidated. `revokes_tokens`: so are tokens that were
    verified. Without `is_logged` there is no log line of its own, for the kinds that are as frequent as requests: the
    line of the request has the same facts.
    """

    audit_event: str
    event_type: str
    changes_permissions: bool = False
    has_request_data: bool = False
    revokes_tokens: bool = False
    is_logged: bool = True

    @cached_property
    def object_type(self) -> str:
        return self.audit_event.partition(".")[0]


def _tabular(audit_event: str, event_type: str, **more: bool) -> ChangeKind:
    return ChangeKind(audit_event, event_type, has_request_data=True, **more)


class Change(Enum):
    """Every kind of change that this server records."""

    ACCESS_TOKEN_CREATED = ChangeKind("access-token.created", "createAccessToken")
    ACCESS_TOKEN_ROTATED = ChangeKind("access-token.rotated", "rotateAccessToken", revokes_tokens=True)
    ACCESS_TOKEN_REVOKED = ChangeKind("access-token.revoked", "revokeAccessToken", revokes_tokens=True)
    USER_CREATED = ChangeKind("user.created", "createUser")
    USER_UPDATED = ChangeKind("user.updated", "updateUser")
    USER_DELETED = ChangeKind("user.deleted", "deleteUser", changes_permissions=True, revokes_tokens=True)
    USER_BLOCKED = ChangeKind("user.blocked", "blockUser", revokes_tokens=True)
    USER_UNBLOCKED = ChangeKind("user.unblocked", "unblockUser", revokes_tokens=True)
    USER_PASSWORD_SET = ChangeKind("user.password-set", "setUserPassword")
    SIGN_IN_ADDRESS_CREATED = ChangeKind("sign-in-address.created", "createSignInAddress")
    SESSION_REVOKED = ChangeKind("session.revoked", "revokeSession")
    SERVICE_ACCOUNT_CREATED = ChangeKind("service-account.created", "createServiceAccount")
    SERVICE_ACCOUNT_DELETED = ChangeKind(
        "service-account.deleted", "deleteServiceAccount", changes_permissions=True, revokes_tokens=True
    )
    ROLE_CREATED = ChangeKind("role.created", "createRole")
    ROLE_UPDATED = ChangeKind("role.updated", "updateRole", changes_permissions=True)
    ROLE_DELETED = ChangeKind("role.deleted", "deleteRole", changes_permissions=True)
    ROLE_MEMBERS_ADDED = ChangeKind("role.members-added", "addRoleMembers", changes_permissions=True)
    ROLE_MEMBERS_REMOVED = ChangeKind("role.members-removed", "removeRoleMembers", changes_permissions=True)
    GRANT_CREATED = ChangeKind("grant.created", "createGrant", changes_permissions=True)
    GRANT_REVOKED = ChangeKind("grant.revoked", "revokeGrant", changes_permissions=True)
    MANAGED_ACCESS_SET = ChangeKind("managed-access.set", "setManagedAccess", changes_permissions=True)
    PROJECT_CREATED = ChangeKind("project.created", "createProject")
    PROJECT_RENAMED = ChangeKind("project.renamed", "renameProject")
    PROJECT_DELETED = ChangeKind("project.deleted", "deleteProject", changes_permissions=True)
    TAG_DEFINITION_CREATED = ChangeKind("tag-definition.created", "createTagDefinition")
    TAG_DEFINITION_UPDATED = ChangeKind("tag-definition.updated", "updateTagDefinition")
    TAG_DEFINITION_DELETED = ChangeKind("tag-definition.deleted", "deleteTagDefinition", changes_permissions=True)
    TAG_ATTACHED = ChangeKind("tag.attached", "attachTag")
    TAG_DETACHED = ChangeKind("tag.detached", "detachTag")
    WAREHOUSE_CREATED = ChangeKind("warehouse.created", "createWarehouse")
    WAREHOUSE_UPDATED = ChangeKind("warehouse.updated", "updateWarehouse")
    WAREHOUSE_DELETED = ChangeKind("warehouse.deleted", "deleteWarehouse")
    NAMESPACE_CREATED = ChangeKind("namespace.created", "createNamespace")
    NAMESPACE_UPDATED = ChangeKind("namespace.updated", "updateNamespace")
    NAMESPACE_MOVED = ChangeKind("namespace.moved", "moveNamespace")
    NAMESPACE_DROPPED = ChangeKind("namespace.dropped", "dropNamespace")
    TABLE_CREATED = _tabular("table.created", "createTable")
    TABLE_REGISTERED = _tabular("table.registered", "registerTable")
    TABLE_UPDATED = _tabular("table.updated", "updateTable", is_logged=False)
    TABLE_RENAMED = _tabular("table.renamed", "renameTable")
    TABLE_MOVED = _tabular("table.moved", "renameTable", changes_permissions=True)
    TABLE_DROPPED = _tabular("table.dropped", "dropTable")
    TABLE_UNDROPPED = _tabular("table.undropped", "undropTabulars")
    TABLE_EXPIRED = _tabular("table.expired", "expireTable")
    VIEW_CREATED = _tabular("view.created", "createView")
    VIEW_REGISTERED = _tabular("view.registered", "registerView")
    VIEW_UPDATED = _tabular("view.updated", "updateView", is_logged=False)
    VIEW_RENAMED = _tabular("view.renamed", "renameView")
    VIEW_MOVED = _tabular("view.moved", "renameView", changes_permissions=True)
    VIEW_DROPPED = _tabular("view.dropped", "dropView")
    VIEW_UNDROPPED = _tabular("view.undropped", "undropTabulars")
    VIEW_EXPIRED = _tabular("view.expired", "expireView")
    GENERIC_TABLE_CREATED = _tabular("generic-table.created", "createGenericTable")
    GENERIC_TABLE_RENAMED = _tabular("generic-table.renamed", "renameGenericTable")
    GENERIC_TABLE_MOVED = _tabular("generic-table.moved", "renameGenericTable", changes_permissions=True)
    GENERIC_TABLE_DROPPED = _tabular("generic-table.dropped", "dropGenericTable")
    GENERIC_TABLE_UNDROPPED = _tabular("generic-table.undropped", "undropTabulars")
    GENERIC_TABLE_EXPIRED = _tabular("generic-table.expired", "expireGenericTable")
    STAGED_LOCATION_RELEASED = ChangeKind("staged-location.released", "releaseStagedLocation")
    PROTECTION_SET = ChangeKind("protection.set", "setProtection")
    CHANGE_RULE_CREATED = ChangeKind("change-rule.created", "createChangeRule", changes_permissions=True)
    CHANGE_RULE_UPDATED = ChangeKind("change-rule.updated", "updateChangeRule", changes_permissions=True)
    CHANGE_RULE_DELETED = ChangeKind("change-rule.deleted", "deleteChangeRule", changes_permissions=True)
    TASK_RETRIED = ChangeKind("task.retried", "retryTask")
    TASK_SCHEDULED = ChangeKind("task.scheduled", "scheduleTask")
    TASK_STOPPED = ChangeKind("task.stopped", "stopTask")
    TASK_CANCELLED = ChangeKind("task.cancelled", "cancelTask")
    TASK_COMPLETED = ChangeKind("task.completed", "completeTask", is_logged=False)
    TASK_FAILED = ChangeKind("task.failed", "failTask", is_logged=False)
    TASK_QUEUE_CONFIGURED = ChangeKind("task-queue.configured", "setTaskQueueConfig")
    EVENT_SINK_CREATED = ChangeKind("event-sink.created", "createEventSink")
    EVENT_SINK_UPDATED = ChangeKind("event-sink.updated", "updateEventSink")
    EVENT_SINK_DELETED = ChangeKind("event-sink.deleted", "deleteEventSink")
    EVENT_SINK_PAUSED = ChangeKind("event-sink.paused", "pauseEventSink")
    EVENT_SINK_RESUMED = ChangeKind("event-sink.resumed", "resumeEventSink")
    EVENT_SINK_REPLAYED = ChangeKind("event-sink.replayed", "replayEventSink")
    EVENT_SKIPPED = ChangeKind("event-sink.event-skipped", "skipEvent")
    DEAD_LETTERS_REDELIVERED = ChangeKind("event-sink.dead-letters-redelivered", "redeliverDeadLetters")
    DEAD_LETTERS_DELETED = ChangeKind("event-sink.dead-letters-deleted", "deleteDeadLetters")
    SERVER_BOOTSTRAPPED = ChangeKind("server.bootstrapped", "bootstrapServer", changes_permissions=True)
    SERVER_BOOTSTRAP_REOPENED = ChangeKind("server.bootstrap-reopened", "reopenBootstrap")
    SERVER_ADMINISTRATOR_APPOINTED = ChangeKind(
        "server.administrator-appointed", "appointAdministrator", changes_permissions=True
    )
    SERVER_MAINTENANCE_SWITCHED = ChangeKind("server.maintenance-switched", "switchMaintenance")
    SERVER_SECRETS_MOVED = ChangeKind("server.secrets-moved", "moveSecrets")
    SERVER_ENCRYPTION_KEY_ROTATED = ChangeKind("server.encryption-key-rotated", "rotateEncryptionKey")

    @classmethod
    def of_tabular(cls, kind: str, what: str) -> Change:
        """Return the change `what` (such as `dropped`) of a tabular of `kind` (`table`, `view`, `generic-table`)."""
        return cls[f"{kind}_{what}".replace("-", "_").upper()]
