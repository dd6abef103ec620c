from __future__ import annotations

from django.db import models


class Securable(models.Model):
    """One thing that rights can be granted on, told apart by type and id only.

    Every service that creates, moves or deletes an object writes this row in the same transaction; what a table is, is
    not known here. Users have none: they are only asked about. `path` joins the ids of the ancestors from the root down
    and ends with the own id and a slash, so that a subtree is a prefix. With `managed_access`, which warehouses and
    namespaces may have, whoever owns what lies below may not grant rights on it.
    """

    class Type(models.TextChoices):
        SERVER = "server"
        PROJECT = "project"
        WAREHOUSE = "warehouse"
        NAMESPACE = "namespace"
        TABLE = "table"
        VIEW = "view"
        GENERIC_TABLE = "generic-table"
        ROLE = "role"
        TAG = "tag"
        USER = "user"

    id = models.CharField(primary_key=True, max_length=160, help_text="<type>:<object id>")
    type = models.CharField(max_length=16, choices=Type.choices)
    object_id = models.CharField(max_length=128)
    parent = models.ForeignKey("self", on_delete=models.RESTRICT, null=True, related_name="children", db_index=False)
    path = models.TextField()
    managed_access = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["type", "object_id"], name="securable_once")]
        indexes = [
            models.Index(fields=["path"], opclasses=["text_pattern_ops"], name="securable_by_path"),
            models.Index(fields=["parent", "type", "object_id"], name="securable_by_parent"),
        ]

    def __str__(self) -> str:
        return self.id
