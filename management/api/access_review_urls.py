"""Routes of access reviews: beside those of grants, and none of the peer's."""

from __future__ import annotations

from typing import Final

from django.urls import URLPattern, path

from management.api.access_reviews import OBJECT_REVIEW_VIEWS, REVIEWED_ON, PrincipalReviewView, ReachedObjectsView
from management.api.objects import OBJECT_PATHS, WAREHOUSE_PATH

ACCESS_REVIEW_ROUTES: Final[list[URLPattern]] = [
    path("v1/access-review", PrincipalReviewView.as_view(), name="access-review"),
    path(
        f"{WAREHOUSE_PATH}/reached-objects",
        ReachedObjectsView.as_view(),
        name="reached-objects",
    ),
    *(
        path(f"{OBJECT_PATHS[kind]}/access-review", OBJECT_REVIEW_VIEWS[kind].as_view(), name=f"{kind}-access-review")
        for kind in REVIEWED_ON
    ),
]
