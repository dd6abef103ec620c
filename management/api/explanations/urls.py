from __future__ import annotations

from django.urls import path

from management.api.explanations.views import ExplanationViewSet

urlpatterns = [
    path("v1/permissions/explain", ExplanationViewSet.as_view({"post": "explain"}), name="permission-explain"),
]
