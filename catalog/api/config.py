"""The configuration that clients load first: the address of the catalog, and the operations that it supports."""

from __future__ import annotations

from typing import Annotated, Final, NotRequired, TypedDict

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from catalog.api.base import CatalogViewSet, json_response
from catalog.api.operation import NO_WAREHOUSE, Header, QueryText, operation
from catalog.selectors.warehouses import find_warehouse_for
from icekeeper.kernel.http.base_url import base_url
from storage.vending.client_config import warehouse_config
from tenancy.selectors.projects import named_project_id, requested_project_id
from tenancy.services.registration import register_caller

NAMESPACE_SEPARATOR = "%1F"
"""Separator of levels in paths, encoded as the specification has it and as clients assume. Names may contain dots."""

ENDPOINTS = [
    "GET /v1/config",
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "DELETE /v1/{prefix}/namespaces/{namespace}",
    "POST /v1/{prefix}/namespaces/{namespace}/properties",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/register",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/unregister",
    "POST /v1/{prefix}/tables/rename",
    "POST /v1/{prefix}/transactions/commit",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
    "POST /v1/{prefix}/namespaces/{namespace}/views",
    "POST /v1/{prefix}/namespaces/{namespace}/register-view",
    "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/views/rename",
]
"""Exactly the operations that work; clients use nothing else."""

CatalogConfig = TypedDict(
    "CatalogConfig",
    {
        "defaults": Annotated[
            dict[str, str], "Settings that the client's own override, among them `prefix`: the id of the warehouse"
        ],
        "overrides": Annotated[
            dict[str, str], "Settings that override the client's own, among them `uri`: this catalog"
        ],
        "endpoints": Annotated[list[str], "The operations that work, each as `VERB /path` of the specification"],
        "idempotency-key-lifetime": NotRequired[
            Annotated[str, "How long a request may be repeated with its Idempotency-Key, such as PT30M"]
        ],
    },
)

WAREHOUSE: Final = QueryText("warehouse", "`<name>` or `<project id>/<name>`", required=True)
PROJECT_ID: Final = Header("x-project-id", "The project, unless `warehouse` names it; default: the default project")


class ConfigViewSet(CatalogViewSet):
    @operation(
        "getConfig",
        "Get the configuration for clients of a warehouse",
        tag="Configuration API",
        parameters=[WAREHOUSE, PROJECT_ID],
        response=CatalogConfig,
        errors={400: "`GetConfigNoWarehouseProvided`, `MalformedProjectID`", 404: NO_WAREHOUSE},
    )
    def get_config(self, request: HttpRequest) -> HttpResponse:
        register_caller(actor=self.actor)  # before anything fails: every caller becomes a user
        warehouse = find_warehouse_for(
            actor=self.actor,
            argument=WAREHOUSE.read(request),
            project_id=requested_project_id(named_project_id(request.META)),
        )
        request.META["icekeeper.warehouse"] = str(warehouse.id)
        config: CatalogConfig = {
            "defaults": {
                "prefix": str(warehouse.id),
                "namespace-separator": NAMESPACE_SEPARATOR,
                "rest-page-size": str(settings.ICEKEEPER.pagination_size_default),
                **warehouse_config(warehouse.storage_profile, warehouse.delete_profile),
            },
            "overrides": {"uri": f"{base_url(request.META, settings.ICEKEEPER)}/catalog"},
            "endpoints": ENDPOINTS,
        }
        if settings.ICEKEEPER.idempotency.enabled:
            config["idempotency-key-lifetime"] = _iso_duration(settings.ICEKEEPER.idempotency.lifetime)
        return json_response(config)


def _iso_duration(seconds: float) -> str:
    """ISO 8601, in minutes where they are whole, else in seconds, to the millisecond: PT30M, PT90S, PT0.5S."""
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    if minutes and not rest:
        return f"PT{minutes}M"
    whole, fraction = divmod(milliseconds, 1000)
    return f"PT{whole}.{fraction:03d}".rstrip("0") + "S" if fraction else f"PT{whole}S"
