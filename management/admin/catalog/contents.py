"""The objects directly in a warehouse or namespace, as rows of a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest

from catalog.selectors.browse import NAMESPACE, TabularFacts, find_facts
from catalog.selectors.children import list_children_for
from management.admin.listing_pages import read_pager
from management.admin.navigation import object_url
from management.admin.pages import read_query
from tenancy.actor import Actor


@dataclass(frozen=True, slots=True)
class ContentRow:
    kind: str
    name: str
    url: str
    id: UUID
    is_protected: bool
    facts: TabularFacts | None = None

    @property
    def icon(self) -> str:
        return "folder" if self.kind == "namespace" else self.kind


def contents_context(
    request: HttpRequest, actor: Actor, warehouse_id: UUID, namespace_id: UUID | None
) -> dict[str, Any]:
    """Return the rows of a page of the contents, its filter, and the addresses of the first and the next page."""
    wanted = read_query(request, "name")
    pager = read_pager(request, "contents", warehouse_id, namespace_id, name=wanted)
    children, token = list_children_for(
        actor=actor, warehouse_id=warehouse_id, namespace_id=namespace_id, page=pager.page, part_of_name=wanted
    )
    uuids = [each.id for each in children if each.kind != NAMESPACE]
    facts = find_facts(warehouse_id=warehouse_id, uuids=uuids)
    rows = [
        ContentRow(
            each.kind, each.name, object_url(each.kind, each.id, warehouse_id), each.id, each.is_protected,
            facts.get(each.id),
        )
        for each in children
    ]  # fmt: skip
    return {
        "rows": rows,
        "name": wanted,
        "has_facts": bool(facts),
        **pager.links(token),
    }
