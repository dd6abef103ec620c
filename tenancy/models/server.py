from __future__ import annotations

from django.db import models

from icekeeper.kernel.ids import new_id


class Server(models.Model):
    """The one row about this deployment; made by the first migration, filled in by bootstrap.

    With `is_read_only` the deployment is in maintenance mode (`tenancy.maintenance`).
    """

    singleton = models.SmallIntegerField(primary_key=True, default=1)
    server_id = models.UUIDField(default=new_id)
    bootstrapped_at = models.DateTimeField(null=True)
    terms_accepted_at = models.DateTimeField(null=True)
    is_read_only = models.BooleanField(default=False)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(singleton=1), name="server_is_one_row")]

    def __str__(self) -> str:
        return str(self.server_id)
