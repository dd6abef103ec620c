from __future__ import annotations

from django.db import models

from icekeeper.kernel.ids import new_id


class Server(models.Model):
    """The one row about this deployment; made by the first migration, filled in by bootstrap.

    With `is_read_only` the deployment is in maintenance mode (`tenancy.maintenance`). `authz_backend` is who decided
    about rights when the server last began to serve: empty when it has not since bootstrap, None before that, and for
    servers of versions that let everybody do everything.
    """

    singleton = models.SmallIntegerField(primary_key=True, default=1)
    server_id = models.UUIDField(default=new_id)
    bootstrapped_at = models.DateTimeField(null=True)
    terms_accepted_at = models.DateTimeField(null=True)
    is_read_only = models.BooleanField(default=False)
    authz_backend = models.CharField(max_length=255, null=True)  # noqa: DJ001 - unknown is not an empty name

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(singleton=1), name="server_is_one_row")]

    def __str__(self) -> str:
        return str(self.server_id)
