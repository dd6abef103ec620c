from __future__ import annotations

from django.urls import path

from management.api.server.views import ServerViewSet

urlpatterns = [
    path("v1/info", ServerViewSet.as_view({"get": "info"}), name="server-info"),
    path("v1/icekeeper-info", ServerViewSet.as_view({"get": "icekeeper_info"}), name="icekeeper-info"),
    path("v1/bootstrap", ServerViewSet.as_view({"post": "bootstrap"}), name="bootstrap"),
]
