from __future__ import annotations

from django.db import models

from icekeeper.kernel.ids import new_id


class Secret(models.Model):
    """What only the server may know, encrypted. Never changed: a new secret is a new row.

    `key_id` names the key (`storage.secrets.keyring`), null in rows of versions that did not note it. Only a key
    rotation rewrites a row.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    ciphertext = models.BinaryField()
    key_id = models.CharField(max_length=16, null=True)  # noqa: DJ001 - null: not noted, which no text says
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["key_id", "id"], name="secret_by_key")]

    def __str__(self) -> str:
        return str(self.id)
