"""Routes of `/management`."""

from __future__ import annotations

from django.urls import include, path

from management.api.access_review_urls import ACCESS_REVIEW_ROUTES
from management.api.audit import AuditExportView, AuditView
from management.api.endpoint_statistics import EndpointStatisticsView
from management.api.rights_urls import RIGHTS_ROUTES
from management.api.tag_definitions import TagAttachmentsView, TagDefinitionsView, TagDefinitionView
from management.api.tags import (
    AllColumnTagsView,
    ColumnTagsView,
    ColumnTagView,
    GenericTableTagsView,
    GenericTableTagView,
    NamespaceTagsView,
    NamespaceTagView,
    TableTagsView,
    TableTagView,
    ViewTagsView,
    ViewTagView,
    WarehouseTagsView,
    WarehouseTagView,
)
from management.api.warehouse_statistics import WarehouseStatisticsView

_WAREHOUSE = "v1/warehouse/<str:warehouse_id>"
_TAG_DEFINITION = "v1/tag-definition/<str:tag_definition_id>"
_TAGS, _TAG = "<str:object_id>/tags", "<str:object_id>/tags/<str:tag_name>"
_COLUMN_TAGS = f"{_WAREHOUSE}/table/<str:object_id>/column/<str:column_name>/tags"

urlpatterns = [
    *ACCESS_REVIEW_ROUTES,
    *RIGHTS_ROUTES,  # before what takes any text in their places
    *(
        path("", include(f"management.api.{resource}.urls"))
        for resource in ("server", "projects", "users", "roles", "tokens", "warehouses", "namespaces", "tabulars")
    ),
    path("v1/audit", AuditView.as_view(), name="audit"),
    path("v1/audit/export", AuditExportView.as_view(), name="audit-export"),
    path("v1/endpoint-statistics", EndpointStatisticsView.as_view(), name="endpoint-statistics"),
    path(f"{_WAREHOUSE}/statistics", WarehouseStatisticsView.as_view(), name="warehouse-statistics"),
    path("v1/tag-definition", TagDefinitionsView.as_view(), name="tag-definitions"),
    path(_TAG_DEFINITION, TagDefinitionView.as_view(), name="tag-definition"),
    path(f"{_TAG_DEFINITION}/attachments", TagAttachmentsView.as_view(), name="tag-attachments"),
    path(f"{_WAREHOUSE}/tags", WarehouseTagsView.as_view(), name="warehouse-tags"),
    path(f"{_WAREHOUSE}/tags/<str:tag_name>", WarehouseTagView.as_view(), name="warehouse-tag"),
    path(f"{_WAREHOUSE}/namespace/{_TAGS}", NamespaceTagsView.as_view(), name="namespace-tags"),
    path(f"{_WAREHOUSE}/namespace/{_TAG}", NamespaceTagView.as_view(), name="namespace-tag"),
    path(f"{_WAREHOUSE}/table/{_TAGS}", TableTagsView.as_view(), name="table-tags"),
    path(f"{_WAREHOUSE}/table/{_TAG}", TableTagView.as_view(), name="table-tag"),
    path(f"{_WAREHOUSE}/view/{_TAGS}", ViewTagsView.as_view(), name="view-tags"),
    path(f"{_WAREHOUSE}/view/{_TAG}", ViewTagView.as_view(), name="view-tag"),
    path(f"{_WAREHOUSE}/generic-table/{_TAGS}", GenericTableTagsView.as_view(), name="generic-table-tags"),
    path(f"{_WAREHOUSE}/generic-table/{_TAG}", GenericTableTagView.as_view(), name="generic-table-tag"),
    path(_COLUMN_TAGS, ColumnTagsView.as_view(), name="column-tags"),
    path(f"{_COLUMN_TAGS}/<str:tag_name>", ColumnTagView.as_view(), name="column-tag"),
    path(f"{_WAREHOUSE}/table/<str:object_id>/column-tags", AllColumnTagsView.as_view(), name="all-column-tags"),
    path("v1/permissions/", include("management.api.permission_urls")),
]
