"""GET /v1/config: where everything else is, and what this server can do."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from catalog.api.base import IcebergView, json_answer
from catalog.api.operations import config as operations
from catalog.selectors.warehouses import find_warehouse_for
from icekeeper.kernel.http.base_url import base_url
from storage.vending.client_config import warehouse_config
from tenancy.selectors.projects import named_project_id, requested_project_id
from tenancy.services.registration import register_caller

NAMESPACE_SEPARATOR = "%1F"
"""Of levels in paths, in the encoded form in which the specification has it; it is also what clients take for granted.
A dot would not do: names may hold one."""

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


class ConfigView(IcebergView):
    @operations.get_config
    def get(self, request: HttpRequest) -> HttpResponse:
        register_caller(actor=self.actor)  # first of all: whoever asks in vain is a user, too
        warehouse = find_warehouse_for(
            actor=self.actor,
            argument=request.GET.get("warehouse"),
            project_id=requested_project_id(named_project_id(request.META)),
        )
        request.META["icekeeper.warehouse"] = str(warehouse.id)
        answer: dict[str, Any] = {
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
            answer["idempotency-key-lifetime"] = _iso_duration(settings.ICEKEEPER.idempotency.lifetime)
        return json_answer(answer)


def _iso_duration(seconds: float) -> str:
    """ISO 8601, in minutes where they are whole, else in seconds, to the millisecond: PT30M, PT90S, PT0.5S."""
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    if minutes and not rest:
        return f"PT{minutes}M"
    whole, fraction = divmod(milliseconds, 1000)
    return f"PT{whole}.{fraction:03d}".rstrip("0") + "S" if fraction else f"PT{whole}S"
