"""Questions before changes of deliveries that cannot be undone: replay, skip, deletions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from events.publication import read_state
from events.services.sinks import Start, delete_dead_letters, delete_sink, replay_sink, skip_event
from icekeeper.kernel.errors.types import BadRequest
from management.admin.events.sinks import MAX_POSITION, SinkOfAddress
from management.admin.form_pages import Action, ConfirmPage
from management.admin.navigation import Crumb, Text
from management.admin.times import read_time


class _SinkConfirmPage(ConfirmPage, SinkOfAddress):
    def crumbs(self) -> list[Crumb]:
        return self.sink_crumbs()

    def back_url(self) -> str:
        return self.url


class SinkDeletePage(_SinkConfirmPage):
    """What the deletion of a sink means."""

    def heading(self) -> str:
        return _("Delete event sink %(name)s?") % {"name": self.state.sink.name}

    def effects(self) -> list[Text]:
        effects: list[Text] = [
            _("Nothing is delivered to it any more. Its position and its secrets are deleted."),
            _("Its dead letters are deleted, too."),
        ]
        if self.state.sink.is_from_settings:
            effects.append(_("Environment variables configure it: it is created again when a server starts."))
        return effects

    def typed_name(self) -> str:
        return self.state.sink.name

    def delete(self) -> HttpResponse:
        name = self.state.sink.name
        delete_sink(**self.of_sink)
        return self.done(reverse("admin:event-sinks"), _("Event sink %(name)s is deleted.") % {"name": name})


class SkipPage(_SinkConfirmPage):
    """What it means to skip an event."""

    button = gettext_lazy("Skip the event")

    def heading(self) -> str:
        return _("Skip the next event of %(name)s?") % {"name": self.state.sink.name}

    def effects(self) -> list[Text]:
        return [
            _("The next event becomes a dead letter, and deliveries continue after it."),
            _("The receiver gets later events of the same object without it. It can be sent again later."),
        ]

    def delete(self) -> HttpResponse:
        letter = skip_event(**self.of_sink)
        return self.done(
            self.url, _("The event at position %(position)s is a dead letter.") % {"position": letter.position}
        )


class DeadLettersDeletePage(_SinkConfirmPage):
    """What the deletion of dead letters means: of all, or of the one with `?position=`."""

    def _positions(self) -> list[int] | None:
        text = self.query("position")
        if not text:
            return None
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= MAX_POSITION):  # noqa: PLR2004
            raise BadRequest("position: must be that of a dead letter")
        return [int(text)]

    def heading(self) -> str:
        positions = self._positions()
        if positions:
            return _("Delete dead letter %(position)s?") % {"position": positions[0]}
        return _("Delete all dead letters of %(name)s?") % {"name": self.state.sink.name}

    def effects(self) -> list[Text]:
        return [_("The receiver never gets these events. A replay from before them delivers them again.")]

    def delete(self) -> HttpResponse:
        count = delete_dead_letters(**self.of_sink, positions=self._positions())
        text = ngettext("%(count)s dead letter is deleted.", "%(count)s dead letters are deleted.", count)
        return self.done(self.url, text % {"count": count})


class ReplayPage(SinkOfAddress):
    """Where deliveries begin again: a position, a time, or an end of the events that are kept."""

    template_name = "console/event_sink_replay.html"
    actions: ClassVar[Mapping[str, Action]] = {"replay": Action("replay", ("position", "time"))}

    def context(self) -> dict[str, Any]:
        title = _("Replay events to %(name)s") % {"name": self.state.sink.name}
        events = read_state()
        chosen = self.request.POST.get("start", "time")
        return {
            "title": title,
            "breadcrumb": [*self.sink_crumbs(), Crumb(title)],
            "sink": self.state.sink,
            "first": events.deleted,
            "last": events.published,
            "choices": [
                ("time", _("With the events since a time"), chosen == "time"),
                ("position", _("After a position"), chosen == "position"),
                ("earliest", _("With the oldest event that is kept"), chosen == "earliest"),
                ("latest", _("With the next event: skip everything so far"), chosen == "latest"),
            ],
            "back_url": self.url,
        }

    def replay(self) -> HttpResponse:
        position = replay_sink(**self.of_sink, start=self._start())
        return self.done(self.url, _("Deliveries begin after position %(position)s.") % {"position": position})

    def _start(self) -> Start:
        match self.text("start"):
            case "earliest":
                return "earliest"
            case "latest":
                return "latest"
            case "position":
                text = self.text("position").strip()
                if not (text.isascii() and text.isdecimal() and len(text) < 20):  # noqa: PLR2004 - digits
                    raise BadRequest(_("Must be a position"), field="position")
                return min(int(text), MAX_POSITION)
            case "time":
                at = read_time(self.text("time"))
                if at is None or not 1970 <= at.year < 9000:  # noqa: PLR2004 - years
                    raise BadRequest(_("Must be a time, such as 2026-01-31T18:00"), field="time")
                return at
        raise BadRequest(_("Choose where deliveries begin."))
