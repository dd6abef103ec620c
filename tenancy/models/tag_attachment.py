from __future__ import annotations

from typing import Self

from django.db import models

from icekeeper.kernel.ids import new_id
from tenancy.models.querysets import VisibleQuerySet


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
