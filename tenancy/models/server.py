from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import Q

from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import name_key
from tenancy.models.querysets import VisibleQuerySet


class Server(models.Model):
    """The single row of this deployment: created by the first migration, filled in by bootstrap.

    With `is_read_only` the deployment is in maintenance mode (`tenancy.maintenance`). `authz_backend` is empty when the
    server has not started since bootstrap. It is null before that, and for servers of versions without authorization.
    """

    singleton = models.SmallIntegerField(primary_key=True, default=1)
    server_id = models.UUIDField(default=new_id)
    bootstrapped_at = models.DateTimeField(null=True)
    terms_accepted_at = models.DateTimeField(null=True, help_text="When the terms of use were accepted.")
    is_read_only = models.BooleanField(default=False, help_text="Maintenance mode: nothing can be changed.")
    authz_backend = models.CharField(  # noqa: DJ001 - unknown is not an empty name
        max_length=255, null=True, help_text="Authorization backend with which the server last started."
    )

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(singleton=1), name="server_is_one_row")]

    def __str__(self) -> str:
        return str(self.server_id)


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


class SigningSecret(models.Model):
    """The random text that the keys of this deployment are derived from; a single row, created on first use.

    It is a secret: only `tenancy.signing_keys` reads it.
    """

    singleton = models.SmallIntegerField(primary_key=True, default=1)
    text = models.CharField(max_length=128, help_text="Secret: never show it.")

    class Meta:
        verbose_name = "signing secret"
        constraints = [models.CheckConstraint(condition=models.Q(singleton=1), name="signing_secret_is_one_row")]

    def __str__(self) -> str:
        return "signing secret"


class ProjectQuerySet(VisibleQuerySet["Project"]):
    def named(self, name: str) -> Self:
        """Return the project with a name, however it is spelled."""
        return self.filter(name_key=name_key(name))


class Project(models.Model):
    """A tenant: the parent of warehouses, roles and tag definitions."""

    id = models.CharField(
        primary_key=True, max_length=128, help_text="Letters, digits, _ and -; the default project has the nil UUID."
    )
    name = models.CharField(max_length=128, help_text="Unique on the server, ignoring case.")
    name_key = models.CharField(max_length=2048, help_text="Normalised name, which is unique.")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ProjectQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name_key"], name="project_name_once")]

    def __str__(self) -> str:
        return self.name
