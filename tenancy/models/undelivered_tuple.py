from __future__ import annotations

from django.db import models

from icekeeper.kernel.ids import new_id


class UndeliveredTuple(models.Model):
    """A tuple that OpenFGA may have otherwise than our relation rows say, since the transaction that changed them.

    What is to be there is read from the rows when it is delivered. `changed_by` is the delivery of whoever changed them
    last, `holder` the delivery that may be writing it to OpenFGA just now: until `held_until` no other one does, so
    that nothing that was sent earlier comes about later.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    object = models.CharField(max_length=256)
    relation = models.CharField(max_length=64)
    subject = models.CharField(max_length=512)
    changed_by = models.UUIDField()
    holder = models.UUIDField()
    held_until = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["object", "relation", "subject"], name="undelivered_tuple_once")]
        indexes = [
            models.Index(fields=["holder", "id"], name="undelivered_by_holder"),
            models.Index(fields=["held_until"], name="undelivered_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.object}#{self.relation}@{self.subject}"
