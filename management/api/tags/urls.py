from __future__ import annotations

from django.urls import path

from management.api.base import WAREHOUSE_PATH
from management.api.tags.views import ColumnTagViewSet, TableColumnTagsViewSet, TagDefinitionViewSet, TagViewSet
from tenancy.models import Securable

_DEFINITION = "v1/tag-definition/<str:tag_definition_id>"
_TABLE = f"{WAREHOUSE_PATH}/table/<str:object_id>"
_COLUMN_TAGS = f"{_TABLE}/column/<str:column_name>/tags"
_OBJECTS = {
    Securable.Type.WAREHOUSE: WAREHOUSE_PATH,
    Securable.Type.NAMESPACE: f"{WAREHOUSE_PATH}/namespace/<str:object_id>",
    Securable.Type.TABLE: _TABLE,
    Securable.Type.VIEW: f"{WAREHOUSE_PATH}/view/<str:object_id>",
    Securable.Type.GENERIC_TABLE: f"{WAREHOUSE_PATH}/generic-table/<str:object_id>",
}
_WRITE = {"put": "update", "delete": "destroy"}

urlpatterns = [
    path("v1/tag-definition", TagDefinitionViewSet.as_view({"get": "list", "post": "create"}), name="tag-definitions"),
    path(
        _DEFINITION,
        TagDefinitionViewSet.as_view({"get": "retrieve", "post": "update", "delete": "destroy"}),
        name="tag-definition",
    ),
    path(f"{_DEFINITION}/attachments", TagDefinitionViewSet.as_view({"get": "attachments"}), name="tag-attachments"),
    *(
        path(f"{prefix}/tags", TagViewSet.as_view({"get": "list"}, securable_type=kind), name=f"{kind}-tags")
        for kind, prefix in _OBJECTS.items()
    ),
    *(
        path(f"{prefix}/tags/<str:tag_name>", TagViewSet.as_view(dict(_WRITE), securable_type=kind), name=f"{kind}-tag")
        for kind, prefix in _OBJECTS.items()
    ),
    path(
        _COLUMN_TAGS,
        ColumnTagViewSet.as_view({"get": "list"}, securable_type=Securable.Type.TABLE),
        name="column-tags",
    ),
    path(
        f"{_COLUMN_TAGS}/<str:tag_name>",
        ColumnTagViewSet.as_view(dict(_WRITE), securable_type=Securable.Type.TABLE),
        name="column-tag",
    ),
    path(f"{_TABLE}/column-tags", TableColumnTagsViewSet.as_view({"get": "all_columns"}), name="all-column-tags"),
]
