from __future__ import annotations

from django.urls import path

from management.api.tokens.views import ServiceAccountViewSet, TokenViewSet

_TOKEN = "v1/token/<str:token_id>"  # noqa: S105 - no secret

urlpatterns = [
    path("v1/token", TokenViewSet.as_view({"get": "list", "post": "create"}), name="tokens"),
    path(_TOKEN, TokenViewSet.as_view({"get": "retrieve", "delete": "destroy"}), name="token"),
    path(f"{_TOKEN}/rotate", TokenViewSet.as_view({"post": "rotate"}), name="token-rotation"),
    path(
        "v1/service-account",
        ServiceAccountViewSet.as_view({"get": "list", "post": "create"}),
        name="service-accounts",
    ),
    path(
        "v1/service-account/<str:account_id>",
        ServiceAccountViewSet.as_view({"delete": "destroy"}),
        name="service-account",
    ),
]
