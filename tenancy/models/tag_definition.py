from __future__ import annotations

from django.db import models

from icekeeper.kernel.ids import new_id


class TagDefinition(models.Model):
    """A word of a project's vocabulary: which targets may carry it, and with what values.

    `scope` lists values of `Scope` in their order. `allowed_values` are those of an enumerated definition, in the order
    in which they were added, else empty. What may stand in it never becomes less, so that no attachment becomes wrong.
    """

    class ValueKind(models.TextChoices):
        MARKER = "marker"
        FREE_TEXT = "free-text"
        ENUMERATED = "enumerated"

    class Scope(models.TextChoices):
        WAREHOUSE = "warehouse"
        NAMESPACE = "namespace"
        TABLE = "table"
        VIEW = "view"
        GENERIC_TABLE = "generic-table"
        COLUMN = "column"

    id = models.UUIDField(primary_key=True, default=new_id)
    project = models.ForeignKey(
        "tenancy.Project", on_delete=models.CASCADE, related_name="tag_definitions", db_index=False
    )
    name = models.CharField(max_length=256)
    name_key = models.CharField(max_length=2048)
    description = models.TextField(null=True)  # noqa: DJ001 - null is what the API tells apart from an empty text
    value_kind = models.CharField(max_length=16, choices=ValueKind.choices)
    scope: models.JSONField[list[str]] = models.JSONField()
    allowed_values: models.JSONField[list[str]] = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name_key"], name="tag_name_once_per_project"),
            models.CheckConstraint(
                condition=models.Q(value_kind__in=["marker", "free-text", "enumerated"]), name="tag_value_kind_is_known"
            ),
        ]
        indexes = [models.Index(fields=["project", "id"], name="tag_definition_by_project")]

    def __str__(self) -> str:
        return self.name
