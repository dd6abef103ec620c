from __future__ import annotations

from typing import Any, Final, Self

from django.db import models
from django.db.models import Q

from icekeeper.kernel.ids import new_id
from tenancy.models.querysets import VisibleQuerySet

NO_HASH: Final = "0" * 64
"""Previous hash of the first record of the chain."""


SEALED: Final = Q(position__isnull=False)

FINDINGS: Final = Q(event__in=["change.vetoed", "change.overridden", "change.reported"])
"""Records of what rules about changes found."""


class DetailText(models.Func):
    """The text of the member `key` of the JSON object `details`, NULL without it. Indexes have it as an expression."""

    output_field = models.TextField()

    def __init__(self, *, key: str) -> None:
        super().__init__("details", key=key)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="(%(expressions)s::jsonb ->> '%(key)s')", **context)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="json_extract(%(expressions)s, '$.%(key)s')", **context)


class AuditRecordQuerySet(VisibleQuerySet["AuditRecord"]):
    def unsealed(self) -> Self:
        """Return the records that are not part of the hash chain yet."""
        return self.filter(position=None)

    def sealed(self) -> Self:
        """Return the records of the hash chain, with the condition of their indexes as SQLite needs it."""
        return self.filter(SEALED)

    def findings(self) -> Self:
        """Return what rules about changes found, with the id of the `rule` and of the `warehouse` as texts."""
        return self.filter(FINDINGS).annotate(rule=DetailText(key="rule"), warehouse=DetailText(key="warehouse"))

    def after_position(self, position: int) -> Self:
        """Return the sealed records after a position, in the order of the chain."""
        return self.sealed().filter(position__gt=position).order_by("position")


