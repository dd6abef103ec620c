from __future__ import annotations

from django.db import models


class SigningSecret(models.Model):
    """The random text that the keys of this deployment are derived from; a single row, created on first use.

    It is a secret: only `tenancy.signing_secret` reads it.
    """

    singleton = models.SmallIntegerField(primary_key=True, default=1)
    text = models.CharField(max_length=128, help_text="Secret: never show it.")

    class Meta:
        verbose_name = "signing secret"
        constraints = [models.CheckConstraint(condition=models.Q(singleton=1), name="signing_secret_is_one_row")]

    def __str__(self) -> str:
        return "signing secret"
