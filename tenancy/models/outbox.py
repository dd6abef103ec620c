"""The outbox: an event for each change of an object, in the order of the changes of that object."""

from __future__ import annotations

from django.db import models

from icekeeper.kernel.ids import new_id


class ObjectSequence(models.Model):
    """The number of events of an object so far.

    The row is locked by the transaction that writes an event of the object, until its end: so the numbers of an object
    have no gaps, and their order is that of the commits. It is the last lock that a transaction takes.
    """

    object_key = models.CharField(primary_key=True, max_length=300, help_text="Type and internal id of the object.")
    number = models.BigIntegerField()

    class Meta:
        verbose_name = "object sequence"

    def __str__(self) -> str:
        return f"{self.object_key} {self.number}"


class OutboxEvent(models.Model):
    """An event of a change, written in the transaction of the change.

    Objects are named and not referred to: the event outlives them. Text columns that do not apply are empty. Old events
    are deleted after `ICEKEEPER__EVENTS__RETENTION`, the oldest ones also above `ICEKEEPER__EVENTS__MAX_SIZE`.

    The position is assigned while the sequence of the object is locked, so positions of one object are in the order of
    its events. A transaction can commit after one with a higher position: readers stop at
    `OutboxState.published_through`.
    """

    position = models.BigAutoField(primary_key=True, help_text="Order of all events; numbers can be missing.")
    event_id = models.UUIDField("event ID", default=new_id, help_text="UUIDv7; the id of the CloudEvent.")
    object_key = models.CharField(max_length=300, help_text="Type and internal id of the object, such as table:UUID.")
    sequence = models.BigIntegerField(help_text="Number among the events of the object: 1, 2, 3, without gaps.")
    type = models.CharField(max_length=64, help_text="Type of the CloudEvent, such as createTable.")
    at = models.DateTimeField()
    public_id = models.CharField(max_length=255, help_text="The id of the object that clients see.")
    names = models.TextField(default="[]", help_text="JSON list: levels of the namespace, then the name of the object.")
    project_id = models.CharField(max_length=128, blank=True, default="")
    warehouse_id = models.UUIDField(null=True)
    actor = models.CharField(max_length=255, help_text="User id, anonymous or internal.")
    assumed_role = models.UUIDField(null=True)
    request_id = models.CharField(max_length=128, blank=True, default="", help_text="The request's x-request-id.")
    event_count = models.IntegerField(default=1, help_text="Number of events of the same transaction.")
    event_index = models.IntegerField(default=0, help_text="Position among them, from 0.")
    data = models.TextField(null=True, help_text="The data of the CloudEvent, as JSON; without secrets.")  # noqa: DJ001

    class Meta:
        verbose_name = "outbox event"
        constraints = [models.UniqueConstraint(fields=["object_key", "sequence"], name="outbox_event_in_order")]
        indexes = [
            models.Index(
                fields=["warehouse_id", "position"],
                condition=models.Q(warehouse_id__isnull=False),
                name="outbox_event_by_warehouse",
            ),
            models.Index(fields=["project_id", "position"], name="outbox_event_by_project"),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.object_key} {self.sequence}"


class OutboxState(models.Model):
    """How far the outbox is complete, and how far it was deleted; one row."""

    ONLY = 1

    id = models.SmallIntegerField(primary_key=True, default=ONLY)
    published_through = models.BigIntegerField(
        default=0, help_text="No event with this position or a lower one can appear any more."
    )
    deleted_through = models.BigIntegerField(default=0, help_text="Events up to this position were deleted.")

    class Meta:
        verbose_name = "state of the outbox"
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="outbox_state_once")]

    def __str__(self) -> str:
        return f"published through {self.published_through}"
