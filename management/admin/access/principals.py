"""The principal picker: users and roles that the viewer may see, by name, id or email address.

Every form with a principal uses it. Without JavaScript the form is sent twice: once with the text, and again with one
of the choices that were found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from icekeeper.kernel.errors.types import BadRequest, CatalogError
from icekeeper.kernel.http.paging import Page as ListingPage
from icekeeper.kernel.ids import parse_id
from management.admin.navigation import Text
from management.admin.pages import Page, render_page
from tenancy.actor import Actor, Grantee, require_user_id
from tenancy.models import Project
from tenancy.selectors.principal_names import PrincipalName, name_principals, name_role, name_user
from tenancy.selectors.projects import get_visible_project_for, list_projects_for
from tenancy.selectors.roles import find_roles_of_projects_for
from tenancy.selectors.users import search_users

MAX_CHOICES: Final = 10
"""Of users, and of roles."""
MAX_LENGTH: Final = 300

ICONS: Final = {"role": "roles", "service": "service", "user": "user"}


@dataclass(frozen=True, slots=True)
class Choice:
    """A principal that can be chosen; `value` names it in forms."""

    value: str
    icon: str
    name: str
    note: str


@dataclass(frozen=True, slots=True)
class Choices:
    """The principals that a search has found, and whether more match its text."""

    found: Sequence[Choice] = ()
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class Picker:
    """A picker as its template shows it.

    `value` is the chosen principal; `choices` are those found for `text`, None before a search.
    """

    name: str
    label: Text
    src: str
    text: str = ""
    value: str = ""
    choices: Choices | None = None


@dataclass(frozen=True, slots=True)
class Picked:
    """What a form has in a picker: the chosen principal, or the text and what was found for it."""

    grantee: Grantee | None = None
    name: PrincipalName | None = None
    text: str = ""
    choices: Choices | None = None

    def picker(self, name: str, label: Text, project: Project | None) -> Picker:
        value = "" if self.grantee is None else principal_value(self.grantee)
        text = self.text if self.name is None else self.name.name
        return Picker(name, label, suggestions_url(project), text, value, self.choices)


def principal_value(grantee: Grantee) -> str:
    return f"user:{grantee.user_id}" if grantee.role_id is None else f"role:{grantee.role_id}"


def read_principal(value: str) -> Grantee:
    """Return the principal of a value. Raises `BadRequest` for a text that is none."""
    kind, _colon, own_id = value.partition(":")
    role_id = parse_id(own_id) if kind == "role" else None
    if role_id is not None:
        return Grantee(role_id=role_id)
    if kind != "user":
        raise BadRequest("A principal is user:ID or role:ID")
    return Grantee(user_id=require_user_id(own_id))


def read_picked(given: Mapping[str, str], name: str, *, actor: Actor, project: Project | None) -> Picked:
    """Read a picker in a form or a query. A text that was changed after the choice is searched for."""
    text = _read_text(given, f"{name}-text")
    shown = given.get(f"{name}-shown")
    value = given.get(f"{name}-choice") or given.get(name, "")
    if value and (shown is None or text == shown.strip()):
        grantee = read_principal(value)
        return Picked(grantee, name_principals([grantee])[grantee])
    if not text:
        return Picked()
    return Picked(text=text, choices=list_choices_for(actor=actor, project=project, typed=text))


def _read_text(given: Mapping[str, str], name: str) -> str:
    return given.get(name, "").replace("\0", "").strip()[:MAX_LENGTH]


def grants_url(principal: str) -> str:
    """Return the page of the grants of a principal, `user:<id>` or `role:<id>`."""
    return f"{reverse('admin:grants')}?{urlencode({'who': principal})}"


def list_choices_for(*, actor: Actor, project: Project | None, typed: str) -> Choices:
    """Return the roles and users that match a text, as far as the actor may search for them.

    Without a project, roles of all projects that the actor sees, with the names of these. The id of a user who is not
    known yet is a choice, too: grants to users of identity providers need no registration.
    """
    projects = [project] if project is not None else list_projects_for(actor=actor)
    roles, has_more_roles = find_roles_of_projects_for(actor=actor, projects=projects, typed=typed, limit=MAX_CHOICES)
    found = [
        _choice(Grantee(role_id=each.pk), name_role(each), each.project.name if len(projects) > 1 else "")
        for each in roles
    ]
    page = ListingPage("console principals", None, MAX_CHOICES)
    users, more_users = search_users(actor=actor, typed=typed, user_type=None, page=page)
    found += [_choice(Grantee(user_id=each.pk), name_user(each)) for each in users]
    if not any(each.value == f"user:{typed}" for each in found) and _is_user_id(typed):
        found.append(Choice(f"user:{typed}", "user", typed, _("not registered yet")))
    return Choices(found, has_more=has_more_roles or more_users is not None)


def _choice(grantee: Grantee, name: PrincipalName, project: str = "") -> Choice:
    own_id = grantee.user_id or ""
    notes = [each for each in (name.note, own_id) if each and each != name.name]
    note = " · ".join(dict.fromkeys([*notes, project] if project else notes))
    return Choice(principal_value(grantee), ICONS[name.kind], name.name, note)


def _is_user_id(text: str) -> bool:
    if "~" not in text:
        return False
    try:
        require_user_id(text)
    except BadRequest:
        return False
    return True


def suggestions_url(project: Project | None) -> str:
    query = "" if project is None else f"?{urlencode({'project': project.pk})}"
    return f"{reverse('admin:principals')}{query}"


class PrincipalsFragment(Page):
    """The choices for the text `q`, for the script of the picker; a part of a page."""

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        typed = _read_text(request.GET, "q")
        choices = Choices()
        if typed:
            choices = list_choices_for(actor=self.actor, project=self._project(), typed=typed)
        return render_page(request, "console/parts/principal_choices.html", {"choices": choices})

    def _project(self) -> Project | None:
        given = self.request.GET.get("project")
        if not given:
            return None
        try:
            return get_visible_project_for(actor=self.actor, given=given)
        except CatalogError:
            return None
