from __future__ import annotations

from datetime import datetime
from typing import Self

from django.db import models

from icekeeper.kernel.ids import new_id
from tenancy.models.querysets import VisibleQuerySet


class RoleMemberQuerySet(VisibleQuerySet["RoleMember"]):
    def unexpired(self, at: datetime) -> Self:
        """Return the memberships that have not ended at a time."""
        return self.filter(models.Q(expires_at=None) | models.Q(expires_at__gt=at))

    def in_role(self, role_id: object) -> Self:
        return self.filter(role_id=role_id)


class RoleMember(models.Model):
    """A membership: a user, or another role of the same project with all its members, is in `role`.

    Exactly one of user and member role is set. The membership ends at `expires_at` if that is set.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    role = models.ForeignKey("tenancy.Role", on_delete=models.CASCADE, related_name="memberships", db_index=False)
    user = models.ForeignKey(
        "tenancy.User", on_delete=models.CASCADE, null=True, related_name="memberships", db_index=False
    )
    member_role = models.ForeignKey(
        "tenancy.Role",
        on_delete=models.CASCADE,
        null=True,
        related_name="member_of",
        db_index=False,
        help_text="Role whose members are in the role, too.",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(
        null=True, help_text="When the membership ends; empty for a permanent membership."
    )

    objects = RoleMemberQuerySet.as_manager()

    class Meta:
        verbose_name = "role membership"
        constraints = [
            models.UniqueConstraint(fields=["role", "user"], name="role_member_user_once"),
            models.UniqueConstraint(fields=["role", "member_role"], name="role_member_role_once"),
            models.CheckConstraint(
                condition=models.Q(user__isnull=True, member_role__isnull=False)
                | models.Q(user__isnull=False, member_role__isnull=True),
                name="role_member_is_user_or_role",
            ),
            models.CheckConstraint(
                condition=models.Q(member_role__isnull=True) | ~models.Q(member_role=models.F("role")),
                name="role_member_is_not_itself",
            ),
        ]
        indexes = [
            models.Index(fields=["role", "id"], name="role_member_by_role"),
            models.Index(
                fields=["role", "id"],
                condition=models.Q(member_role__isnull=False),
                name="role_member_roles_by_role",
            ),
            models.Index(fields=["user", "id"], name="role_member_by_user"),
            models.Index(
                fields=["expires_at"], condition=models.Q(expires_at__isnull=False), name="role_member_by_end"
            ),
            models.Index(
                fields=["member_role", "id"],
                condition=models.Q(member_role__isnull=False),
                name="role_member_by_member_role",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id or self.member_role_id} in {self.role_id}"
