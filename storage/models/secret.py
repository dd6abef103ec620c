from __future__ import annotations

from django.db import models

from icekeeper.kernel.ids import new_id


class Secret(models.Model):
    """What only the server may know, encrypted. Never changed: a new secret is a new row."""

    id = models.UUIDField(primary_key=True, default=new_id)
    ciphertext = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return str(self.id)
