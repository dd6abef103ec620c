"""Forms that change the grants on an object, by the services that the API calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _

from catalog.selectors.permission_objects import PermissionObject
from icekeeper.kernel.errors.types import BadRequest
from management.admin.access.objects import KIND_LABELS, access_url, describe, find_object, icon_of, label_of
from management.admin.access.principals import Picked, read_picked
from management.admin.access.tab import AccessTab
from management.admin.navigation import Crumb
from management.admin.pages import Page, render_page
from management.admin.times import read_time
from tenancy.actor import Grantee
from tenancy.models import Securable
from tenancy.selectors.principal_names import name_principals
from tenancy.services.grants import (
    GrantExists,
    GrantSpec,
    apply_assignments,
    apply_grants,
    build_difference,
    set_managed_access,
)


class InvalidExpiry(BadRequest):
    wire_type = "InvalidExpiry"


def read_expiry(text: str) -> datetime | None:
    """Return the time of a field of type `datetime-local`, in UTC; None if it is empty. Raises `InvalidExpiry`."""
    if not text.strip():
        return None
    at = read_time(text)
    if at is None:
        raise InvalidExpiry(_("The expiry must be a date and time, such as 2027-01-31T18:00"))
    return at


def read_privilege(text: str) -> str:
    """Return a text that can be a privilege, known or not. Raises `BadRequest`."""
    if not text.replace("_", "").isalnum():
        raise BadRequest(_("Choose a privilege."))
    return text


class ObjectAccessPage(Page):
    """The access to one object on a page of its own: of the server, projects and roles, and of objects whose grants
    the viewer may read without seeing the object."""

    template_name = "console/object_access.html"
    section = "grants"
    shown: PermissionObject

    def context(self) -> dict[str, Any]:
        self.shown = find_object(actor=self.actor, key=self.key())
        return self.access_context()

    def key(self) -> str:
        key: str = self.kwargs["key"]
        return key

    def access_context(self, draft: Mapping[str, str] | None = None) -> dict[str, Any]:
        tab = AccessTab(self.request, self.actor, self.shown)
        named = self.shown.named
        title = label_of(named)
        return {
            "title": title,
            "breadcrumb": [Crumb(_("Access")), Crumb(title)],
            "object_icon": icon_of(named.securable_type),
            "object_id": named.object_id,
            **tab.context(draft),
        }

    def conflict(self, draft: Mapping[str, str], message: str) -> HttpResponse:
        """Return the page as it is now, after another user changed the same grants."""
        shown = {**self.access_context(draft), "conflict": message}
        return self.render(shown, status=HTTPStatus.CONFLICT)

    def rejected(self, draft: Mapping[str, str], error: BadRequest) -> HttpResponse:
        """Return the page with the grant form as it was sent, and its problem."""
        shown = self.access_context(draft)
        if "grant_form" not in shown:
            raise error
        shown["grant_form"]["problem"] = error.message
        return self.render(shown, status=error.status)


class ServerAccessPage(ObjectAccessPage):
    def key(self) -> str:
        return "server"


class ProjectAccessPage(ObjectAccessPage):
    def key(self) -> str:
        return f"project:{self.kwargs['project_id']}"


class RoleAccessPage(ObjectAccessPage):
    def key(self) -> str:
        return f"role:{self.kwargs['role_id']}"


class ExplainPage(ObjectAccessPage):
    """Why a principal can or cannot do an action on an object; with `part` in the query the result alone."""

    template_name = "console/explain.html"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        self.shown = find_object(actor=self.actor, key=self.key())
        shown = AccessTab(request, self.actor, self.shown).explanation()
        if "part" in request.GET:
            return render_page(request, "console/parts/explanation_result.html", shown)
        named = self.shown.named
        title, url = _("Explain access"), access_url(named, is_browsable=self.shown.is_browsable)
        head = {
            "title": title,
            "breadcrumb": [Crumb(label_of(named), url), Crumb(title)],
            "object_icon": icon_of(named.securable_type),
            "object_name": label_of(named),
            "access_kind": KIND_LABELS[named.securable_type],
            "access_url": url,
        }
        return self.render({**head, **shown})


class GrantsForm(ObjectAccessPage, ABC):
    """A form that is sent with POST; the browser is led back to the access of the object."""

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        """Lead to the access of the object, when the viewer tries again after an error."""
        self.shown = find_object(actor=self.actor, key=self.key())
        AccessTab(request, self.actor, self.shown)  # 404 for an object that is hidden from the viewer
        return self.back()

    def post(self, request: HttpRequest, *, key: str) -> HttpResponse:
        self.shown = find_object(actor=self.actor, key=key)
        if self.shown.target.ref.type is Securable.Type.PROJECT:
            # The services return 403 for a hidden project, as the API does; the pages return 404.
            AccessTab(request, self.actor, self.shown)
        return self.apply(request)

    @abstractmethod
    def apply(self, request: HttpRequest) -> HttpResponse: ...

    def back(self, **query: str) -> HttpResponse:
        url = access_url(self.shown.named, is_browsable=self.shown.is_browsable)
        anchor = "#grants"
        return HttpResponseRedirect(f"{url}?{urlencode(query)}{anchor}" if query else f"{url}{anchor}")

    def name_of(self, grantee: Grantee) -> str:
        return name_principals([grantee])[grantee].name

    def read_grantee(self) -> Picked:
        """Return the principal that the form of a new grant has chosen, or the text that it contains."""
        return read_picked(self.request.POST, "grantee", actor=self.actor, project=self.shown.project)

    def choose_grantee(self, picked: Picked) -> HttpResponse:
        """Lead to the form of a new grant, with the choices for the text and everything else that was filled in."""
        given = self.request.POST
        query = {name: given.get(name, "") for name in ("privilege", "expires")}
        return self.back(**{"grantee-text": picked.text, **query})


class GrantForm(GrantsForm):
    """Grants a privilege; with `replace` a grant that exists gets the new expiry."""

    def apply(self, request: HttpRequest) -> HttpResponse:
        try:
            return self._grant(request)
        except BadRequest as error:
            return self.rejected(request.POST, error)

    def _grant(self, request: HttpRequest) -> HttpResponse:
        given, picked = request.POST, self.read_grantee()
        privilege, expires = given.get("privilege", ""), given.get("expires", "")
        if picked.grantee is None:
            return self.choose_grantee(picked)
        spec = GrantSpec(read_privilege(privilege), picked.grantee, read_expiry(expires))
        service = apply_grants if given.get("replace") else apply_assignments
        target, name = self.shown.target, self.name_of(picked.grantee)
        try:
            service(
                actor=self.actor,
                ref=target.ref,
                difference=build_difference(writes=[spec], deletes=[]),
                missing=target.missing,
            )
        except GrantExists:
            text = _(
                "%(privilege)s is granted to %(principal)s already. To change its expiry, send the form with "
                "“Replace the expiry of an existing grant”."
            )
            return self.conflict(given, text % {"privilege": privilege, "principal": name})
        values = {"privilege": privilege, "object": describe(self.shown.named), "principal": name}
        if spec.expires_at is None:
            messages.success(request, _("%(privilege)s on %(object)s granted to %(principal)s") % values)
        else:
            until = {**values, "until": f"{spec.expires_at:%Y-%m-%d %H:%M} UTC"}
            text = _("%(privilege)s on %(object)s granted to %(principal)s, until %(until)s")
            messages.success(request, text % until)
        return self.back()


class ManagedAccessForm(GrantsForm):
    """Enables or disables managed access."""

    def apply(self, request: HttpRequest) -> HttpResponse:
        wanted = request.POST.get("managed", "")
        if wanted not in {"on", "off"}:
            raise BadRequest("managed: must be on or off")
        target = self.shown.target
        set_managed_access(actor=self.actor, ref=target.ref, is_managed=wanted == "on", missing=target.missing)
        text = _("Managed access of %(object)s is on") if wanted == "on" else _("Managed access of %(object)s is off")
        messages.success(request, text % {"object": describe(self.shown.named)})
        return self.back()
