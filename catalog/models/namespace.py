from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import models

from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import LEVEL_SEPARATOR


class Namespace(models.Model):
    """A folder of tabulars; nested. `path` joins the spelled levels with U+001F, `path_key` their look-up keys.

    `location`, in compared form and immutable, is the folder of tabulars without a chosen location; null in namespaces
    that are older than the field, whose tabulars are directly in the warehouse. It is a prefix without a claim:
    locations of namespaces may be equal or nested, and a tabular may be in any of them.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    warehouse = models.ForeignKey("storage.Warehouse", on_delete=models.RESTRICT, related_name="namespaces")
    parent = models.ForeignKey("self", on_delete=models.RESTRICT, null=True, related_name="children")
    path = models.TextField()
    path_key = models.TextField()
    properties: models.JSONField[dict[str, str]] = models.JSONField(default=dict)
    location = models.TextField(null=True)  # noqa: DJ001 - none is not the empty text
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
        shown = shown_properties(self.properties, namespace_id=self.pk, location=self.location)
        return {"namespace": list(self.levels), "properties": shown}


def shown_properties(properties: dict[str, str], *, namespace_id: UUID, location: str | None) -> dict[str, str]:
    """Return the properties as clients see them: with `namespace_id`, and with `location`, which ends with a slash."""
    located = {} if location is None else {"location": f"{location}/"}
    return {**properties, **located, "namespace_id": str(namespace_id)}
