from __future__ import annotations

from django.urls import path

from management.api.events.views import EventViewSet

urlpatterns = [path("v1/events", EventViewSet.as_view({"get": "list"}), name="events")]
