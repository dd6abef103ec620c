from __future__ import annotations

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema

from catalog.api.operations.refusals import NO_WAREHOUSE
from catalog.api.operations.tags import CONFIGURATION
from catalog.api.shapes.config import CatalogConfig
from icekeeper.kernel.http.serializers import operation_responses

get_config = extend_schema(
    operation_id="getConfig",
    tags=CONFIGURATION,
    summary="What a client needs to know to use a warehouse",
    parameters=[
        OpenApiParameter("warehouse", OpenApiTypes.STR, required=True, description="`<name>` or `<project id>/<name>`"),
        OpenApiParameter(
            "x-project-id",
            OpenApiTypes.STR,
            OpenApiParameter.HEADER,
            description="The project, unless `warehouse` names it; default: the default project",
        ),
    ],
    responses=operation_responses(
        {200: CatalogConfig},
        {400: "`GetConfigNoWarehouseProvided`, `MalformedProjectID`", 404: NO_WAREHOUSE},
    ),
)
