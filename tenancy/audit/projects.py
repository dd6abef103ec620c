"""In which project the objects of rows are, so that each project's auditors find what is theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tenancy.models import AuditRecord, Securable
from tenancy.refs import securable_id

INSIDE: Final = frozenset(
    {
        Securable.Type.WAREHOUSE.value,
        Securable.Type.NAMESPACE.value,
        Securable.Type.TABLE.value,
        Securable.Type.VIEW.value,
        Securable.Type.GENERIC_TABLE.value,
        Securable.Type.ROLE.value,
        Securable.Type.TAG.value,
    }
)
"""Types of what lies in a project."""

_PROJECT: Final = f"{Securable.Type.PROJECT.value}:"


def set_projects(rows: Sequence[AuditRecord]) -> None:
    """For rows that are not saved yet and do not say: one statement, or none. What is not there stays without."""
    unplaced: dict[str, list[AuditRecord]] = {}
    for row in rows:
        if row.project_id or not row.object_id:
            continue
        if row.object_type == Securable.Type.PROJECT.value:
            row.project_id = row.object_id[:128]
        elif row.object_type in INSIDE:
            unplaced.setdefault(securable_id(Securable.Type(row.object_type), row.object_id), []).append(row)
    if not unplaced:
        return
    for key, path in Securable.objects.filter(pk__in=unplaced).values_list("pk", "path"):
        for row in unplaced[key]:
            row.project_id = _project_in(path)


def _project_in(path: str) -> str:
    """Of a path such as `server:…/project:sales/warehouse:…/`; no id of a project holds a slash."""
    return next((part.removeprefix(_PROJECT) for part in path.split("/") if part.startswith(_PROJECT)), "")
