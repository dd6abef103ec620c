"""The objects directly in a warehouse or namespace, as rows of a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest

from catalog.identifiers import Levels
from catalog.selectors.browse import NAMESPACE, TabularFacts, find_facts, list_children_for
from icekeeper.kernel.http.paging import Page as ListingPage
from management.admin.navigation import object_url
from tenancy.actor import Actor

ROWS_A_PAGE: Final = 50


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


def contents_context(request: HttpRequest, actor: Actor, warehouse_id: UUID, levels: Levels | None) -> dict[str, Any]:
    """Return the rows of a page of the contents, and the address of the next page."""
    page = ListingPage("contents", request.GET.get("after"), ROWS_A_PAGE)
    children, token = list_children_for(actor=actor, warehouse_id=warehouse_id, levels=levels, page=page)
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
        "has_facts": bool(facts),
        "next_url": None if token is None else f"?{urlencode({'after': token})}",
        "is_first_page": page.token is None,
    }