class AuditRecord(models.Model):
    """An audit event: actor, action, object, origin and outcome. Text columns that do not apply are empty.

    Objects are named and not referred to: the record outlives them. A record that aggregates stands for `count`
    occurrences from `at` to `last_at`. `details` is a JSON object and never contains a secret.

    A record is written without `position` and gets it, with the hashes, when it is sealed (`tenancy.audit.chain`).
    After that it does not change. Only then the record is in the indexes of the filters, so that a change waits for
    two of them and not for all: filters search sealed and unsealed records separately.
    """

    class Outcome(models.TextChoices):
        ALLOWED = "allowed"
        DENIED = "denied"
        FAILED = "failed"

    class PrivilegeSource(models.TextChoices):
        AUTHORIZER = "authorizer"
        INSTANCE_ADMIN = "instance_admin"
        INTERNAL = "internal"

    id = models.UUIDField(primary_key=True, default=new_id)
    position = models.BigIntegerField(
        null=True, help_text="Position in the hash chain; empty until the record is sealed."
    )
    at = models.DateTimeField()
    last_at = models.DateTimeField(null=True, help_text="Time of the last occurrence of an aggregated record.")
    count = models.BigIntegerField(default=1, help_text="Number of occurrences that the record stands for.")
    event = models.CharField(max_length=64, help_text="Event, such as grant.created.")
    action = models.CharField(max_length=255, blank=True, default="", help_text="Action that was checked.")
    outcome = models.CharField(max_length=16, choices=Outcome.choices)
    reason = models.CharField(max_length=64, blank=True, default="", help_text="Why a request was denied.")
    privilege_source = models.CharField(max_length=16, choices=PrivilegeSource.choices, blank=True, default="")
    actor = models.CharField(max_length=255, help_text="User id, anonymous or internal.")
    assumed_role = models.UUIDField(null=True, help_text="Role that the actor assumed.")
    access_token_id = models.UUIDField(null=True, help_text="Access token that the actor used.")
    object_type = models.CharField(max_length=32, blank=True, default="")
    object_id = models.CharField(max_length=255, blank=True, default="")
    project_id = models.CharField(max_length=128, blank=True, default="")
    request_id = models.UUIDField(null=True)
    address = models.CharField(max_length=64, blank=True, default="", help_text="IP address of the client.")
    forwarded_for = models.CharField(max_length=256, blank=True, default="")
    user_agent = models.CharField(max_length=256, blank=True, default="")
    details = models.TextField(default="{}", help_text="JSON object with further facts of the event.")
    previous_hash = models.CharField(max_length=64, blank=True, default="", help_text="Hash of the record before.")
    hash = models.CharField(max_length=64, blank=True, default="")

    objects = AuditRecordQuerySet.as_manager()

    class Meta:
        verbose_name = "audit record"
        constraints = [models.UniqueConstraint(fields=["position"], condition=SEALED, name="audit_record_position")]
        indexes = [
            models.Index(fields=["at", "id"], condition=Q(position=None), name="audit_record_unsealed"),
            models.Index(fields=["at", "id"], condition=SEALED, name="audit_record_by_time"),
            models.Index(fields=["actor", "at"], condition=SEALED, name="audit_record_by_actor"),
            models.Index(fields=["event", "at"], condition=SEALED, name="audit_record_by_event"),
            models.Index(fields=["object_id", "at"], condition=SEALED, name="audit_record_by_object"),
            models.Index(fields=["project_id", "at"], condition=SEALED, name="audit_record_by_project"),
            models.Index(fields=["request_id"], condition=SEALED, name="audit_record_by_request"),
            models.Index(fields=["object_type", "at"], condition=SEALED, name="audit_record_by_type"),
            # Most rows lack these columns: the indexes contain only rows that have them.
            models.Index(
                fields=["access_token_id", "at"],
                condition=SEALED & Q(access_token_id__isnull=False),
                name="audit_record_by_token",
            ),
            models.Index(
                fields=["outcome", "at"], condition=SEALED & ~Q(outcome="allowed"), name="audit_record_refused"
            ),
            # Without them, a common event or actor that never was denied takes a scan of all its rows.
            models.Index(
                fields=["event", "outcome", "at"],
                condition=SEALED & ~Q(outcome="allowed"),
                name="audit_record_refused_event",
            ),
            models.Index(
                fields=["actor", "outcome", "at"],
                condition=SEALED & ~Q(outcome="allowed"),
                name="audit_record_refused_actor",
            ),
            models.Index(
                fields=["project_id", "outcome", "at"],
                condition=SEALED & ~Q(outcome="allowed"),
                name="audit_record_refused_in",
            ),
            models.Index(fields=["action", "at"], condition=SEALED & ~Q(action=""), name="audit_record_by_action"),
            models.Index(
                fields=["assumed_role", "at"],
                condition=SEALED & Q(assumed_role__isnull=False),
                name="audit_record_by_role",
            ),
            models.Index(fields=["at", "id"], condition=SEALED & FINDINGS, name="audit_record_findings"),
            models.Index(DetailText(key="rule"), "at", "id", condition=SEALED & FINDINGS, name="audit_record_by_rule"),
            models.Index(
                DetailText(key="warehouse"), "at", "id", condition=SEALED & FINDINGS, name="audit_record_in_warehouse"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.object_type} {self.object_id} by {self.actor}"


class AuditChain(models.Model):
    """The single row with the end of the chain of sealed records and, after old ones were deleted, its beginning.

    Sealing and retention lock this row. `anchor` is the last record that retention deleted: the next one continues its
    hash.
    """

    singleton = models.PositiveSmallIntegerField(primary_key=True, default=1)
    position = models.BigIntegerField(default=0, help_text="Position of the last sealed record.")
    hash = models.CharField(max_length=64, default=NO_HASH)
    anchor_position = models.BigIntegerField(default=0, help_text="Position of the last record that was deleted.")
    anchor_hash = models.CharField(max_length=64, default=NO_HASH)

    class Meta:
        verbose_name = "audit chain"
        constraints = [models.CheckConstraint(condition=Q(singleton=1), name="one_audit_chain")]

    def __str__(self) -> str:
        return f"{self.anchor_position} to {self.position}"
