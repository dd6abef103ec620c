from __future__ import annotations

from django.db import models


class Project(models.Model):
    """A tenant: the parent of warehouses. `id` is a free string of `[A-Za-z0-9_-]`, by default the nil UUID."""

    id = models.CharField(primary_key=True, max_length=128)
    name = models.CharField(max_length=128)
    name_key = models.CharField(max_length=2048)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name_key"], name="project_name_once")]

    def __str__(self) -> str:
        return self.name
