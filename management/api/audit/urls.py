from __future__ import annotations

from django.urls import path

from management.api.audit.views import AuditViewSet

urlpatterns = [
    path("v1/audit", AuditViewSet.as_view({"get": "list"}), name="audit"),
    path("v1/audit/export", AuditViewSet.as_view({"get": "export"}), name="audit-export"),
]
