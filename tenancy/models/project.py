from __future__ import annotations

from typing import Self

from django.db import models

from icekeeper.kernel.names import name_key
from tenancy.models.querysets import VisibleQuerySet


class ProjectQuerySet(VisibleQuerySet["Project"]):
    def named(self, name: str) -> Self:
        """Return the project with a name, however it is spelled."""
        return self.filter(name_key=name_key(name))


class Project(models.Model):
    """A tenant: the parent of warehouses, roles and tag definitions."""

    id = models.CharField(
        primary_key=True, max_length=128, help_text="Letters, digits, _ and -; the default project has the nil UUID."
    )
    name = models.CharField(max_length=128, help_text="Unique on the server, ignoring case.")
    name_key = models.CharField(max_length=2048, help_text="Normalised name, which is unique.")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ProjectQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name_key"], name="project_name_once")]

    def __str__(self) -> str:
        return self.name
