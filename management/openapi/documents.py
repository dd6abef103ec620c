"""The OpenAPI documents of the APIs, and the pages that show them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import include, path
from django.views.decorators.http import require_safe
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import EndpointEnumerator, SchemaGenerator
from drf_spectacular.views import SpectacularSwaggerView
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.http.base_url import base_path
from icekeeper.kernel.json.strict import write_json
from icekeeper.version import VERSION
from management.openapi.examples import add_examples, read_exchanges


@dataclass(frozen=True, slots=True)
class Api:
    """One API that has a document: its prefix, its routes and the meaning of its tags."""

    prefix: str
    routes: str
    title: str
    description: str
    tags: dict[str, str]


APIS: Final = {
    "management": Api(
        "management/",
        "management.api.urls",
        "Icekeeper management API",
        "Administration of the server, its projects and its warehouses. Unknown members of a request body are ignored. "
        "Every response has an `X-Request-Id`, which is `request_id` in the log of the server.",
        {
            "server": "This server",
            "project": "Groups of warehouses",
            "warehouse": "Storage of tables, and their contents",
            "tasks": "Work in the background, and the configuration of its queues",
            "user": "Users and service accounts",
            "role": "Groups of users in a project",
            "permission": "Permissions and direct assignments on objects",
            "tag": "Tags of projects, and the objects that have them",
            "authorization": "Permission checks and allowed actions",
            "grant": "Grants of privileges on objects",
            "token": "Access tokens of users and service accounts",
            "access-review": "Reviews of access: permissions and the grants that give them",
            "change-rule": "Rules that approve or reject changes before they are written, and what they found",
            "audit": "The audit trail",
            "events": "Events of changes",
            "event-sinks": "Receivers of events, and the deliveries to them",
        },
    ),
    "catalog": Api(
        "catalog/",
        "catalog.api.urls",
        "Icekeeper Iceberg REST catalog",
        "The operations of the [Apache Iceberg REST catalog](https://iceberg.apache.org/rest-catalog-spec/) that this "
        "server has. Unknown members of a request body are ignored; inside table metadata they are kept. "
        "Every response has an `X-Request-Id`, which is `request_id` in the log of the server.",
        {
            "Configuration API": "Configuration of clients",
            "OAuth2 API": "Short-lived tokens for clients with a credential",
            "Catalog API": "Namespaces, tables and views",
        },
    ),
    "generic-tables": Api(
        "lakekeeper/",
        "catalog.api.generic_table_urls",
        "Icekeeper generic tables",
        "Tables in other formats than Iceberg (Lance, Delta, CSV, ...): with names, locations, descriptions and "
        "permissions like the tables of the catalog, whose namespaces they share. Their content is not read, and there "
        "are no commits. Unknown members of a request body are ignored. "
        "Every response has an `X-Request-Id`, which is `request_id` in the log of the server.",
        {"generic-table": "Tables in other formats"},
    ),
}


TOKEN: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "If authentication is enabled, every operation needs a token of an identity provider that the "
    "server trusts; without a valid one the response is 401. With the header `x-assume-role: <role id>` the request "
    "has the permissions of that role only.",
}


@dataclass(frozen=True, slots=True)
class Document:
    """An OpenAPI document, and complaints about what is missing or guessed in it."""

    content: dict[str, Any]
    complaints: list[str]


class Endpoints(EndpointEnumerator):
    """HEAD is documented where it has an action or a method of its own."""

    def get_allowed_methods(self, callback: Any) -> list[str]:
        methods: list[str] = super().get_allowed_methods(callback)  # type: ignore[no-untyped-call]
        actions = getattr(callback, "actions", {})
        # Serving a request, DRF adds an action for HEAD that is the one for GET.
        has_action = actions.get("head") not in {None, actions.get("get")}
        return [*methods, "HEAD"] if has_action or hasattr(callback.cls, "head") else methods


class DocumentGenerator(SchemaGenerator):
    endpoint_inspector_cls = Endpoints


_one_at_a_time = threading.Lock()
"""drf-spectacular counts its complaints for the whole process."""


def build_document(name: str) -> Document:
    """Build the document of the API `name`, a key of `APIS`. Takes some 100 ms; nothing is printed."""
    api = APIS[name]
    with _one_at_a_time, GENERATOR_STATS.silence():
        generator = DocumentGenerator(patterns=[path(api.prefix, include(api.routes))])  # type: ignore[no-untyped-call]
        content: dict[str, Any] = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
        complaints = [*GENERATOR_STATS._warn_cache, *GENERATOR_STATS._error_cache]  # noqa: SLF001
    content["info"] = {
        "title": api.title,
        "version": VERSION,
        "description": api.description,
        "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
    }
    content["tags"] = [{"name": tag, "description": meaning} for tag, meaning in api.tags.items()]
    content.setdefault("components", {})["securitySchemes"] = {"token": TOKEN}
    content["security"] = [{"token": []}, {}]
    return Document(content, complaints + add_examples(content, read_exchanges(name)))


@cache
def _document_bytes(name: str) -> bytes:
    """Cached for the life of the process: a document depends on nothing but the code."""
    return write_json(build_document(name).content)


def serve_openapi(request: HttpRequest, name: str) -> HttpResponse:
    if name not in APIS:
        raise Http404
    return HttpResponse(_document_bytes(name), content_type="application/json")


@require_safe
def redirect_to_swagger_ui(request: HttpRequest, page: str = "") -> HttpResponse:
    """Serve the paths of Lakekeeper's console, which this server does not have yet."""
    return HttpResponseRedirect(f"{base_path(request.META, settings.ICEKEEPER)}/swagger-ui/")


class SwaggerView(SpectacularSwaggerView):
    """Swagger UI with all documents, switched by a selector in its bar; the one named `first` is shown at first."""

    title = "Icekeeper API"
    url = "/api-docs/"  # not used: the settings below name them all
    first = "management"
    schema = None  # a page, no operation of an API

    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page: Response = super().get(request, *args, **kwargs)  # type: ignore[no-untyped-call]
        prefix = base_path(request.META, settings.ICEKEEPER)
        for name in ("swagger_ui_css", "swagger_ui_bundle", "swagger_ui_standalone", "favicon_href"):
            page.data[name] = f"{prefix}{page.data[name]}"
        documents = [
            {"name": api.title, "url": f"{prefix}/api-docs/{name}/v1/openapi.json"} for name, api in APIS.items()
        ]
        page.data["settings"] = f"""{{
          "urls": {write_json(documents).decode()},
          "urls.primaryName": {write_json(APIS[self.first].title).decode()},
          "deepLinking": true,
          "layout": "StandaloneLayout",
          "presets": [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset]
        }}"""
        return page
