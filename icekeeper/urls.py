"""All routes. Patterns below the API prefixes match the raw, encoded path: see `icekeeper.http.application`."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from management.admin.pages import redirect_to_console
from management.health import health, live, ready
from management.openapi.documents import SwaggerView, redirect_to_swagger_ui, serve_openapi
from management.openapi.event_document import serve_event_document

urlpatterns: list[URLPattern | URLResolver] = [
    path("catalog/", include("catalog.api.urls")),
    path("lakekeeper/", include("catalog.api.generic_table_urls")),
    path("management/", include("management.api.urls")),
    path("health", health, name="health"),
    path("health/live", live, name="health-live"),
    path("health/ready", ready, name="health-ready"),
]

HAS_CONSOLE = settings.ICEKEEPER.console.enabled

if HAS_CONSOLE:
    urlpatterns += [
        path("", redirect_to_console, name="home"),
        path("ui", redirect_to_console, name="console"),
        path("ui/", include("management.sign_in.urls")),
        path("ui/", admin.site.urls),
    ]

if settings.ICEKEEPER.serve_swagger_ui:
    if not HAS_CONSOLE:
        urlpatterns += [
            path("", redirect_to_swagger_ui, name="home"),
            path("ui", redirect_to_swagger_ui, name="console"),
            path("ui/<path:page>", redirect_to_swagger_ui, name="console-page"),
        ]
    urlpatterns += [
        path("swagger-ui", SwaggerView.as_view(first="management"), name="swagger-ui"),
        path("swagger-ui/", SwaggerView.as_view(first="management"), name="swagger-ui-home"),
        path("swagger-ui/catalog", SwaggerView.as_view(first="catalog"), name="swagger-catalog"),
        path("swagger-ui/generic-tables", SwaggerView.as_view(first="generic-tables"), name="swagger-generic-tables"),
        path("api-docs/<str:name>/v1/openapi.json", serve_openapi, name="openapi"),
        path("api-docs/events/v1/asyncapi.json", serve_event_document, name="asyncapi"),
    ]

handler400 = "icekeeper.http.application.bad_request"
handler403 = "icekeeper.http.application.forbidden"
handler404 = "icekeeper.http.application.not_found"
handler500 = "icekeeper.http.application.server_error"
