from __future__ import annotations

from typing import Final

from django.db import models

from icekeeper.kernel.ids import new_id

USER_ID_PREFIX: Final = "icekeeper~"


class ServiceAccount(models.Model):
    """A program that this server knows by itself: the user `icekeeper~<id>`, who signs in with access tokens alone."""

    id = models.UUIDField(primary_key=True, default=new_id)
    user = models.OneToOneField("tenancy.User", on_delete=models.CASCADE, related_name="service_account")
    name = models.CharField(max_length=255)
    name_key = models.CharField(max_length=2048)
    description = models.TextField(blank=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=255)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name_key"], name="service_account_name_once")]

    def __str__(self) -> str:
        return self.name
