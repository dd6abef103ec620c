"""Search over everything that the user may see: by name, column, tag, location or id. Nothing is cached."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from catalog.selectors.search import Scope, SearchHit, SearchText, search_for
from management.admin.navigation import Text, object_url
from management.admin.pages import Page, render_page
from tenancy.selectors.projects import list_projects_for

MAX_SHOWN: Final = 50
MAX_IN_BOX: Final = 20
"""In the search box, where the user types on."""

LABELS: Final[dict[Scope, Text]] = {
    Scope.NAME: _("Names"),
    Scope.COLUMN: _("Columns"),
    Scope.TAG: _("Tags"),
    Scope.LOCATION: _("Locations"),
    Scope.ID: _("Ids"),
}
ICONS: Final = {"namespace": "folder", "project": "catalog"}


class SearchPage(Page):
    """The results of a search, as a page or, with `part=results`, for the search box."""

    template_name = "console/search.html"
    title = _("Search")

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if request.GET.get("part") == "results":
            return render_page(request, "console/parts/search_results.html", self._results(MAX_IN_BOX))
        return self.render(self.context())

    def context(self) -> dict[str, Any]:
        shown = self._results(MAX_SHOWN)
        scope, text = shown["scope"], shown["term"]
        chips: list[tuple[Text, str | None]] = [(_("Everything"), None), *((LABELS[each], each) for each in Scope)]
        return shown | {
            "chips": [
                (label, f"?{urlencode({'q': text, **({'in': each} if each else {})})}", each == scope)
                for label, each in chips
            ]
        }

    def _results(self, limit: int) -> dict[str, Any]:
        text = self.request.GET.get("q", "")
        wanted = SearchText.parse(text)
        chosen = self.request.GET.get("in")
        if wanted.scope is None and chosen in set(Scope):
            wanted = SearchText(wanted.text, Scope(chosen))
        result = search_for(actor=self.actor, wanted=wanted, projects=list_projects_for(actor=self.actor), limit=limit)
        return {
            "text": wanted.text,
            "term": wanted.text,
            "scope": wanted.scope,
            "hits": [_shown(each) for each in result.hits],
            "has_more": result.has_more,
        }


def _shown(hit: SearchHit) -> dict[str, Any]:
    url = reverse("admin:project", args=[hit.id]) if hit.kind == "project" else None
    return {
        "icon": ICONS.get(hit.kind, hit.kind),
        "kind": hit.kind,
        "name": hit.name,
        "where": " / ".join(hit.path) or hit.kind,
        "url": url or object_url(hit.kind, hit.id, hit.warehouse_id),
        "tags": hit.tags,
        "columns": hit.columns,
        "location": hit.location,
    }
