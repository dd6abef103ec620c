"""The access tab of an object: the viewer's permissions, an explanation, and the grants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.objects import name_objects
from catalog.selectors.permission_objects import PermissionObject
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest, CatalogError
from icekeeper.kernel.http.paging import Page as ListingPage
from icekeeper.kernel.http.paging import listing_key
from management.admin.access.explanation import ExplanationView, view_explanation
from management.admin.access.matrix import ROWS_A_PAGE, view_matrix
from management.admin.access.objects import KIND_LABELS, access_url, describe_source, key_of
from management.admin.access.principals import ICONS, Picked, Picker, principal_value, read_picked
from management.admin.navigation import Text
from tenancy.actor import Actor, Grantee, acting_as, is_instance_admin
from tenancy.authz.actions import ACTIONS_ON, Can, Privilege, grant_action, privileges_on, reads_grants
from tenancy.authz.port import AuthorizationBackendError
from tenancy.models import Securable
from tenancy.selectors.access_reviews import InheritedGrants, Names, list_inherited_grants_for, review_matrix_for
from tenancy.selectors.explanations import explain_for
from tenancy.selectors.grants import (
    GrantFilter,
    ListedGrant,
    get_managed_access_for,
    list_grants_for,
    list_grants_on_for,
)
from tenancy.selectors.objects import NamedObject
from tenancy.selectors.permission_checks import list_allowed_actions_for
from tenancy.selectors.principal_names import PrincipalName, name_principals

GRANTS_A_PAGE: Final = 50
INTERNAL_ACTOR: Final = "internal"
"""The name of the server's own commands in the audit trail."""
EXPIRES_SOON: Final = timedelta(days=30)
MAX_TEXT_LENGTH: Final = 300
_CHANGE_GRANTS_IN_WAREHOUSES: Final[Text] = gettext_lazy(
    "manage_grants or ownership on this %(kind)s or on an object above, or security_admin on the project"
)
_CHANGE_GRANTS: Final[Mapping[Securable.Type, Text]] = {
    Securable.Type.SERVER: gettext_lazy("admin or operator on this server"),
    Securable.Type.PROJECT: gettext_lazy("security_admin or project_admin on this project, or admin on the server"),
    Securable.Type.ROLE: gettext_lazy("ownership of this role, or security_admin on its project"),
    Securable.Type.TAG: gettext_lazy("ownership of this tag, or security_admin on its project"),
}
"""By type: the privileges with which a user changes grants."""
HAVE_MANAGED_ACCESS: Final = frozenset({Securable.Type.WAREHOUSE, Securable.Type.NAMESPACE})


@dataclass(frozen=True, slots=True)
class ActionChip:
    """An action and the address that explains it."""

    name: str
    label: str
    url: str
    is_allowed: bool


_USUAL_ACTIONS: Final = (Can.READ_DATA, Can.LIST_EVERYTHING, Can.GET_METADATA)
"""The first of these that a type of object has is chosen in the form of an explanation."""


@dataclass(frozen=True, slots=True)
class GrantLine:
    """A grant as a row of the table. `value` names the principal in forms; `where` is the object above that has it."""

    value: str
    icon: str
    principal: str
    note: str
    is_blocked: bool
    privilege: str
    created_at: datetime
    expires_at: datetime | None
    by: str
    can_revoke: bool
    where: str = ""
    where_url: str = ""


@dataclass(frozen=True, slots=True)
class ManagedAccessView:
    """`can_set` shows the button; `is_inherited`: it is in effect because of an object above."""

    is_set: bool
    is_inherited: bool
    can_set: bool
    url: str


@dataclass(frozen=True, slots=True)
class PrivilegeOption:
    name: str
    description: str


