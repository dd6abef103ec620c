"""Event sinks: their list, the page of each with the progress of its deliveries, and a dead letter with its event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from events.cloud_events import Payload
from events.selectors.sinks import (
    SinkState,
    SinkStatus,
    get_dead_letter_for,
    get_sink_for,
    list_dead_letters_for,
    list_sinks_for,
)
from events.services.sinks import (
    EventNotDelivered,
    pause_sink,
    redeliver_dead_letters,
    resume_sink,
    send_test_event,
)
from icekeeper.kernel.errors.types import Conflict, NotFound
from management.admin.events.sink_filters import filter_facts
from management.admin.events.sink_texts import PAYLOADS, STATUSES, TYPES, sink_url
from management.admin.form_pages import Action, FormPage
from management.admin.json_view import json_lines
from management.admin.listing_pages import read_pager
from management.admin.navigation import Crumb
from management.admin.pages import Page

MAX_POSITION = 2**62


def describe_state(state: SinkState) -> dict[str, Any]:
    """Return what templates show of a sink and its deliveries."""
    label, tone = STATUSES[state.status]
    return {
        "sink": state.sink,
        "url": sink_url(state.sink.pk),
        "type": TYPES[state.sink.type],
        "status": label,
        "tone": tone,
        "lag": state.lag,
        "lag_seconds": state.lag_seconds,
        "dead_letters": state.dead_letters,
        "error": state.sink.last_error if state.sink.failures else "",
    }


class EventSinksPage(Page):
    """All sinks with their progress, which the page refreshes."""

    template_name = "console/event_sinks.html"
    section = "event-sinks"
    title = gettext_lazy("Event sinks")

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if request.GET.get("part") == "list":
            return self.render_part("console/parts/event_sink_list.html", self.context())
        return super().get(request, **kwargs)

    def context(self) -> dict[str, Any]:
        rows = [describe_state(each) for each in list_sinks_for(actor=self.actor)]
        return {"rows": rows, "add_url": reverse("admin:event-sink-add")}


class SinkOfAddress(FormPage):
    """The base of the pages of one sink."""

    section = "event-sinks"

    @cached_property
    def state(self) -> SinkState:
        return get_sink_for(actor=self.actor, sink_id=self.kwargs["sink_id"])

    @property
    def of_sink(self) -> dict[str, Any]:
        """The arguments of services."""
        return {"actor": self.actor, "sink_id": self.kwargs["sink_id"]}

    @property
    def url(self) -> str:
        return sink_url(self.kwargs["sink_id"])

    def sink_crumbs(self) -> list[Crumb]:
        return [Crumb(_("Event sinks"), reverse("admin:event-sinks")), Crumb(self.state.sink.name, self.url)]


class EventSinkPage(SinkOfAddress):
    """A sink: progress, configuration without secrets, dead letters, and the buttons that control it."""

    template_name = "console/event_sink.html"
    actions: ClassVar[Mapping[str, Action]] = {each: Action(each) for each in ("pause", "resume", "test", "redeliver")}

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if request.GET.get("part") == "live":
            return self.render_part("console/parts/event_sink_live.html", self._live())
        return super().get(request, **kwargs)

    def _live(self) -> dict[str, Any]:
        state = self.state
        can_resume = state.status is SinkStatus.PAUSED or state.sink.failures > 0
        return {
            "title": state.sink.name,
            "shown": describe_state(state),
            "is_paused": state.status is SinkStatus.PAUSED,
            "is_stopped": state.status is SinkStatus.STOPPED,
            "resume_label": _("Resume") if state.sink.is_paused else _("Try now"),
            "can_resume": can_resume,
            "can_edit": not state.sink.is_from_settings,
            **{
                f"{name}_url": reverse(f"admin:event-sink-{name}", args=[state.sink.pk])
                for name in ("edit", "replay", "skip", "delete")
            },
        }

    def context(self) -> dict[str, Any]:
        state = self.state
        pager = read_pager(self.request, "dead-letters", state.sink.pk)
        letters, token = list_dead_letters_for(actor=self.actor, sink_id=state.sink.pk, page=pager.page)
        return {
            **self._live(),
            "breadcrumb": [Crumb(_("Event sinks"), reverse("admin:event-sinks")), Crumb(state.sink.name)],
            "configuration": json_lines(state.configuration),
            "payload": PAYLOADS[Payload(state.sink.payload)],
            "filter": filter_facts(self.actor, state.sink.event_filter()),
            "letters": [(each, _letter_url(state, each.position)) for each in letters],
            "delete_letters_url": reverse("admin:dead-letters-delete", args=[state.sink.pk]),
            **pager.links(token),
        }

    def pause(self) -> HttpResponse:
        pause_sink(**self.of_sink)
        return self.done(self.url, _("Deliveries to %(name)s are paused.") % {"name": self.state.sink.name})

    def resume(self) -> HttpResponse:
        resume_sink(**self.of_sink)
        return self.done(self.url, _("Deliveries to %(name)s continue.") % {"name": self.state.sink.name})

    def test(self) -> HttpResponse:
        try:
            send_test_event(**self.of_sink)
        except EventNotDelivered as error:
            raise Conflict(error.message) from None
        return self.done(self.url, _("%(name)s accepted the test event.") % {"name": self.state.sink.name})

    def redeliver(self) -> HttpResponse:
        count = redeliver_dead_letters(**self.of_sink)
        return self.done(self.url, sent_again(count))


def sent_again(count: int) -> str:
    return ngettext("%(count)s event is sent again.", "%(count)s events are sent again.", count) % {"count": count}


def _letter_url(state: SinkState, position: int) -> str:
    return reverse("admin:dead-letter", args=[state.sink.pk, position])


class DeadLetterPage(SinkOfAddress):
    """One dead letter: why it was rejected, and its event."""

    template_name = "console/dead_letter.html"
    actions: ClassVar[Mapping[str, Action]] = {"redeliver": Action("redeliver")}

    def context(self) -> dict[str, Any]:
        letter = get_dead_letter_for(**self.of_sink, position=self._position())
        title = _("Dead letter %(position)s") % {"position": letter.position}
        return {
            "title": title,
            "breadcrumb": [*self.sink_crumbs(), Crumb(title)],
            "letter": letter,
            "event": json_lines(letter.document()),
            "delete_url": f"{reverse('admin:dead-letters-delete', args=[letter.sink_id])}?position={letter.position}",
        }

    def redeliver(self) -> HttpResponse:
        count = redeliver_dead_letters(**self.of_sink, positions=[self._position()])
        return self.done(self.url, sent_again(count))

    def _position(self) -> int:
        position: int = self.kwargs["position"]
        if position > MAX_POSITION:
            raise NotFound("No such dead letter")
        return position
