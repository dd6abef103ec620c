"""Stored responses to requests with an Idempotency-Key."""

from __future__ import annotations

from django.db import models


class IdempotencyRecord(models.Model):
    """The response to a request with an Idempotency-Key, inserted in the transaction that executes the request.

    `fingerprint` is the SHA-256 of caller and request, which detects another request with the same key. `response` is
    the serialized result (see `catalog.services.idempotency`): JSON text, as a JSON column would reorder its keys.
    """

    warehouse_id = models.UUIDField("warehouse ID")
    key = models.UUIDField(help_text="The Idempotency-Key header.")
    fingerprint = models.BinaryField(max_length=32, help_text="SHA-256 of caller and request.")
    status = models.SmallIntegerField(help_text="HTTP status of the response.")
    response = models.TextField(help_text="JSON.")
    created_at = models.DateTimeField()

    class Meta:
        verbose_name = "idempotency record"
        constraints = [models.UniqueConstraint(fields=["warehouse_id", "key"], name="idempotency_record_per_key")]
        indexes = [models.Index(fields=["created_at"], name="idempotency_record_by_age")]

    def __str__(self) -> str:
        return f"{self.key}: {self.status}"
