from __future__ import annotations

from django.urls import path

from management.api.access_reviews.views import ObjectReviewViewSet, PrincipalReviewViewSet, ReachedObjectsViewSet
from management.api.rights_urls import PLACES
from tenancy.models import Securable

_OBJECTS = PLACES | {Securable.Type.ROLE: "v1/role/<str:role_id>"}

urlpatterns = [
    path("v1/access-review", PrincipalReviewViewSet.as_view({"get": "list"}), name="access-review"),
    path(
        f"{_OBJECTS[Securable.Type.WAREHOUSE]}/reached-objects",
        ReachedObjectsViewSet.as_view({"get": "list"}),
        name="reached-objects",
    ),
    *(
        path(
            f"{prefix}/access-review",
            ObjectReviewViewSet.as_view({"get": "list"}, securable_type=kind),
            name=f"{kind}-access-review",
        )
        for kind, prefix in _OBJECTS.items()
    ),
]
