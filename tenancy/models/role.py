from __future__ import annotations

from django.db import models

from icekeeper.kernel.ids import new_id

OWN_PROVIDER = "lakekeeper"
"""`provider_id` of roles that nobody else defines; the name is the peer's, as clients show and filter by it."""


class Role(models.Model):
    """A group of users and other roles in one project.

    `provider_id` and `source_id` say which system knows it and under what name: the tokens of that provider carry the
    `source_id` of the roles that a user has there.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    project = models.ForeignKey("tenancy.Project", on_delete=models.CASCADE, related_name="roles")
    name = models.CharField(max_length=255)
    name_key = models.CharField(max_length=2048)
    description = models.TextField(null=True)  # noqa: DJ001 - null is what the API tells apart from an empty text
    provider_id = models.CharField(max_length=128, default=OWN_PROVIDER)
    source_id = models.CharField(max_length=255)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True)

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
    def ident(self) -> str:
        return ident_of(self.provider_id, self.source_id)


def ident_of(provider_id: str, source_id: str) -> str:
    """What a role is called across systems, unique in its project; no provider holds a `~`."""
    return f"{provider_id}~{source_id}"
