from __future__ import annotations

from django.db import models


class TabularMetadata(models.Model):
    """The exact bytes of the metadata file that the pointer names, so that a load needs no object store.

    A row of its own: the pointer row stays narrow, and a hot load that has the bytes in memory reads only that one.
    `document` is null when the bytes exceed the inline limit: then they are in the object store only.
    """

    tabular = models.OneToOneField(
        "catalog.Tabular", on_delete=models.CASCADE, primary_key=True, related_name="current_metadata"
    )
    document = models.BinaryField(null=True)

    def __str__(self) -> str:
        return str(self.tabular_id)
