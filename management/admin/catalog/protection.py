"""Protection of namespaces, tables and views from drops: what the switch on their pages does."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from catalog.services.protection import set_protection
from icekeeper.kernel.errors.types import BadRequest, NotFound
from management.admin.navigation import VIEW_OF_KIND, object_url
from management.admin.pages import Page
from management.admin.undo import done_with_undo
from management.templatetags.console_messages import Undo
from tenancy.models import Securable

STATES = {"true": True, "false": False}


class ProtectionAction(Page):
    """Sets the protection of a namespace, table, view or generic table, by the service of the API."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, *, warehouse_id: UUID, kind: str, object_id: UUID) -> HttpResponse:
        if kind not in VIEW_OF_KIND:
            raise NotFound("No such page")
        is_protected = STATES.get(request.POST.get("protected", ""))
        if is_protected is None:
            raise BadRequest("protected: must be true or false")
        found = set_protection(
            actor=self.actor,
            warehouse_id=warehouse_id,
            kind=Securable.Type(kind),
            object_id=object_id,
            is_protected=is_protected,
        )
        done = (
            _("%(name)s is protected: drops fail without force.")
            if is_protected
            else _("%(name)s is not protected any more.")
        )
        undo = Undo(
            reverse("admin:protection", args=[warehouse_id, kind, object_id]),
            [("protected", "false" if is_protected else "true")],
        )
        return done_with_undo(
            request, object_url(kind, object_id, warehouse_id), done % {"name": ".".join(found.names)}, undo
        )
