from __future__ import annotations

from typing import Any

from django.db import models

from icekeeper.kernel.ids import new_id


class Grant(models.Model):
    """One privilege of one user or role on one securable, until `expires_at` if that is set.

    Exactly one of user and role is set. `owned_role` is the securable when it is a role, and the privilege ownership:
    its owners are members of it, which is looked up like a membership. `path` is the securable's, always: what somebody
    holds below a place is found by an index, however much they hold elsewhere. Who makes a grant on what may be moved
    has locked the securable.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    securable = models.ForeignKey("tenancy.Securable", on_delete=models.CASCADE, related_name="grants", db_index=False)
    path = models.TextField()
    user = models.ForeignKey("tenancy.User", on_delete=models.CASCADE, null=True, related_name="grants", db_index=False)
    role = models.ForeignKey("tenancy.Role", on_delete=models.CASCADE, null=True, related_name="grants", db_index=False)
    privilege = models.CharField(max_length=64)
    owned_role = models.ForeignKey(
        "tenancy.Role", on_delete=models.CASCADE, null=True, related_name="owners", db_index=False
    )
    expires_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["securable", "user", "privilege"], name="grant_to_user_once"),
            models.UniqueConstraint(fields=["securable", "role", "privilege"], name="grant_to_role_once"),
            models.CheckConstraint(
                condition=models.Q(user__isnull=True, role__isnull=False)
                | models.Q(user__isnull=False, role__isnull=True),
                name="grant_is_to_user_or_role",
            ),
            models.CheckConstraint(condition=~models.Q(path=""), name="grant_has_a_place"),
        ]
        indexes = [
            models.Index(
                fields=["user", "path"], opclasses=["varchar_pattern_ops", "text_pattern_ops"], name="grant_of_user"
            ),
            models.Index(fields=["role", "path"], opclasses=["uuid_ops", "text_pattern_ops"], name="grant_of_role"),
            models.Index(fields=["owned_role"], condition=models.Q(owned_role__isnull=False), name="grant_of_roles"),
            models.Index(fields=["user"], condition=models.Q(owned_role__isnull=False), name="grant_of_roles_to_user"),
            models.Index(fields=["role"], condition=models.Q(owned_role__isnull=False), name="grant_of_roles_to_role"),
        ]

    def __str__(self) -> str:
        return f"{self.privilege} on {self.securable_id} to {self.user_id or self.role_id}"

    def save(self, *args: Any, **options: Any) -> None:
        self.path = self.securable.path
        super().save(*args, **options)
