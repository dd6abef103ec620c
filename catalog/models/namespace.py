from __future__ import annotations

from typing import Any

from django.db import models

from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import LEVEL_SEPARATOR


class Namespace(models.Model):
    """A folder of tabulars; nested. `path` joins the spelled levels with U+001F, `path_key` their look-up keys."""

    id = models.UUIDField(primary_key=True, default=new_id)
    warehouse = models.ForeignKey("storage.Warehouse", on_delete=models.RESTRICT, related_name="namespaces")
    parent = models.ForeignKey("self", on_delete=models.RESTRICT, null=True, related_name="children")
    path = models.TextField()
    path_key = models.TextField()
    properties: models.JSONField[dict[str, str]] = models.JSONField(default=dict)
    protected = models.BooleanField(default=False)
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["warehouse", "path_key"], name="namespace_once_per_warehouse")]
        indexes = [models.Index(fields=["warehouse", "parent", "id"], name="namespace_by_parent")]

    def __str__(self) -> str:
        return ".".join(self.levels)

    @property
    def levels(self) -> tuple[str, ...]:
        return tuple(self.path.split(LEVEL_SEPARATOR))

    def as_json(self) -> dict[str, Any]:
        return {"namespace": list(self.levels), "properties": self.properties}
