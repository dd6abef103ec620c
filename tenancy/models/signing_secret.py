from __future__ import annotations

from django.db import models


class SigningSecret(models.Model):
    """The random text that keys of this deployment are derived from (`tenancy.signing_secret`); one row, or none yet.

    A secret: nothing but that module reads it.
    """

    singleton = models.SmallIntegerField(primary_key=True, default=1)
    text = models.CharField(max_length=128)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(singleton=1), name="signing_secret_is_one_row")]

    def __str__(self) -> str:
        return "signing secret"
