"""Event sinks: their configuration, the progress and control of their deliveries, and their dead letters."""

from __future__ import annotations

import re
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from events.selectors.sinks import (
    dead_letter_not_found,
    get_dead_letter_for,
    get_sink_for,
    list_dead_letters_for,
    list_sinks_for,
    sink_not_found,
)
from events.services.sinks import (
    create_sink,
    delete_dead_letters,
    delete_sink,
    pause_sink,
    redeliver_dead_letters,
    replay_sink,
    resume_sink,
    send_test_event,
    skip_event,
    update_sink,
)
from icekeeper.kernel.http.paging import listing_key
from management.api.base import ManagementViewSet
from management.api.event_sinks.schema import describe_dead_letters, describe_event_sinks
from management.api.event_sinks.serializers import (
    CreateEventSinkRequest,
    DeadLetterCountResponse,
    DeadLetterDetailsResponse,
    DeadLetterListResponse,
    DeadLettersRequest,
    EventSinkListResponse,
    EventSinkPositionResponse,
    EventSinkResponse,
    StartPosition,
    UpdateEventSinkRequest,
    read_settings,
    read_start,
)


class _SinkPathViewSet(ManagementViewSet):
    """Routes below the path of a sink."""

    @property
    def sink_id(self) -> UUID:
        return self.path_id("sink_id", sink_not_found)


@describe_event_sinks
class EventSinkViewSet(_SinkPathViewSet):
    def list(self, request: Request) -> Response:
        return self.respond(EventSinkListResponse, {"event_sinks": list_sinks_for(actor=self.actor)})

    def create(self, request: Request) -> Response:
        body = self.body(CreateEventSinkRequest)
        start = body.get("start")
        sink = create_sink(
            actor=self.actor,
            wanted=read_settings(body),
            start="latest" if start is None else read_start(start, "start: "),
            is_paused=body["is_paused"],
        )
        return self._respond_with(sink.pk, status=201)

    def retrieve(self, request: Request, **path: str) -> Response:
        return self._respond_with(self.sink_id)

    def update(self, request: Request, **path: str) -> Response:
        body = self.body(UpdateEventSinkRequest)
        sink = update_sink(actor=self.actor, sink_id=self.sink_id, version=body["version"], wanted=read_settings(body))
        return self._respond_with(sink.pk)

    def destroy(self, request: Request, **path: str) -> Response:
        delete_sink(actor=self.actor, sink_id=self.sink_id)
        return Response(status=204)

    def pause(self, request: Request, **path: str) -> Response:
        pause_sink(actor=self.actor, sink_id=self.sink_id)
        return Response(status=204)

    def resume(self, request: Request, **path: str) -> Response:
        resume_sink(actor=self.actor, sink_id=self.sink_id)
        return Response(status=204)

    def replay(self, request: Request, **path: str) -> Response:
        start = read_start(self.body(StartPosition))
        position = replay_sink(actor=self.actor, sink_id=self.sink_id, start=start)
        return self.respond(EventSinkPositionResponse, {"position": position})

    def skip(self, request: Request, **path: str) -> Response:
        return self.respond(DeadLetterDetailsResponse, skip_event(actor=self.actor, sink_id=self.sink_id))

    def test(self, request: Request, **path: str) -> Response:
        send_test_event(actor=self.actor, sink_id=self.sink_id)
        return Response(status=204)

    def _respond_with(self, sink_id: UUID, *, status: int = 200) -> Response:
        return self.respond(EventSinkResponse, get_sink_for(actor=self.actor, sink_id=sink_id), status=status)


@describe_dead_letters
class DeadLetterViewSet(_SinkPathViewSet):
    def list(self, request: Request, **path: str) -> Response:
        page = self.page(listing_key("dead-letters", self.sink_id))
        found = list_dead_letters_for(actor=self.actor, sink_id=self.sink_id, page=page)
        return self.respond_page(DeadLetterListResponse, "dead_letters", found)

    def retrieve(self, request: Request, **path: str) -> Response:
        text = self.path_text("position")
        if not re.fullmatch(r"[0-9]{1,18}", text):
            raise dead_letter_not_found(text[:100])
        letter = get_dead_letter_for(actor=self.actor, sink_id=self.sink_id, position=int(text))
        return self.respond(DeadLetterDetailsResponse, letter)

    def redeliver(self, request: Request, **path: str) -> Response:
        positions = self.body(DeadLettersRequest).get("positions")
        count = redeliver_dead_letters(actor=self.actor, sink_id=self.sink_id, positions=positions)
        return self.respond(DeadLetterCountResponse, {"count": count})

    def delete_several(self, request: Request, **path: str) -> Response:
        positions = self.body(DeadLettersRequest).get("positions")
        count = delete_dead_letters(actor=self.actor, sink_id=self.sink_id, positions=positions)
        return self.respond(DeadLetterCountResponse, {"count": count})
