from __future__ import annotations

from django.db import models

from icekeeper.kernel.ids import new_id


class TagAttachment(models.Model):
    """A tag on a target: on what a securable stands for or, with a `field_id`, on that column of the table.

    At most one of a definition on each target, whose `value` is null if the definition is a marker. It goes with its
    securable; a definition that has one cannot go.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    definition = models.ForeignKey(
        "tenancy.TagDefinition", on_delete=models.RESTRICT, related_name="attachments", db_index=False
    )
    securable = models.ForeignKey("tenancy.Securable", on_delete=models.CASCADE, related_name="tags")
    field_id = models.IntegerField(null=True)
    value = models.CharField(max_length=256, null=True)  # noqa: DJ001 - none is not the empty text
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField(null=True)

    class Meta:
        # Two each, as SQLite cannot be told that two nulls are the same.
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
