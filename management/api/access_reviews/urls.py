from __future__ import annotations

from django.urls import path

from management.api.access_reviews.views import ObjectReviewViewSet, PrincipalReviewViewSet, ReachedObjectsViewSet
from management.api.objects import OBJECT_PATHS, WAREHOUSE_PATH
from tenancy.models import Securable

urlpatterns = [
    path("v1/access-review", PrincipalReviewViewSet.as_view({"get": "list"}), name="access-review"),
    path(
        f"{WAREHOUSE_PATH}/reached-objects",
        ReachedObjectsViewSet.as_view({"get": "list"}),
        name="reached-objects",
    ),
    *(
        path(
            f"{prefix}/access-review",
            ObjectReviewViewSet.as_view({"get": "list"}, securable_type=kind),
            name=f"{kind}-access-review",
        )
        for kind, prefix in OBJECT_PATHS.items()
        if kind is not Securable.Type.USER
    ),
]
