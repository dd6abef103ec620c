from __future__ import annotations

from django.db import models
from django.db.models import Q


class RightsVersion(models.Model):
    """The single row that counts changes of permissions (`tenancy.authz.permission_epoch`); written by the first one.

    A transaction that changes permissions locks it after all other rows, and locks nothing afterwards: waiting for it
    never blocks another transaction that could finish.
    """

    singleton = models.PositiveSmallIntegerField(primary_key=True, default=1)
    number = models.BigIntegerField(default=0, help_text="Number of changes of permissions.")

    class Meta:
        verbose_name = "permission version"
        constraints = [models.CheckConstraint(condition=Q(singleton=1), name="one_rights_version")]

    def __str__(self) -> str:
        return str(self.number)
