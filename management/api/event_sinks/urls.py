from __future__ import annotations

from django.urls import path

from management.api.event_sinks.views import DeadLetterViewSet, EventSinkViewSet

_SINK = "v1/event-sinks/<str:sink_id>"
_LETTERS = f"{_SINK}/dead-letters"

urlpatterns = [
    path("v1/event-sinks", EventSinkViewSet.as_view({"get": "list", "post": "create"}), name="event-sinks"),
    path(
        _SINK,
        EventSinkViewSet.as_view({"get": "retrieve", "put": "update", "delete": "destroy"}),
        name="event-sink",
    ),
    *(
        path(f"{_SINK}/{action}", EventSinkViewSet.as_view({"post": action}), name=f"event-sink-{action}")
        for action in ("pause", "resume", "replay", "skip", "test")
    ),
    path(_LETTERS, DeadLetterViewSet.as_view({"get": "list"}), name="dead-letters"),
    path(f"{_LETTERS}/redeliver", DeadLetterViewSet.as_view({"post": "redeliver"}), name="dead-letters-redeliver"),
    path(f"{_LETTERS}/delete", DeadLetterViewSet.as_view({"post": "delete_several"}), name="dead-letters-delete"),
    path(f"{_LETTERS}/<str:position>", DeadLetterViewSet.as_view({"get": "retrieve"}), name="dead-letter"),
]
