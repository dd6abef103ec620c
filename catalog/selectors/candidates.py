"""Conditions that leave out most of what is hidden from a caller, for searches and lists over whole warehouses.

The rows that remain are checked as without them: the conditions only keep hidden rows from being read. The condition of
warehouses is `storage.selectors.candidate_warehouses`.
"""

from __future__ import annotations

from django.db.models import Q

from icekeeper.kernel.db.lookups import IsAmong
from tenancy.authz.port import VisibleObjects


def candidate_namespaces(visible: VisibleObjects | None) -> Q:
    if visible is None:
        return Q()
    return Q(IsAmong("pk", visible.namespaces | visible.parents)) | _in_warehouses(visible)


def candidate_tabulars(visible: VisibleObjects | None) -> Q:
    if visible is None:
        return Q()
    directly = Q(IsAmong("pk", visible.tabulars)) | Q(IsAmong("namespace_id", visible.namespaces))
    return directly | _in_warehouses(visible)


def _in_warehouses(visible: VisibleObjects) -> Q:
    return Q(IsAmong("warehouse_id", visible.warehouses)) | Q(warehouse__project_id__in=visible.projects)
