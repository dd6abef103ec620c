from __future__ import annotations

from django.db import models


class IdempotencyRecord(models.Model):
    """What a request that carried an Idempotency-Key came to, written in the transaction of its work.

    `fingerprint` is the SHA-256 of who asked for what, so that another request under the same key is noticed. `answer`
    is what the same answer can be made of again, as JSON text, because a JSON column would put its keys in another
    order: see `catalog.services.idempotency`.
    """

    warehouse_id = models.UUIDField()
    key = models.UUIDField()
    fingerprint = models.BinaryField(max_length=32)
    status = models.SmallIntegerField()
    answer = models.TextField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["warehouse_id", "key"], name="idempotency_record_per_key")]
        indexes = [models.Index(fields=["created_at"], name="idempotency_record_by_age")]

    def __str__(self) -> str:
        return f"{self.key}: {self.status}"
