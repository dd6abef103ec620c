"""Tuples that have not yet been delivered to OpenFGA."""

from __future__ import annotations

from django.db import models

from icekeeper.kernel.ids import new_id


class UndeliveredTuple(models.Model):
    """A tuple that may differ in OpenFGA from our relation rows since the transaction that changed them.

    Whether the tuple should exist is read from the rows when it is delivered. Until `held_until` only the delivery
    `holder` may write it to OpenFGA, so that no older request takes effect after a newer one.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    object = models.CharField(max_length=256)
    relation = models.CharField(max_length=64)
    subject = models.CharField(max_length=512)
    changed_by = models.UUIDField(help_text="Delivery of the transaction that last changed the rows.")
    holder = models.UUIDField(help_text="Delivery that has the lease.")
    held_until = models.DateTimeField(help_text="End of the lease.")

    class Meta:
        verbose_name = "undelivered tuple"
        constraints = [models.UniqueConstraint(fields=["object", "relation", "subject"], name="undelivered_tuple_once")]
        indexes = [
            models.Index(fields=["holder", "id"], name="undelivered_by_holder"),
            models.Index(fields=["held_until"], name="undelivered_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.object}#{self.relation}@{self.subject}"
