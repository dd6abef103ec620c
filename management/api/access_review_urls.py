"""Routes of access reviews: beside those of grants, and none of the peer's."""

from __future__ import annotations

from typing import Final

from django.urls import URLPattern, path

from management.api.access_reviews import OBJECT_REVIEW_VIEWS, PrincipalReviewView, ReachedObjectsView
from management.api.rights_urls import PLACES
from tenancy.models import Securable

_PLACES: Final = PLACES | {Securable.Type.ROLE: "v1/role/<str:role_id>"}

ACCESS_REVIEW_ROUTES: Final[list[URLPattern]] = [
    path("v1/access-review", PrincipalReviewView.as_view(), name="access-review"),
    path(f"{PLACES[Securable.Type.WAREHOUSE]}/reached-objects", ReachedObjectsView.as_view(), name="reached-objects"),
    *(
        path(f"{place}/access-review", OBJECT_REVIEW_VIEWS[kind].as_view(), name=f"{kind}-access-review")
        for kind, place in _PLACES.items()
    ),
]
