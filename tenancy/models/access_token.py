from __future__ import annotations

from django.db import models

from icekeeper.kernel.ids import new_id


class AccessToken(models.Model):
    """A token that this server issued to a user: a person's own, or a secret of a service account.

    The token itself is shown once and stored nowhere: `digest` is its SHA-256 in hex, `prefix` its first characters, by
    which people recognise it. `scopes` bound what can be done with it. One that was rotated ends at `expires_at`, and
    `replaced_by` is the new one; a revoked one has ended at `revoked_at`.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    user = models.ForeignKey("tenancy.User", on_delete=models.CASCADE, related_name="access_tokens")
    name = models.CharField(max_length=255)
    prefix = models.CharField(max_length=32)
    digest = models.CharField(max_length=64, unique=True)
    scopes: models.JSONField[list[str]] = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=255)
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    replaced_by = models.OneToOneField("self", on_delete=models.SET_NULL, null=True, related_name="replaces")

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.user_id}"
