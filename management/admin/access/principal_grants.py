"""The pages of the group "Access": the grants of a principal, and what a principal can reach and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.objects import ObjectKey, find_permission_target, name_objects
from catalog.selectors.permission_objects import PrincipalGrant, list_principal_grants_for
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import MIN_ID, listing_key
from icekeeper.kernel.http.paging import Page as ListingPage
from icekeeper.kernel.ids import parse_id
from management.access_review_csv import (
    PRINCIPAL_HEADER,
    REACHED_HEADER,
    principal_review_rows,
    reached_object_rows,
    reviewed_object,
)
from management.admin.access.objects import KIND_LABELS, access_url, icon_of, key_of, label_of
from management.admin.access.principals import ICONS, Picked, principal_value, read_picked
from management.admin.access.tab import EXPIRES_SOON, granted_by, granting_users
from management.admin.navigation import Text
from management.admin.pages import Page
from management.admin.warehouse_choice import list_warehouses_by_project
from management.csv_files import csv_response
from tenancy.actor import Actor, Grantee, acting_as
from tenancy.authz.access_review import Rights, Source
from tenancy.authz.actions import SEEN_BY
from tenancy.authz.permissions import is_allowed
from tenancy.models import Project, Securable
from tenancy.selectors.access_reviews import (
    Names,
    read_all,
    read_page,
    review_objects_for,
    review_sources_for,
)
from tenancy.selectors.objects import NamedObject, PermissionTarget
from tenancy.selectors.principal_names import PrincipalName, name_principals
from tenancy.selectors.principal_reviews import AccessSource
from tenancy.selectors.projects import get_visible_project_for, list_projects_for

T = Securable.Type
ROWS_A_PAGE: Final = 50
_ARROW: Final = " \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "
"""Between roles, each in the next."""


@dataclass(frozen=True, slots=True)
class ObjectCell:
    """An object of a row: with its name and a link if the viewer sees it."""

    icon: str
    label: str
    kind: Text
    url: str
    is_dropped: bool = False


@dataclass(frozen=True, slots=True)
class PrincipalGrantLine:
    """A grant of the principal; `value` names it in the form of revocations, empty if the viewer may not revoke it."""

    privilege: str
    on: ObjectCell
    created_at: datetime
    expires_at: datetime | None
    by: str
    value: str


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A grant or membership of a principal. `through` are the roles that it applies by, `below` its effect below."""

    privilege: str
    on: ObjectCell
    through: Sequence[str]
    actions: str
    below: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class ReachedLine:
    """An object that a principal can reach, and the grants that are the reason."""

    on: ObjectCell
    privileges: str
    actions: str
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class ShownPrincipal:
    value: str
    icon: str
    name: str
    note: str
    is_blocked: bool
    is_instance_admin: bool


class PrincipalPage(Page):
    """A page about one principal in a project, by default about the viewer in the first project that they see."""

    view: ClassVar[str]

    def choose(self) -> dict[str, Any]:
        """Read the project and the principal in the address. Raises `ProjectNotFound`."""
        self.projects, self.project = self.read_projects(self.request.GET.get("project"))
        problem = ""
        self.picked = Picked()
        try:
            self.picked = read_picked(self.request.GET, "who", actor=self.actor, project=self.project)
        except BadRequest as error:
            problem = error.message
        self.grantee = self.picked.grantee
        if self.grantee is None and self.picked.choices is None and not problem:
            self.grantee = acting_as(self.actor)
        return {
            "projects": [(each.pk, each.name) for each in self.projects],
            "project_id": None if self.project is None else self.project.pk,
            "picker": self.picked.picker("who", gettext_lazy("Principal"), self.project),
            "principal": None if self.grantee is None else shown_principal(self.grantee, self.picked.name),
            "problem": problem,
            "page_url": reverse(self.view),
            "server_url": reverse("admin:server-access"),
            "project_url": "" if self.project is None else reverse("admin:project-access", args=[self.project.pk]),
        }

    def read_projects(self, wanted: str | None) -> tuple[Sequence[Project], Project | None]:
        """Return the projects to choose from and the chosen one. Raises `ProjectNotFound`."""
        projects = list_projects_for(actor=self.actor)
        if not wanted:
            return projects, next(iter(projects), None)
        listed = next((each for each in projects if each.pk == wanted), None)
        return projects, listed or get_visible_project_for(actor=self.actor, given=wanted)

    def url(self, view: str = "", **query: str) -> str:
        """Return the address of this or another page with the same principal and project."""
        chosen: dict[str, str] = {} if self.project is None else {"project": self.project.pk}
        if self.grantee is not None:
            chosen["who"] = principal_value(self.grantee)
        return f"{reverse(view or self.view)}?{urlencode({**chosen, **query})}"


