"""Sets the project of audit records, so that the auditors of a project find its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tenancy.models import AuditRecord, Securable
from tenancy.refs import securable_id

PROJECT_OBJECT_TYPES: Final = frozenset(
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
"""Types of objects that belong to a project."""

_PROJECT: Final = f"{Securable.Type.PROJECT.value}:"


def set_projects(rows: Sequence[AuditRecord]) -> None:
    """Set the project of unsaved records that have none, with at most one statement; unknown objects keep none."""
    unresolved: dict[str, list[AuditRecord]] = {}
    for row in rows:
        if row.project_id or not row.object_id:
            continue
        if row.object_type == Securable.Type.PROJECT.value:
            row.project_id = row.object_id[:128]
        elif row.object_type in PROJECT_OBJECT_TYPES:
            unresolved.setdefault(securable_id(Securable.Type(row.object_type), row.object_id), []).append(row)
    if not unresolved:
        return
    for key, path in Securable.objects.filter(pk__in=unresolved).values_list("pk", "path"):
        for row in unresolved[key]:
            row.project_id = _project_in(path)


def _project_in(path: str) -> str:
    """Return the project id in a path such as `server:…/project:sales/warehouse:…/`; project ids contain no slash."""
    return next((part.removeprefix(_PROJECT) for part in path.split("/") if part.startswith(_PROJECT)), "")
