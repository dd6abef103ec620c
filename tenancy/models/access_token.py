from __future__ import annotations

from django.db import models

from icekeeper.kernel.ids import new_id


class AccessToken(models.Model):
    """A token that this server issued to a user: a person's own, or a secret of a service account.

    The token itself is shown once and stored nowhere: `digest` is its SHA-256 in hex, `prefix` its beginning up to the
    secret, by which people recognise it. `scopes` bound what can be done with it, separated by spaces. One that was
    rotated ends at `expires_at`, and `replaced_by` is the new one; a revoked one has ended at `revoked_at`.
    `created_by` is the actor, `created_with` the token that they had, if it was one of these. One that was made with
    another of the same user has `not_after`: neither it nor what replaces it ends later.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    user = models.ForeignKey("tenancy.User", on_delete=models.CASCADE, related_name="access_tokens", db_index=False)
    name = models.CharField(max_length=255)
    prefix = models.CharField(max_length=32)
    digest = models.CharField(max_length=64)
    scopes = models.CharField(max_length=255)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=255)
    created_with = models.UUIDField(null=True)
    expires_at = models.DateTimeField()
    not_after = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    replaced_by = models.OneToOneField("self", on_delete=models.SET_NULL, null=True, related_name="replaces")

    class Meta:
        indexes = [
            models.Index(fields=["user", "id"], name="access_token_of_user"),
            models.Index(fields=["expires_at"], name="access_token_by_expiry"),
            models.Index(fields=["revoked_at"], name="access_token_by_revocation"),
        ]

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.user_id}"
