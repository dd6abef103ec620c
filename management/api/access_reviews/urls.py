from __future__ import annotations

from django.urls import path

from management.api.access_reviews.views import ObjectReviewViewSet, PrincipalReviewViewSet, ReachedObjectsViewSet
from management.api.base import OBJECT_PATHS, PERMISSION_PATHS, WAREHOUSE_PATH, object_routes

urlpatterns = [
    path("v1/access-review", PrincipalReviewViewSet.as_view({"get": "list"}), name="access-review"),
    path(
        f"{WAREHOUSE_PATH}/reached-objects",
        ReachedObjectsViewSet.as_view({"get": "list"}),
        name="reached-objects",
    ),
    *object_routes(OBJECT_PATHS, PERMISSION_PATHS, "access-review", ObjectReviewViewSet, {"get": "list"}),
]