class AccessTab:
    """Reads what the viewer may see of the access to one object."""

    def __init__(self, request: HttpRequest, actor: Actor, shown: PermissionObject) -> None:
        """Read the actions that are allowed to the viewer. Raises the 404 of an object that is hidden from them."""
        self.request, self.actor, self.shown = request, actor, shown
        self.ref = shown.target.ref
        self.key = key_of(shown.named)
        wanted = ACTIONS_ON[self.ref.type]
        more = (Can.SET_MANAGED_ACCESS,) if self.ref.type in HAVE_MANAGED_ACCESS else ()
        self.privileges = privileges_on(self.ref.type)
        granting = [grant_action(each.name) for each in self.privileges]
        allowed = list_allowed_actions_for(
            actor=actor, grantee=None, ref=self.ref, actions=[*wanted, *more, *granting], missing=shown.target.missing
        )
        self.allowed = set(allowed)
        if self.ref.type is Securable.Type.PROJECT and not self.allowed & {Can.GET_METADATA, Can.READ_GRANTS}:
            raise shown.target.missing
        self.can_read_grants = reads_grants(self.ref) in self.allowed

    def name_objects(self, own_ids: Iterable[str]) -> Mapping[str, NamedObject]:
        """Return the names of objects; those on the path of the object are known already."""
        wanted, known = list(own_ids), self.shown.known
        found = {each: known[each] for each in wanted if each in known}
        return found | name_objects(each for each in wanted if each not in known)

    def context(self, draft: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return what the template shows; `draft` is the grant form as it was sent, by default the query."""
        context: dict[str, Any] = {
            "access_kind": KIND_LABELS[self.ref.type],
            "access_url": access_url(self.shown.named, is_browsable=self.shown.is_browsable),
            "access_actions": self.actions(),
            "denied_actions": sum(each not in self.allowed for each in ACTIONS_ON[self.ref.type]),
            "can_read_grants": self.can_read_grants,
            "explain_url": self.explain_url,
            "explain_picker": Picked().picker("who", gettext_lazy("Principal"), self.shown.project),
            "explain_action": next((each.value for each in _USUAL_ACTIONS if each in ACTIONS_ON[self.ref.type]), ""),
        }
        is_matrix = self.request.GET.get("view") == "matrix"
        if self.can_read_grants:
            context["grants_view"] = "matrix" if is_matrix else "list"
            context |= self._matrix() if is_matrix else self._grants()
            context |= self._grant_form(self.request.GET if draft is None else draft)
        if self.ref.type in HAVE_MANAGED_ACCESS:
            context["managed_access"] = self._managed_access()
        return context

    @property
    def explain_url(self) -> str:
        return reverse("admin:object-explain", args=[self.key])

    def actions(self) -> list[ActionChip]:
        return [
            ActionChip(
                each.value,
                each.value.replace("_", " "),
                f"{self.explain_url}?{urlencode({'action': each.value})}",
                each in self.allowed,
            )
            for each in ACTIONS_ON[self.ref.type]
        ]

    def explanation(self) -> dict[str, Any]:
        """Return what the page of an explanation shows, of the principal and the action in the query."""
        query, project = self.request.GET, self.shown.project
        picked, problem = Picked(), ""
        if self.can_read_grants:
            try:
                picked = read_picked(query, "who", actor=self.actor, project=project)
            except BadRequest as error:
                problem = error.message
        wanted = query.get("action", "")
        action = next((each for each in ACTIONS_ON[self.ref.type] if each.value == wanted), None)
        explained: ExplanationView | None = None
        if action is not None and picked.choices is None and not problem:
            try:
                explained = self._explain(picked, action)
            except AuthorizationBackendError:
                problem = _("The authorization backend does not respond. Try again.")
            except CatalogError as error:
                if error.status >= 500:  # noqa: PLR2004
                    raise
                problem = error.message
        return {
            "explain_url": self.explain_url,
            "access_actions": self.actions(),
            "can_read_grants": self.can_read_grants,
            "explain_picker": picked.picker("who", gettext_lazy("Principal"), project),
            "explain_action": wanted,
            "explained": explained,
            "explain_problem": problem,
        }

    def _explain(self, picked: Picked, action: Can) -> ExplanationView:
        own = acting_as(self.actor)
        found = explain_for(
            actor=self.actor,
            grantee=picked.grantee,
            ref=self.ref,
            action=action,
            missing=self.shown.target.missing,
            name_objects=self.name_objects,
        )
        principal = picked.name
        if principal is None:
            principal = PrincipalName("user", _("You")) if own is None else name_principals([own])[own]
        return view_explanation(found, principal, action.value, self.shown.named, grantee=picked.grantee or own)

    def _grants(self) -> dict[str, Any]:
        query = self.request.GET
        typed, is_expiring = query.get("grants-q", "").strip()[:MAX_TEXT_LENGTH], bool(query.get("expiring"))
        wanted = GrantFilter(text=typed, expires_before=now() + EXPIRES_SOON if is_expiring else None)
        kept = {name: value for name, value in (("grants-q", typed), ("expiring", "1" if is_expiring else "")) if value}
        key = listing_key("console grants", self.key, *sorted(kept.items()))
        page = ListingPage(key, query.get("grants-after"), GRANTS_A_PAGE)
        found, token = self._list_grants(wanted, page)
        above = InheritedGrants((), Names({}, {}), is_complete=True)
        if page.token is None:
            above = list_inherited_grants_for(
                actor=self.actor, target=self.shown.target, wanted=wanted, name_objects=self.name_objects
            )
        listed = [*found, *(grant for grant, _ in above.grants)]
        names = name_principals({each.grantee for each in listed} | granting_users(listed))
        may_change = self._changeable()
        return {
            "grants": [
                *(_line(each, names, may_change) for each in found),
                *(_inherited_line(each, names, on, above.names) for each, on in above.grants),
            ],
            "has_all_inherited": above.is_complete,
            "grants_next_url": None if token is None else f"?{urlencode({**kept, 'grants-after': token})}#grants",
            "grants_text": typed,
            "is_expiring": is_expiring,
            "preview_url": reverse("admin:object-preview", args=[self.key]),
        }

    def _changeable(self) -> set[str]:
        """Return the privileges that the viewer may grant and revoke here."""
        return {each.name for each in self.privileges if grant_action(each.name) in self.allowed}

    def _matrix(self) -> dict[str, Any]:
        query, shown = self.request.GET, self.shown
        more: list[Grantee] = []
        try:
            picked = read_picked(query, "row", actor=self.actor, project=shown.project)
        except BadRequest:
            picked = Picked()
        if picked.grantee is not None:
            more.append(picked.grantee)
        page = ListingPage(listing_key("console matrix", self.key), query.get("matrix-after"), ROWS_A_PAGE)
        found, token = review_matrix_for(
            actor=self.actor,
            target=shown.target,
            project=shown.project,
            more=more,
            name_objects=self.name_objects,
            page=page,
        )
        after = None if token is None else f"?{urlencode({'view': 'matrix', 'matrix-after': token})}#grants"
        return {
            "matrix": view_matrix(found, shown.target, self.privileges, self._changeable()),
            "matrix_next_url": after,
            "matrix_picker": picked.picker("row", gettext_lazy("Add a principal"), shown.project),
            "preview_url": reverse("admin:object-preview", args=[self.key]),
        }

    def _list_grants(self, wanted: GrantFilter, page: ListingPage) -> tuple[list[ListedGrant], str | None]:
        target = self.shown.target
        if self.ref.type is Securable.Type.ROLE:  # its assignments, which include the members
            return list_grants_for(actor=self.actor, ref=self.ref, missing=target.missing, wanted=wanted, page=page)
        return list_grants_on_for(actor=self.actor, target=target, wanted=wanted, page=page)

    def _grant_form(self, draft: Mapping[str, str]) -> dict[str, Any]:
        may_change = self._changeable()
        options = [_option(each) for each in self.privileges if each.name in may_change]
        if not options:
            return {"no_grant_text": self._no_grant_text()}
        problem = ""
        try:
            picked = read_picked(draft, "grantee", actor=self.actor, project=self.shown.project)
        except BadRequest as error:
            picked, problem = Picked(), error.message
        picker: Picker = picked.picker("grantee", gettext_lazy("Principal"), self.shown.project)
        return {
            "grant_form": {
                "url": reverse("admin:object-grant", args=[self.key]),
                "preview_url": reverse("admin:object-preview", args=[self.key]),
                "picker": picker,
                "options": options,
                "privilege": draft.get("privilege", ""),
                "expires": draft.get("expires", ""),
                "problem": problem,
            }
        }

    def _no_grant_text(self) -> str:
        """Return why the viewer reads the grants and cannot change them, and what to do."""
        privileges = _CHANGE_GRANTS.get(self.ref.type, _CHANGE_GRANTS_IN_WAREHOUSES) % {
            "kind": KIND_LABELS[self.ref.type]
        }
        needed = _("To change them, you need %(privileges)s: ask a user who has one of these.") % {
            "privileges": privileges
        }
        if not is_instance_admin(self.actor):
            return f"{_('You can read these grants, but not change them.')} {needed}"
        reason = _("Instance admins can read grants, but not change them.")
        other = _(
            "You can also add the user to a role that has the privilege: instance admins manage the members of roles."
        )
        return f"{reason} {needed} {other}"

    def _managed_access(self) -> ManagedAccessView:
        found = get_managed_access_for(actor=self.actor, ref=self.ref, missing=self.shown.target.missing)
        return ManagedAccessView(
            found.is_set,
            found.is_in_effect and not found.is_set,
            Can.SET_MANAGED_ACCESS in self.allowed,
            reverse("admin:object-managed-access", args=[self.key]),
        )


def granting_users(grants: Iterable[ListedGrant]) -> set[Grantee]:
    """Return the users who granted these, as far as that is recorded."""
    return {Grantee(user_id=each.granted_by) for each in grants if each.granted_by and "~" in each.granted_by}


def granted_by(grant: ListedGrant, names: Mapping[Grantee, PrincipalName]) -> str:
    """Return who granted it as a text; empty where that is not recorded."""
    if grant.granted_by is None:
        return ""
    if grant.granted_by == INTERNAL_ACTOR:
        return _("the server")
    name = names.get(Grantee(user_id=grant.granted_by))
    return grant.granted_by if name is None else name.name


def _line(grant: ListedGrant, names: Mapping[Grantee, PrincipalName], may_change: set[str]) -> GrantLine:
    grantee: Grantee = grant.grantee
    name = names[grantee]
    note = name.note or (grantee.user_id or "")
    return GrantLine(
        principal_value(grantee), ICONS[name.kind], name.name, note if note != name.name else "", name.is_blocked,
        grant.privilege, grant.created_at, grant.expires_at, granted_by(grant, names), grant.privilege in may_change,
    )  # fmt: skip


def _inherited_line(
    grant: ListedGrant, principals: Mapping[Grantee, PrincipalName], on: str, names: Names
) -> GrantLine:
    named = names.objects.get(on)
    where, url = describe_source(on, named), "" if named is None else access_url(named)
    return replace(_line(grant, principals, set()), where=where, where_url=url)


def _option(privilege: Privilege) -> PrivilegeOption:
    return PrivilegeOption(privilege.name, privilege.description)


def access_context(request: HttpRequest, actor: Actor, shown: PermissionObject) -> dict[str, Any]:
    """Return what the access tab of an object shows to `actor`."""
    return AccessTab(request, actor, shown).context()
