"""The pages that create and update an event sink."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.http import HttpResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from events.cloud_events import Payload
from events.outbox import EventFilter
from events.selectors.sinks import SinkState, get_sink_for, require_sink_management
from events.services.sink_filters import EVENT_TYPES
from events.services.sinks import (
    SinkChanged,
    SinkOfSettings,
    SinkSettings,
    Start,
    create_sink,
    update_sink,
)
from icekeeper.kernel.errors.types import BadRequest
from management.admin.configuration_fields import shown_fields
from management.admin.events.sink_fields import FIELDS, read_configuration, removable_secrets
from management.admin.events.sink_filters import filter_fields, read_filter
from management.admin.events.sink_texts import PAYLOADS, TYPES, sink_url
from management.admin.form_pages import Action, FormPage
from management.admin.navigation import Crumb

_COMMON = ("name", "payload", "projects", "warehouses", "namespaces", "types")
_OF_TYPES = tuple({field.name for fields in FIELDS.values() for field in fields})


class SinkForm(FormPage, ABC):
    """What both forms share. Secrets that were entered are not shown again after an error."""

    template_name = "console/event_sink_form.html"
    section = "event-sinks"

    @property
    @abstractmethod
    def kind(self) -> str:
        """The type of the sink."""

    def shown(self, *, name: str, stored: Mapping[str, Any], event_filter: EventFilter, payload: str) -> dict[str, Any]:
        entered = self.request.POST if self.request.method == "POST" else None
        chosen = payload if entered is None else entered.get("payload", payload)
        return {
            "name": name if entered is None else self.text("name"),
            "kind": self.kind,
            "fields": shown_fields(FIELDS[self.kind], stored, entered),
            "removable": removable_secrets(stored, entered),
            "payload_options": [
                (each.value, f"{each.value}: {text}", each == chosen) for each, text in PAYLOADS.items()
            ],
            "event_types": sorted(EVENT_TYPES),
            **filter_fields(self.actor, event_filter, entered),
        }

    def settings(self) -> SinkSettings:
        """Return what the form has. Raises `BadRequest`."""
        payload = self.text("payload")
        if payload not in list(Payload):
            raise BadRequest(_("Must be one of the choices"), field="payload")
        return SinkSettings(
            name=self.text("name").strip(),
            configuration=read_configuration(self.kind, self.request.POST),
            event_filter=read_filter(self.request.POST),
            payload=Payload(payload),
        )


class SinkAddPage(SinkForm):
    """The form of a new sink; `?type=` has the type, whose buttons keep what was entered."""

    title = gettext_lazy("New event sink")
    actions: ClassVar[Mapping[str, Action]] = {
        "show": Action("show"),
        "save": Action("create", (*_COMMON, *_OF_TYPES, "start")),
    }

    @property
    def kind(self) -> str:
        wanted = self.query("type") or "webhook"
        if wanted not in TYPES:
            raise BadRequest("type: must be one of the choices")
        return wanted

    def context(self) -> dict[str, Any]:
        require_sink_management(self.actor)
        start = self.request.POST.get("start", "latest")
        return {
            **self.shown(name="", stored={}, event_filter=EventFilter(), payload=Payload.FULL),
            "breadcrumb": [Crumb(_("Event sinks"), reverse("admin:event-sinks")), Crumb(self.title)],
            "kinds": [
                {"title": text, "note": "", "url": f"?{urlencode({'type': each})}", "is_current": each == self.kind}
                for each, text in TYPES.items()
            ],
            "start_options": [
                ("latest", _("The next event"), start == "latest"),
                ("earliest", _("The oldest event that is kept"), start == "earliest"),
            ],
            "back_url": reverse("admin:event-sinks"),
            "button": _("Create sink"),
        }

    def show(self) -> HttpResponse:
        return self.render(self.context())

    def create(self) -> HttpResponse:
        starts: dict[str, Start] = {"latest": "latest", "earliest": "earliest"}
        start = starts.get(self.text("start"))
        if start is None:
            raise BadRequest(_("Must be one of the choices"), field="start")
        sink = create_sink(actor=self.actor, wanted=self.settings(), start=start)
        return self.done(sink_url(sink.pk), _("Event sink %(name)s is created.") % {"name": sink.name})


class SinkEditPage(SinkForm):
    """The form of a stored sink. Empty secrets stay as they are."""

    actions: ClassVar[Mapping[str, Action]] = {"save": Action("save", (*_COMMON, *_OF_TYPES))}

    @cached_property
    def state(self) -> SinkState:
        state = get_sink_for(actor=self.actor, sink_id=self.kwargs["sink_id"])
        if state.sink.is_from_settings:
            raise SinkOfSettings(_("Environment variables of the server configure this sink."))
        return state

    @property
    def kind(self) -> str:
        return self.state.sink.type

    def context(self) -> dict[str, Any]:
        sink = self.state.sink
        title = _("Edit %(name)s") % {"name": sink.name}
        return {
            **self.shown(
                name=sink.name,
                stored=self.state.configuration,
                event_filter=sink.event_filter(),
                payload=sink.payload,
            ),
            "title": title,
            "breadcrumb": [
                Crumb(_("Event sinks"), reverse("admin:event-sinks")),
                Crumb(sink.name, sink_url(sink.pk)),
                Crumb(title),
            ],
            "sink_version": sink.version,
            "back_url": sink_url(sink.pk),
            "button": _("Save"),
        }

    def save(self) -> HttpResponse:
        version = self.version()
        try:
            sink = update_sink(actor=self.actor, sink_id=self.state.sink.pk, version=version, wanted=self.settings())
        except SinkChanged:
            del self.state  # the form gets the version that is stored now
            raise
        return self.done(sink_url(sink.pk), _("Event sink %(name)s is updated.") % {"name": sink.name})
