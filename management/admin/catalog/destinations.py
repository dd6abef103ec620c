"""Namespaces that forms suggest as destinations of a move."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from catalog.identifiers import Levels
from catalog.selectors.namespaces import list_namespaces_for
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.paging import Page as ListingPage
from management.admin.level_text import join_levels
from tenancy.actor import Actor

SUGGESTED: Final = 50
"""Namespaces of each level that is suggested."""


def list_destinations(actor: Actor, warehouse_id: UUID, levels: Levels) -> list[str]:
    """Return the first namespaces of the warehouse, and those next to `levels`, as texts of `join_levels`.

    At most two listings; a level that the actor may not list is left out.
    """
    found: list[str] = []
    for parent in dict.fromkeys((None, levels[:-1] or None)):
        page = ListingPage("console destinations", None, SUGGESTED)
        try:
            listed, _token = list_namespaces_for(actor=actor, warehouse_id=warehouse_id, parent=parent, page=page)
        except CatalogError:
            continue
        found += [join_levels(each.levels) for each in listed]
    return found