def shown_principal(grantee: Grantee, name: PrincipalName | None = None) -> ShownPrincipal:
    name = name or name_principals([grantee])[grantee]
    own_id = grantee.user_id or ""
    return ShownPrincipal(
        principal_value(grantee), ICONS[name.kind], name.name, own_id if own_id != name.name else "", name.is_blocked,
        grantee.user_id in settings.ICEKEEPER.instance_admins,
    )  # fmt: skip


class PrincipalGrantsPage(PrincipalPage):
    """The grants of one principal in a project, with links to the objects that the viewer sees."""

    template_name = "console/principal_grants.html"
    section = "grants"
    title = gettext_lazy("Grants")
    view = "admin:grants"

    def context(self) -> dict[str, Any]:
        shown = self.choose()
        if self.project is None or self.grantee is None:
            return shown
        is_expiring = bool(self.request.GET.get("expiring"))
        kept = {"expiring": "1"} if is_expiring else {}
        key = listing_key("console grants of", self.project.pk, self.grantee, *kept)
        page = ListingPage(key, self.request.GET.get("after"), ROWS_A_PAGE)
        found, token = list_principal_grants_for(
            actor=self.actor,
            project=self.project,
            grantee=self.grantee,
            page=page,
            expires_before=now() + EXPIRES_SOON if is_expiring else None,
        )
        grantors = name_principals(granting_users(each.grant for each in found))
        return {
            **shown,
            "grants": [_grant_line(each, granted_by(each.grant, grantors)) for each in found],
            "can_revoke": any(each.can_revoke for each in found),
            "is_expiring": is_expiring,
            "all_url": self.url(),
            "expiring_url": self.url(expiring="1"),
            "revocations_url": reverse("admin:revocations"),
            "next_url": None if token is None else self.url(**kept, after=token),
            "review_url": self.url("admin:access-review"),
        }


def _grant_line(found: PrincipalGrant, by: str) -> PrincipalGrantLine:
    grant, on = found.grant, found.on
    value = f"{grant.privilege} {key_of(on)}" if found.can_revoke else ""
    cell = object_cell(found.named, on)
    return PrincipalGrantLine(grant.privilege, cell, grant.created_at, grant.expires_at, by, value)


def object_cell(named: NamedObject | None, on: NamedObject) -> ObjectCell:
    """Return the cell of an object; `named` is None where the viewer does not see it."""
    kind = on.securable_type
    if named is None:
        label = f"{KIND_LABELS[kind]} {on.object_id}" if on.object_id else _("not visible to you")
        return ObjectCell(icon_of(kind), label, KIND_LABELS[kind], "", on.is_dropped)
    url = "" if kind is T.TAG else access_url(named, is_browsable=not named.is_dropped)
    return ObjectCell(icon_of(kind), label_of(named), KIND_LABELS[kind], url, named.is_dropped)


