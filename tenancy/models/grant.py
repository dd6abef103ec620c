"""Grants: privileges of users and roles on securables."""

from __future__ import annotations

from typing import Any, Self
from uuid import UUID

from django.db import models

from icekeeper.kernel.ids import new_id
from tenancy.models.querysets import ExpiringQuerySet
from tenancy.models.securable import Securable


class GrantQuerySet(ExpiringQuerySet["Grant"]):
    def create_on(self, *, securable_id: str, **fields: Any) -> Grant:
        """Create a grant on a securable, with the path of that."""
        path = Securable.objects.values_list("path", flat=True).get(pk=securable_id)
        return self.create(securable_id=securable_id, path=path, **fields)

    def on(self, securable_id: str) -> Self:
        return self.filter(securable_id=securable_id)

    def granted_to(self, *, user_id: str | None, role_id: UUID | None) -> Self:
        """Return the grants of a user or of a role: exactly one of the two is given."""
        return self.filter(user_id=user_id) if role_id is None else self.filter(role_id=role_id)


class Grant(models.Model):
    """A privilege of a user or role on a securable, until `expires_at` if that is set.

    Exactly one of user and role is set. `owned_role` is the securable when that is a role and the privilege ownership:
    owners of a role are members of it, which is looked up like a membership. `path` is a copy of the securable's, so
    that the grants below an object are found by an index: services set it, and rewrite it when the object moves. A
    grant on an object that can be moved is written with the securable locked.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    securable = models.ForeignKey("tenancy.Securable", on_delete=models.CASCADE, related_name="grants", db_index=False)
    path = models.TextField(help_text="Path of the securable.")
    user = models.ForeignKey("tenancy.User", on_delete=models.CASCADE, null=True, related_name="grants", db_index=False)
    role = models.ForeignKey("tenancy.Role", on_delete=models.CASCADE, null=True, related_name="grants", db_index=False)
    privilege = models.CharField(max_length=64)
    owned_role = models.ForeignKey(
        "tenancy.Role",
        on_delete=models.CASCADE,
        null=True,
        related_name="owners",
        db_index=False,
        help_text="The securable, if this is the ownership of a role.",
    )
    expires_at = models.DateTimeField(null=True, help_text="When the grant ends; empty for a permanent grant.")
    created_at = models.DateTimeField(auto_now_add=True)
    granted_by = models.CharField(  # noqa: DJ001 - null: not recorded
        max_length=255, null=True, help_text="Actor who granted it, as in the audit trail."
    )

    objects = GrantQuerySet.as_manager()

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
            models.Index(fields=["expires_at"], condition=models.Q(expires_at__isnull=False), name="grant_by_end"),
        ]

    def __str__(self) -> str:
        return f"{self.privilege} on {self.securable_id} to {self.user_id or self.role_id}"
