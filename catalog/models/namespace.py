"""Namespaces."""

from __future__ import annotations

from typing import Any, Self
from uuid import UUID

from django.db import models

from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import LEVEL_SEPARATOR
from tenancy.models.querysets import VisibleQuerySet


class NamespaceQuerySet(VisibleQuerySet["Namespace"]):
    def in_warehouse(self, warehouse_id: UUID) -> Self:
        return self.filter(warehouse_id=warehouse_id)

    def in_subtree(self, path_key: str) -> Self:
        """Return the namespace with this `path_key` and those below it; to be called within a warehouse."""
        return self.filter(path_key=path_key) | self.filter(path_key__startswith=f"{path_key}{LEVEL_SEPARATOR}")


class Namespace(models.Model):
    """A folder of tables and views; nested. `path` joins the levels as spelled with U+001F, `path_key` their keys.

    `location`, normalized and immutable, is the folder of new tables without a chosen location; null in namespaces
    that are older than the field, whose tables are directly in the warehouse. It reserves nothing: locations of
    namespaces may be equal or nested, and a table may be in any of them.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    warehouse = models.ForeignKey("storage.Warehouse", on_delete=models.RESTRICT, related_name="namespaces")
    parent = models.ForeignKey("self", on_delete=models.RESTRICT, null=True, related_name="children")
    path = models.TextField(help_text="Levels of the name, joined with the character U+001F.")
    path_key = models.TextField(help_text="Normalised path, which is unique in the warehouse.")
    properties: models.JSONField[dict[str, str]] = models.JSONField(default=dict)
    location = models.TextField(null=True, help_text="Folder of new tables, unless they choose another.")  # noqa: DJ001
    protected = models.BooleanField(default=False, help_text="The namespace can be dropped only with `force`.")
    version = models.BigIntegerField(default=1, help_text="Number of changes, for ETags.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = NamespaceQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["warehouse", "path_key"], name="namespace_once_per_warehouse")]
        indexes = [models.Index(fields=["warehouse", "parent", "id"], name="namespace_by_parent")]

    def __str__(self) -> str:
        return ".".join(self.levels)

    @property
    def levels(self) -> tuple[str, ...]:
        return tuple(self.path.split(LEVEL_SEPARATOR))

    def as_json(self) -> dict[str, Any]:
        shown = shown_properties(self.properties, namespace_id=self.pk, location=self.location)
        return {"namespace": list(self.levels), "properties": shown}


def shown_properties(properties: dict[str, str], *, namespace_id: UUID, location: str | None) -> dict[str, str]:
    """Return the properties as clients see them: with `namespace_id`, and with `location`, which ends with a slash."""
    located = {} if location is None else {"location": f"{location}/"}
    return {**properties, **located, "namespace_id": str(namespace_id)}
