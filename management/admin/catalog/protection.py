"""Protection of namespaces, tables and views from drops: the switch on their pages."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from catalog.services.protection import set_protection
from icekeeper.kernel.errors.types import BadRequest, NotFound
from management.admin.navigation import VIEW_OF_KIND, object_url
from management.admin.pages import Page
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import is_allowed
from tenancy.models import Securable

STATES = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class ProtectionSwitch:
    """The form that sets or clears the protection of an object: `wanted` is the state that its button sets."""

    url: str
    is_protected: bool

    @property
    def wanted(self) -> str:
        return "false" if self.is_protected else "true"


def protection_switch(
    actor: Actor, kind: str, *, warehouse_id: UUID, object_id: UUID, own_id: UUID, is_protected: bool
) -> ProtectionSwitch | None:
    """Return the switch of an object; None without the permission to change it."""
    if not is_allowed(actor, Can.SET_PROTECTION, Securable.Type(kind), own_id):
        return None
    return ProtectionSwitch(reverse("admin:protection", args=[warehouse_id, kind, object_id]), is_protected)


class ProtectionAction(Page):
    """Sets the protection of a namespace, table, view or generic table, by the service of the API."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, *, warehouse_id: UUID, kind: str, object_id: UUID) -> HttpResponse:
        if kind not in VIEW_OF_KIND:
            raise NotFound("No such page")
        is_protected = STATES.get(request.POST.get("protected", ""))
        if is_protected is None:
            raise BadRequest("protected: must be true or false")
        set_protection(
            actor=self.actor,
            warehouse_id=warehouse_id,
            kind=Securable.Type(kind),
            object_id=object_id,
            is_protected=is_protected,
        )
        done = _("It is protected: drops fail without force.") if is_protected else _("It is not protected any more.")
        messages.success(request, done)
        return HttpResponseRedirect(object_url(kind, object_id, warehouse_id))
