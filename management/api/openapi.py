"""The OpenAPI documents of both APIs, and the page that shows them."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.settings import patched_settings
from drf_spectacular.views import SpectacularSwaggerView

from icekeeper.kernel.json_text import write_json

DOCUMENTS: dict[str, dict[str, Any]] = {
    "management": {
        "TITLE": "Icekeeper management API",
        "DESCRIPTION": "Projects and warehouses of an Icekeeper server.",
    },
    "catalog": {
        "TITLE": "Icekeeper Iceberg REST catalog",
        "DESCRIPTION": "The operations of the Apache Iceberg REST catalog specification that this server has.",
    },
}


def openapi_document(name: str) -> dict[str, Any]:
    """The document of the API `management` or `catalog`."""
    with patched_settings(DOCUMENTS[name]):
        document: dict[str, Any] = SchemaGenerator(urlconf="icekeeper.urls").get_schema(request=None, public=True)
    document["paths"] = {path: item for path, item in document["paths"].items() if path.startswith(f"/{name}/")}
    return document


def serve_openapi(request: HttpRequest, name: str) -> HttpResponse:
    if name not in DOCUMENTS:
        raise Http404
    return HttpResponse(write_json(openapi_document(name)), content_type="application/json")


class SwaggerView(SpectacularSwaggerView):
    """Both documents on one page, switched by a selector."""
