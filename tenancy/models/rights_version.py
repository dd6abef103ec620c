from __future__ import annotations

from django.db import models
from django.db.models import Q


class RightsVersion(models.Model):
    """The one row that counts changes of rights (`tenancy.authz.permission_epoch`); made by the first of them.

    Whoever changes rights locks it last, whatever rows they hold, and nobody holds it for anything else: so nobody who
    waits for it keeps others from what they need to go on.
    """

    singleton = models.PositiveSmallIntegerField(primary_key=True, default=1)
    number = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(singleton=1), name="one_rights_version")]

    def __str__(self) -> str:
        return str(self.number)
