from __future__ import annotations

from datetime import datetime
from typing import Self

from django.db import models

from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import name_key
from tenancy.models.querysets import VisibleQuerySet
from tenancy.models.server import Project


class TagDefinitionQuerySet(VisibleQuerySet["TagDefinition"]):
    def in_project(self, project: Project) -> Self:
        return self.filter(project=project)

    def named(self, name: str) -> Self:
        """Return the definitions with a name, however it is spelled: one a project at most."""
        return self.filter(name_key=name_key(name))


class TagDefinition(models.Model):
    """A tag of a project: which objects can have it, and with which values.

    `scope` lists values of `Scope` in their order. `allowed_values` are those of an enumerated definition in the order
    in which they were added, else empty. Both only grow, so that no attachment becomes invalid.
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
    name = models.CharField(max_length=256, help_text="Unique in the project, ignoring case.")
    name_key = models.CharField(max_length=2048, help_text="Normalised name, which is unique in the project.")
    description = models.TextField(null=True)  # noqa: DJ001 - the API distinguishes null from an empty text
    value_kind = models.CharField(
        max_length=16, choices=ValueKind.choices, help_text="Whether the tag has no value, any value, or one of a list."
    )
    scope: models.JSONField[list[str]] = models.JSONField(help_text="Types of objects that can have the tag.")
    allowed_values: models.JSONField[list[str]] = models.JSONField(
        default=list, help_text="Values of an enumerated tag."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True)

    objects = TagDefinitionQuerySet.as_manager()

    class Meta:
        verbose_name = "tag definition"
        constraints = [
            models.UniqueConstraint(fields=["project", "name_key"], name="tag_name_once_per_project"),
            models.CheckConstraint(
                condition=models.Q(value_kind__in=["marker", "free-text", "enumerated"]), name="tag_value_kind_is_known"
            ),
        ]
        indexes = [models.Index(fields=["project", "id"], name="tag_definition_by_project")]

    def __str__(self) -> str:
        return self.name

    @property
    def changed_at(self) -> datetime:
        """The time of the last update, else of the creation, by which forms detect changes of other users."""
        return self.updated_at or self.created_at


class TagAttachmentQuerySet(VisibleQuerySet["TagAttachment"]):
    def on(self, securable_id: str) -> Self:
        return self.filter(securable_id=securable_id)

    def on_objects(self) -> Self:
        """Return the tags on objects themselves, not on columns."""
        return self.filter(field_id__isnull=True)

    def on_columns(self) -> Self:
        return self.filter(field_id__isnull=False)


class TagAttachment(models.Model):
    """A tag on an object or, with a `field_id`, on that column of a table.

    An object or column has a tag at most once; `value` is null if the definition is a marker. The attachment is deleted
    with its securable; a definition with attachments cannot be deleted.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    definition = models.ForeignKey(
        "tenancy.TagDefinition", on_delete=models.RESTRICT, related_name="attachments", db_index=False
    )
    securable = models.ForeignKey("tenancy.Securable", on_delete=models.CASCADE, related_name="tags")
    field_id = models.IntegerField(null=True, help_text="Column that is tagged; empty for the object itself.")
    value = models.CharField(max_length=256, null=True)  # noqa: DJ001 - no value is not an empty text
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField(null=True)

    objects = TagAttachmentQuerySet.as_manager()

    class Meta:
        verbose_name = "tag attachment"
        # Two each, as SQLite has no NULLS NOT DISTINCT.
        constraints = [
            models.UniqueConstraint(
                fields=["definition", "securable"],
                condition=models.Q(field_id__isnull=True),
                name="tag_once_per_target",
            ),
            models.UniqueConstraint(
                fields=["definition", "securable", "field_id"],
                condition=models.Q(field_id__isnull=False),
                name="tag_once_per_column",
            ),
        ]
        indexes = [models.Index(fields=["definition", "id"], name="tag_attachment_listed")]

    def __str__(self) -> str:
        return f"{self.definition_id} on {self.securable_id}"
