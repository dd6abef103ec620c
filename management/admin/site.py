"""The console: Django's admin site with our pages, permissions and shell."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import URLPattern, URLResolver, include, path, re_path
from unfold.sites import UnfoldAdminSite

from management.admin.pages import unknown_page
from management.sign_in.paths import sign_in_url

Handler = Callable[..., HttpResponseBase]


class ConsoleSite(UnfoldAdminSite):  # type: ignore[misc]  # Unfold has no types
    """The site at `/ui`. Every signed-in user may open it; permissions decide what a page shows."""

    site_header = site_title = "Icekeeper"
    site_url = None

    def has_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_authenticated)

    def admin_view(self, view: Handler, cacheable: bool = False) -> Handler:  # noqa: FBT001, FBT002 - Django's signature
        """Return a view that leads to the sign-in page without a session. Middleware checks CSRF."""

        @wraps(view)
        def for_signed_in(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not self.has_permission(request):
                target = request.get_full_path() if request.method in {"GET", "HEAD"} else None
                return HttpResponseRedirect(sign_in_url(target))
            return view(request, *args, **kwargs)

        return for_signed_in

    def get_urls(self) -> list[URLPattern | URLResolver]:
        return [path("", include("management.admin.urls")), re_path(r"", self.admin_view(unknown_page))]
