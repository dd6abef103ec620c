"""Search over everything that the user may see: by name, or by the id of an object. Nothing is cached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from catalog.selectors.tables.search import Wanted, search_tabulars_for
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.paging import Page as ListingPage
from management.admin.navigation import object_url
from management.admin.pages import Page, render_page
from management.admin.warehouse_choice import list_warehouses_by_project
from storage.models import Warehouse
from tenancy.models import Project

MAX_HITS: Final = 10
"""Of a warehouse."""
MAX_SHOWN: Final = 30
MAX_WAREHOUSES: Final = 5
"""Active warehouses that one search looks through: the first ones. The page says if there are more."""
MAX_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class Hit:
    kind: str
    name: str
    where: str
    url: str
    distance: float

    @property
    def icon(self) -> str:
        return "folder" if self.kind == "namespace" else self.kind


class SearchPage(Page):
    """The results of a search, as a page or, with `part=results`, for the search box."""

    template_name = "console/search.html"
    title = _("Search")

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        shown = self.context()
        if request.GET.get("part") == "results":
            return render_page(request, "console/parts/search_results.html", shown)
        return self.render(shown)

    def context(self) -> dict[str, Any]:
        text = self.request.GET.get("q", "").strip()[:MAX_LENGTH]
        hits, is_complete = self._find(text) if text else ([], True)
        return {"text": text, "hits": hits, "is_complete": is_complete}

    def _find(self, text: str) -> tuple[list[Hit], bool]:
        """Return the best hits, and whether all warehouses were searched."""
        hits: list[Hit] = []
        searched, is_complete = 0, True
        folded = text.casefold()
        for project, warehouses in list_warehouses_by_project(self.actor).projects:
            if folded in project.name.casefold() or text == project.pk:
                hits.append(
                    Hit(
                        "project",
                        project.name,
                        str(_("project")),
                        _project_url(project),
                        _distance(folded, project.name),
                    )
                )
            for warehouse in warehouses:
                if folded in warehouse.name.casefold() or text == str(warehouse.pk):
                    url = object_url("warehouse", warehouse.pk, None)
                    hits.append(Hit("warehouse", warehouse.name, project.name, url, _distance(folded, warehouse.name)))
                if warehouse.status != Warehouse.Status.ACTIVE:
                    continue
                if searched == MAX_WAREHOUSES:
                    is_complete = False
                    continue
                searched += 1
                hits += self._tabulars(warehouse, text)
        return sorted(hits, key=lambda each: each.distance)[:MAX_SHOWN], is_complete

    def _tabulars(self, warehouse: Warehouse, text: str) -> list[Hit]:
        page = ListingPage("search", None, MAX_HITS)
        try:
            found, _token = search_tabulars_for(
                actor=self.actor, warehouse_id=warehouse.pk, wanted=Wanted(text), page=page
            )
        except CatalogError:
            return []
        return [
            Hit(
                each.kind, each.name, ".".join((warehouse.name, *each.levels)),
                object_url(each.kind, each.uuid, warehouse.pk), each.distance or 0.0,
            )
            for each in found
        ]  # fmt: skip


def _project_url(project: Project) -> str:
    return reverse("admin:project", args=[project.pk])


def _distance(folded: str, name: str) -> float:
    return 0.0 if folded == name.casefold() else 0.3
