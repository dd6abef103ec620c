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
from management.openapi.examples import put_examples, read_exchanges


@dataclass(frozen=True, slots=True)
class Api:
    """One API that has a document: below which prefix, made of which routes, and what its tags mean."""

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
        "The server, its projects and its warehouses. Unknown members of a request body are ignored. "
        "Every answer has an `X-Request-Id`, which the server's log lines have as `request_id`.",
        {
            "server": "This server",
            "project": "Groups of warehouses",
            "warehouse": "Where tables are stored, and what is in them",
            "user": "Who may call",
            "role": "Groups of users in a project",
            "permission": "Who may do what: grants on objects, and what follows from them",
            "tag": "What a project calls its data, and what is called so",
            "authorization": "What somebody may do",
            "grant": "What is granted to whom",
            "token": "Tokens that this server issues to people and programs",
            "access-review": "Who has which rights, and by which grants",
            "audit": "Who did what",
        },
    ),
    "catalog": Api(
        "catalog/",
        "catalog.api.urls",
        "Icekeeper Iceberg REST catalog",
        "The operations of the [Apache Iceberg REST catalog](https://iceberg.apache.org/rest-catalog-spec/) that this "
        "server has. Unknown members of a request body are ignored; inside table metadata they are kept. "
        "Every answer has an `X-Request-Id`, which the server's log lines have as `request_id`.",
        {
            "Configuration API": "Where to begin",
            "OAuth2 API": "Short-lived tokens for clients that are configured with a credential",
            "Catalog API": "Namespaces and tables",
        },
    ),
    "generic-tables": Api(
        "lakekeeper/",
        "catalog.api.generic_table_urls",
        "Icekeeper generic tables",
        "Tables in other formats than Iceberg (Lance, Delta, CSV, ...): named, placed, described and guarded like the "
        "tables of the catalog, with which they share their namespaces and names. What they hold is not looked at, and "
        "there are no commits. Unknown members of a request body are ignored. "
        "Every answer has an `X-Request-Id`, which the server's log lines have as `request_id`.",
        {"generic-table": "Tables in other formats"},
    ),
}


TOKEN: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "Where authentication is on, every operation needs a token of an identity provider that the server "
    "trusts; without a good one the answer is 401. With the header `x-assume-role: <role id>` beside it the request "
    "has the rights of that role alone.",
}


@dataclass(frozen=True, slots=True)
class Document:
    """An OpenAPI document, and what had to be guessed or left out of it: nothing, in a true one."""

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


def make_document(name: str) -> Document:
    """The document of the API `name`, a key of `APIS`. Takes some 100 ms; nothing is printed."""
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
    return Document(content, complaints + put_examples(content, read_exchanges(name)))


@cache
def _served(name: str) -> bytes:
    """Kept for the life of the process: a document depends on nothing but the code."""
    return write_json(make_document(name).content)


def serve_openapi(request: HttpRequest, name: str) -> HttpResponse:
    if name not in APIS:
        raise Http404
    return HttpResponse(_served(name), content_type="application/json")


@require_safe
def redirect_to_swagger_ui(request: HttpRequest, page: str = "") -> HttpResponse:
    """Answer for the addresses of Lakekeeper's console, which this server does not have yet."""
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
