from __future__ import annotations

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q

from icekeeper.kernel.ids import new_id
from tenancy.models.querysets import VisibleQuerySet


class AccessTokenQuerySet(VisibleQuerySet["AccessToken"]):
    def of_user(self, user_id: str) -> Self:
        return self.filter(user_id=user_id)

    def live(self, at: datetime) -> Self:
        """Return the tokens that are neither revoked nor expired at a time."""
        return self.filter(revoked_at=None, expires_at__gt=at)

    def ended_before(self, at: datetime) -> Self:
        """Return the tokens that were revoked or expired before a time."""
        return self.filter(Q(expires_at__lt=at) | Q(revoked_at__lt=at))


class AccessToken(models.Model):
    """A token that this server issued to a user: a personal token, or a secret of a service account.

    The token itself is returned once and not stored. A rotated token expires at `expires_at`, and `replaced_by` is the
    new one. A token that was created with another one of the same user has `not_after`: neither it nor what replaces it
    expires later.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    user = models.ForeignKey("tenancy.User", on_delete=models.CASCADE, related_name="access_tokens", db_index=False)
    name = models.CharField(max_length=255, help_text="Name that the user gave the token.")
    prefix = models.CharField(
        max_length=32, help_text="Beginning of the token up to its secret, by which users recognise it."
    )
    digest = models.CharField(max_length=64, help_text="SHA-256 of the token, in hex.")
    scopes = models.CharField(max_length=255, help_text="Scopes that limit the token, separated by spaces.")
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=255, help_text="User id of the actor who created the token.")
    created_with = models.UUIDField(null=True, help_text="Access token that the actor used, if any.")
    expires_at = models.DateTimeField()
    not_after = models.DateTimeField(null=True, help_text="Latest expiry of the token and of all that replace it.")
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True, help_text="Last use; recorded with a delay of up to 30 seconds.")
    replaced_by = models.OneToOneField("self", on_delete=models.SET_NULL, null=True, related_name="replaces")

    objects = AccessTokenQuerySet.as_manager()

    class Meta:
        verbose_name = "access token"
        indexes = [
            models.Index(fields=["user", "id"], name="access_token_of_user"),
            models.Index(fields=["expires_at"], name="access_token_by_expiry"),
            models.Index(fields=["revoked_at"], name="access_token_by_revocation"),
        ]

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.user_id}"
