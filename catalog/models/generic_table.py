from __future__ import annotations

from django.db import models


class GenericTable(models.Model):
    """The description of a `Tabular` in another format than Iceberg (Lance, Delta, CSV, ...); never updated.

    `schema` and `statistics` are JSON texts, so that every database keeps the order of keys; null when not given. The
    server does not interpret them.
    """

    tabular = models.OneToOneField(
        "catalog.Tabular", on_delete=models.CASCADE, primary_key=True, related_name="generic_table"
    )
    format = models.CharField(max_length=64)
    doc = models.TextField(null=True)  # noqa: DJ001 - none is not the empty text
    properties: models.JSONField[dict[str, str]] = models.JSONField(default=dict)
    schema = models.TextField(null=True)  # noqa: DJ001
    statistics = models.TextField(null=True)  # noqa: DJ001

    def __str__(self) -> str:
        return str(self.tabular_id)
