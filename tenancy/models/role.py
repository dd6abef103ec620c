from __future__ import annotations

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q

from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import name_key
from tenancy.models.querysets import ExpiringQuerySet, VisibleQuerySet
from tenancy.models.server import Project

OWN_PROVIDER = "lakekeeper"
"""`provider_id` of roles that no identity provider defines; Lakekeeper's name, as clients show it and filter by it."""


class RoleQuerySet(VisibleQuerySet["Role"]):
    def in_project(self, project: Project) -> Self:
        return self.filter(project=project)

    def named(self, name: str) -> Self:
        """Return the roles with a name, however it is spelled: one a project at most."""
        return self.filter(name_key=name_key(name))

    def changed_at(self, at: datetime) -> Self:
        """Return the roles that were last changed, or else created, at a time."""
        return self.filter(Q(updated_at=at) | Q(updated_at=None, created_at=at))


class Role(models.Model):
    """A group of users and other roles in a project.

    Tokens of the identity provider `provider_id` name the roles of their user by `source_id`.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    project = models.ForeignKey("tenancy.Project", on_delete=models.CASCADE, related_name="roles")
    name = models.CharField(max_length=255, help_text="Unique in the project, ignoring case.")
    name_key = models.CharField(max_length=2048, help_text="Normalised name, which is unique in the project.")
    description = models.TextField(null=True)  # noqa: DJ001 - the API distinguishes null from an empty text
    provider_id = models.CharField(
        max_length=128, default=OWN_PROVIDER, help_text="Identity provider that defines the role."
    )
    source_id = models.CharField(max_length=255, help_text="Name of the role in the tokens of its provider.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True)

    objects = RoleQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name_key"], name="role_name_once_per_project"),
            models.UniqueConstraint(
                fields=["project", "provider_id", "source_id"], name="role_source_once_per_project"
            ),
        ]
        indexes = [
            models.Index(fields=["project", "id"], name="role_by_project"),
            models.Index(fields=["provider_id", "source_id"], name="role_by_source"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def changed_at(self) -> datetime:
        """The time of the last update, else of the creation, by which forms detect changes of other users."""
        return self.updated_at or self.created_at

    @property
    def ident(self) -> str:
        return ident_of(self.provider_id, self.source_id)


def ident_of(provider_id: str, source_id: str) -> str:
    """Return the identifier of a role across systems, unique in its project; no provider id contains a `~`."""
    return f"{provider_id}~{source_id}"


class RoleMemberQuerySet(ExpiringQuerySet["RoleMember"]):
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
    granted_by = models.CharField(  # noqa: DJ001 - null: not recorded
        max_length=255, null=True, help_text="Actor who added the member, as in the audit trail."
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
