"""Invariants of namespaces and their grants after creates, moves and drops."""

from __future__ import annotations

from catalog.models import Namespace, Tabular
from icekeeper.kernel.names import LEVEL_SEPARATOR, path_key
from tenancy.models import Grant, Securable


def check_trees() -> None:
    """Check that each path extends the parent's, in both spellings, and that each object's grants have its path."""
    namespaces = {row.pk: row for row in Namespace.objects.all()}
    above = {}
    for row in namespaces.values():
        assert row.path_key == path_key(row.levels)
        if row.parent_id is None:
            assert len(row.levels) == 1
            above[f"namespace:{row.pk}"] = f"warehouse:{row.warehouse_id}"
        else:
            parent = namespaces[row.parent_id]
            assert parent.warehouse_id == row.warehouse_id
            assert row.path == f"{parent.path}{LEVEL_SEPARATOR}{row.levels[-1]}"
            above[f"namespace:{row.pk}"] = f"namespace:{parent.pk}"
    above |= {f"{row.kind}:{row.pk}": f"namespace:{row.namespace_id}" for row in Tabular.objects.all()}
    securables = {row.pk: row for row in Securable.objects.all()}
    located = {"namespace", *Tabular.Kind.values}
    assert {pk: row.parent_id for pk, row in securables.items() if row.type in located} == above
    for pk, securable in securables.items():
        path = securables[securable.parent_id].path if securable.parent_id else ""
        assert securable.path == f"{path}{pk}/"
    assert all(path == securables[pk].path for pk, path in Grant.objects.values_list("securable_id", "path"))
