from __future__ import annotations

from typing import Final, Self

from django.db import models

from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import name_key
from tenancy.models.querysets import VisibleQuerySet

USER_ID_PREFIX: Final = "icekeeper~"


class ServiceAccountQuerySet(VisibleQuerySet["ServiceAccount"]):
    def existing(self) -> Self:
        """Return the accounts whose user is not deleted."""
        return self.filter(user__deleted_at=None)

    def named(self, name: str) -> Self:
        """Return the accounts with a name, however it is spelled."""
        return self.filter(name_key=name_key(name))


class ServiceAccount(models.Model):
    """A program that only this server knows: the user `icekeeper~<id>`, who signs in with access tokens."""

    id = models.UUIDField(primary_key=True, default=new_id)
    user = models.OneToOneField("tenancy.User", on_delete=models.CASCADE, related_name="service_account")
    name = models.CharField(max_length=255, help_text="Unique on the server, ignoring case.")
    name_key = models.CharField(max_length=2048, help_text="Normalised name, which is unique.")
    description = models.TextField(blank=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=255, help_text="User id of the actor who created the account.")

    objects = ServiceAccountQuerySet.as_manager()

    class Meta:
        verbose_name = "service account"
        constraints = [models.UniqueConstraint(fields=["name_key"], name="service_account_name_once")]

    def __str__(self) -> str:
        return self.name