class AccessReviewPage(PrincipalPage):
    """The review of a principal: their grants and memberships with their effects, and the objects of a warehouse."""

    template_name = "console/access_review.html"
    section = "access-review"
    title = gettext_lazy("Access review")
    view = "admin:access-review"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        shown = self.choose()
        if self.project is None or self.grantee is None:
            return self.render(shown)
        if request.GET.get("format") == "csv":
            return self._csv(self.project, self.grantee)
        return self.render({**shown, **self._review(self.project, self.grantee)})

    def read_projects(self, wanted: str | None) -> tuple[Sequence[Project], Project | None]:
        """Return only the project of the warehouse, if the address has both."""
        warehouse_id = parse_id(self.request.GET.get("warehouse", ""))
        if not wanted or warehouse_id is None:
            return super().read_projects(wanted)
        # Read with the objects above it, so that the checks on the project need no statement of their own.
        is_allowed(self.actor, SEEN_BY[T.WAREHOUSE], T.WAREHOUSE, warehouse_id)
        project = get_visible_project_for(actor=self.actor, given=wanted)
        return [project], project

    def _csv(self, project: Project, grantee: Grantee) -> HttpResponseBase:
        """Return the whole review as the API does, of the objects of a warehouse if the address names one."""
        actor = self.actor
        wanted = self.request.GET.get("warehouse")
        if wanted:
            objects = review_objects_for(
                actor=actor, project=project, grantee=grantee, warehouse=_warehouse(project, wanted), is_export=True,
                name_objects=name_objects,
            )  # fmt: skip
            return csv_response("reached-objects", REACHED_HEADER, reached_object_rows(read_all(objects)))
        sources = review_sources_for(
            actor=actor, project=project, grantee=grantee, is_export=True, name_objects=name_objects
        )
        return csv_response("access-review", PRINCIPAL_HEADER, principal_review_rows(read_all(sources)))

    def _review(self, project: Project, grantee: Grantee) -> dict[str, Any]:
        wanted = self.request.GET.get("warehouse")
        shown: dict[str, Any] = {
            "csv_url": self.url(format="csv"),
            "grants_url": self.url("admin:grants"),
            "sources_url": self.url(),
            "warehouses_url": self.url(warehouse=""),
        }
        if wanted:
            return shown | {"warehouse_id": wanted} | self._reached(self.actor, project, grantee, wanted)
        if wanted is not None:
            listed = list_warehouses_by_project(self.actor, [project])
            links = [(each.name, self.url(warehouse=str(each.pk))) for each in listed.warehouses]
            return shown | {"chooses_warehouse": True, "warehouses": links, "has_more_warehouses": listed.has_more}
        page = ListingPage(
            listing_key("console review of", project.pk, grantee), self.request.GET.get("after"), ROWS_A_PAGE
        )
        after = page.after_id()
        review = review_sources_for(
            actor=self.actor, project=project, grantee=grantee, is_export=False, name_objects=name_objects
        )
        found, token = read_page(review, page, "" if after == MIN_ID else str(after))
        return {
            **shown,
            "sources": [_source_line(each, found.names) for each in found.entries],
            "next_url": None if token is None else self.url(after=token),
        }

    def _reached(self, actor: Actor, project: Project, grantee: Grantee, warehouse_id: str) -> dict[str, Any]:
        key = listing_key("console reached by", project.pk, warehouse_id, grantee)
        page = ListingPage(key, self.request.GET.get("after"), ROWS_A_PAGE)
        review = review_objects_for(
            actor=actor, project=project, grantee=grantee, warehouse=_warehouse(project, warehouse_id),
            is_export=False, name_objects=name_objects,
        )  # fmt: skip
        found, token = read_page(review, page, page.after_key())
        return {
            "reached": [_reached_line(own_id, rights, found.names) for own_id, rights in found.entries],
            "next_url": None if token is None else self.url(warehouse=warehouse_id, after=token),
            "reached_csv_url": self.url(warehouse=warehouse_id, format="csv"),
        }


def _warehouse(project: Project, wanted: str) -> PermissionTarget:
    """Return a warehouse of the project. Raises `NoSuchWarehouse` (404), `BadRequest` for a text that is no id."""
    warehouse_id: UUID | None = parse_id(wanted)
    if warehouse_id is None:
        raise BadRequest("warehouse: must be the id of a warehouse")
    return find_permission_target(key=ObjectKey(T.WAREHOUSE, warehouse_id), project=project)


def _object(own_id: str, names: Names) -> ObjectCell:
    named = names.objects.get(own_id)
    return object_cell(named, named or reviewed_object(own_id, names))


def _roles(source: Source, names: Names) -> list[str]:
    return [names.roles.get(each) or str(each) for each in source.through]


def _source_line(each: AccessSource, names: Names) -> SourceLine:
    source = each.source
    return SourceLine(
        source.privilege,
        _object(source.securable_id, names),
        _roles(source, names),
        ", ".join(action.value.replace("_", " ") for action in each.effective.actions),
        "; ".join(f"{KIND_LABELS[T(kind)]}: {', '.join(privileges)}" for kind, privileges in each.below),
        source.expires_at,
    )


def _reached_line(own_id: str, rights: Rights, names: Names) -> ReachedLine:
    reasons = []
    for source in rights.sources:
        on = _object(source.securable_id, names)
        text = _("%(privilege)s on %(kind)s %(object)s") if on.url else _("%(privilege)s on %(object)s")
        reason = text % {"privilege": source.privilege, "kind": on.kind, "object": on.label}
        roles = _roles(source, names)
        if roles:
            reason = _("%(reason)s, by %(roles)s") % {"reason": reason, "roles": _ARROW.join(roles)}
        reasons.append(reason)
    if rights.is_shown_from_below:
        reasons.append(_("a visible object below"))
    return ReachedLine(
        _object(own_id, names),
        ", ".join(rights.effective.privileges),
        ", ".join(each.value.replace("_", " ") for each in rights.effective.actions),
        reasons,
    )
