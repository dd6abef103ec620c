"""The project of a page, which its address names: `?project=`; without it the first one that the user sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from icekeeper.kernel.errors.types import NotFound
from tenancy.models import Project


def choose_project(projects: Sequence[Project], wanted: str) -> Project | None:
    """Return the project with the id `wanted`, the first one without it. Raises `NotFound` for one not among them."""
    if not wanted:
        return next(iter(projects), None)
    for each in projects:
        if each.pk == wanted:
            return each
    raise NotFound("No such project")


def project_context(projects: Sequence[Project], current: Project | None) -> dict[str, Any]:
    """Return what the template shows for the choice of the project."""
    return {
        "projects": [(each.pk, each.name, current is not None and each.pk == current.pk) for each in projects],
        "project": current,
    }
