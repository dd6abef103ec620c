"""Roles of a project: their list, and the page of each with its members, nesting and settings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Final
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import CatalogError, Forbidden
from management.admin.access.principals import grants_url, list_choices_for, read_principal
from management.admin.accounts.project_objects import ObjectOfProject, ProjectListPage, allowed_on_project
from management.admin.accounts.role_graph import draw_role_graph
from management.admin.accounts.user_ids import user_url
from management.admin.form_pages import Action, ConfirmPage
from management.admin.listing_pages import read_pager
from management.admin.navigation import Crumb, Text
from management.admin.tabs import Tab, choose_tab, link_tabs
from management.admin.times import read_moment
from management.admin.undo import done_with_undo
from management.templatetags.console_messages import Undo
from tenancy.authz.actions import Can
from tenancy.models import Role, Securable
from tenancy.models.role import OWN_PROVIDER
from tenancy.selectors.role_trees import get_nested_roles_for
from tenancy.selectors.roles import (
    Member,
    RoleFilter,
    get_role_for,
    get_role_of_any_project_for,
    list_members_for,
    list_roles_for,
    list_transitive_members_for,
    role_not_found,
    search_roles_for,
)
from tenancy.services.role_members import Members, add_role_members, remove_role_members
from tenancy.services.roles import SYSTEM_PROVIDER, RoleChanged, create_role, delete_role, update_role

TABS: Final = (
    Tab("members", gettext_lazy("Members")),
    Tab("nesting", gettext_lazy("Nesting")),
    Tab("all-members", gettext_lazy("All members")),
    Tab("settings", gettext_lazy("Settings")),
)
MAX_INDENT: Final = 6
"""Steps of depth that a tree indents."""


def role_url(role_id: object, tab: str = "") -> str:
    return reverse("admin:role-tab", args=[role_id, tab]) if tab else reverse("admin:role", args=[role_id])


class RolesPage(ProjectListPage):
    """The roles of a project: all, or those that match a text."""

    template_name = "console/roles.html"
    section = "roles"
    title = gettext_lazy("Roles")
    actions: ClassVar[Mapping[str, Action]] = {"create": Action("create", ("name", "description"))}

    def context(self) -> dict[str, Any]:
        project, typed, shown = self.project, self.query("q"), self.frame()
        if project is None:
            return shown
        pager = read_pager(self.request, "roles", project=project.pk, q=typed)
        if typed:
            roles, token = search_roles_for(
                actor=self.actor, project=project, typed=typed, provider_ids=None, page=pager.page
            )
        else:
            roles, token = list_roles_for(actor=self.actor, project=project, wanted=RoleFilter(), page=pager.page)
        can_create = bool(allowed_on_project(self.actor, project, [Can.CREATE_ROLE]))
        return {**shown, "rows": [_role_row(each) for each in roles], "can_create": can_create, **pager.links(token)}

    def create(self) -> HttpResponse:
        name, description = self.text("name").strip(), self.text("description").strip() or None
        role = create_role(actor=self.actor, project=self.require_project(), name=name, description=description)
        return self.done(role_url(role.pk), _("Role %(name)s is created.") % {"name": role.name})


def _role_row(role: Role) -> dict[str, Any]:
    return {
        "id": role.pk,
        "name": role.name,
        "description": role.description or "",
        "ident": "" if role.provider_id == OWN_PROVIDER else role.ident,
        "changed_at": role.changed_at,
        "revision": role.changed_at.isoformat(),
    }


class RoleOfAddress(ObjectOfProject):
    """The base of the pages of one role."""

    object_type = Securable.Type.ROLE
    list_view = "admin:roles"
    list_title = gettext_lazy("Roles")

    @cached_property
    def role(self) -> Role:
        role_id: UUID = self.kwargs["role_id"]
        project = get_role_of_any_project_for(actor=self.actor, role_id=role_id).project
        return get_role_for(actor=self.actor, action=Can.READ, project=project, role_id=role_id)

    @property
    def shown_object(self) -> Role:
        return self.role

    def not_found(self) -> CatalogError:
        return role_not_found(self.role.pk, self.project)


class RolePage(RoleOfAddress):
    """A role: its members, the roles in it and above it, and its name and description."""

    template_name = "console/role.html"
    section = "roles"
    actions: ClassVar[Mapping[str, Action]] = {
        "add-member": Action("add_member"),
        "remove-member": Action("remove_member"),
        "update": Action("update", ("name", "description")),
    }

    def context(self) -> dict[str, Any]:
        role = self.role
        allowed = self.allowed(Can.READ_ROLE_ASSIGNMENTS, Can.MANAGE_ROLE_ASSIGNMENTS, Can.UPDATE, Can.DELETE)
        current = choose_tab(TABS, self.kwargs.get("tab"))
        is_changeable = role.provider_id != SYSTEM_PROVIDER
        shown: dict[str, Any] = {
            "title": role.name,
            "breadcrumb": [*self.list_crumbs(), Crumb(role.name)],
            "role": {**_role_row(role), "created_at": role.created_at},
            "tabs": link_tabs(TABS, current, "admin:role", [role.pk]),
            "tab": current,
            "can_update": Can.UPDATE in allowed and is_changeable,
            "can_delete": Can.DELETE in allowed and is_changeable,
            "can_manage": Can.MANAGE_ROLE_ASSIGNMENTS in allowed,
            "delete_url": reverse("admin:role-delete", args=[role.pk]),
            "access_url": reverse("admin:role-access", args=[role.pk]),
            "grants_url": grants_url(f"role:{role.pk}"),
        }
        try:
            match current:
                case "members":
                    shown |= self._members(
                        can_read=Can.READ_ROLE_ASSIGNMENTS in allowed, can_manage=shown["can_manage"]
                    )
                case "nesting":
                    below, above = get_nested_roles_for(actor=self.actor, project=self.project, role_id=role.pk)
                    graph = draw_role_graph(role.pk, role.name, below=below, above=above)
                    shown |= {"below": _tree(below), "above": _tree(above), "graph": graph}
                case "all-members":
                    shown |= self._all_members()
        except Forbidden as error:
            shown |= {"is_forbidden": True, "forbidden_text": error.message}
        return shown

    def _members(self, *, can_read: bool, can_manage: bool) -> dict[str, Any]:
        shown: dict[str, Any] = {"can_read": can_read, "q": self.query("q")}
        if can_manage and shown["q"]:
            choices = list_choices_for(actor=self.actor, project=self.project, typed=shown["q"])
            shown["choices"] = [each for each in choices.found if each.value != f"role:{self.role.pk}"]
            shown["has_more_choices"] = choices.has_more
        if not can_read:
            return shown
        pager = read_pager(self.request, "members", self.role.pk)
        found, token = list_members_for(
            actor=self.actor, project=self.project, role_id=self.role.pk, kind=None, page=pager.page
        )
        return {**shown, "members": [_member_row(each) for each in found], **pager.links(token)}

    def _all_members(self) -> dict[str, Any]:
        pager = read_pager(self.request, "all members", self.role.pk)
        found, token = list_transitive_members_for(
            actor=self.actor, project=self.project, role_id=self.role.pk, kind=None, page=pager.page
        )
        return {"members": [_member_row(each) for each in found], **pager.links(token)}

    def add_member(self) -> HttpResponse:
        """Add a member: until a time only as the *Undo* of a removal, for which the message has the time."""
        until = self.text("expires_at")
        added = add_role_members(
            actor=self.actor, project=self.project, role_id=self.role.pk, members=self._read_member(),
            expires_at=read_moment(until) if until else None,
        )  # fmt: skip
        text = _("%(member)s is a member of %(role)s.") % {"member": self._member_name(), "role": self.role.name}
        was_changed = bool(added.user_ids or added.role_ids)
        return self._done_with_undo(text, self._undo("remove-member") if was_changed else None)

    def remove_member(self) -> HttpResponse:
        removed = remove_role_members(
            actor=self.actor, project=self.project, role_id=self.role.pk, members=self._read_member()
        )
        text = _("%(member)s is no longer a member of %(role)s.") % {
            "member": self._member_name(),
            "role": self.role.name,
        }
        ends = [each.expires_at for each in removed if each.expires_at is None or each.expires_at > now()]
        return self._done_with_undo(text, self._undo("add-member", expires_at=ends[0]) if ends else None)

    def _undo(self, action: str, *, expires_at: datetime | None = None) -> Undo:
        """Return the form of the opposite change of the same member."""
        fields = [("action", action), ("member", self.text("member")), ("shown_name", self._member_name())]
        if expires_at is not None:
            fields.append(("expires_at", expires_at.isoformat()))
        return Undo(role_url(self.role.pk), fields)

    def _done_with_undo(self, text: str, undo: Undo | None) -> HttpResponse:
        return done_with_undo(self.request, role_url(self.role.pk), text, undo)

    def _read_member(self) -> Members:
        member = read_principal(self.text("member"))
        if member.role_id is not None:
            return Members(role_ids=[member.role_id])
        return Members(user_ids=[str(member.user_id)])

    def _member_name(self) -> str:
        return self.text("shown_name")[:255] or self.text("member")

    def update(self) -> HttpResponse:
        role_id = self.role.pk
        name, description = self.text("name").strip(), self.text("description").strip() or None
        try:
            role = update_role(
                actor=self.actor, project=self.project, role_id=role_id, name=name, description=description,
                unchanged_since=read_moment(self.text("changed_at")),
            )  # fmt: skip
        except RoleChanged:
            del self.role  # the page shows the stored values next to those that were entered
            raise
        return self.done(role_url(role_id, "settings"), _("Role %(name)s is updated.") % {"name": role.name})


def _member_row(member: Member) -> dict[str, Any]:
    is_user = member.kind == "user"
    icon = "roles" if not is_user else "service" if member.user_type == "application" else "user"
    return {
        "kind": member.kind,
        "id": member.id,
        "name": member.name or member.id,
        "icon": icon,
        "note": (member.email or "") if is_user else "",
        "url": user_url(member.id) if is_user else role_url(member.id),
        "is_owner": member.entry == "owner",
        "expires_at": member.expires_at,
    }


def _tree(tree: Any) -> dict[str, Any]:
    rows = [
        {
            "url": role_url(each.id),
            "name": each.name,
            "indent": min(each.depth - 1, MAX_INDENT),
            "depth": each.depth,
            "is_owner": each.entry == "owner",
            "is_repeated": each.is_repeated,
        }
        for each in tree.roles
    ]
    return {"rows": rows, "is_complete": tree.is_complete}


class RoleDeletePage(ConfirmPage, RoleOfAddress):
    """What the deletion of a role ends, before it happens."""

    section = "roles"

    def context(self) -> dict[str, Any]:
        if not self.allowed(Can.DELETE):
            raise Forbidden(_("You do not have the permission to delete this role"))
        return super().context()

    def heading(self) -> str:
        return _("Delete role %(name)s?") % {"name": self.role.name}

    def crumbs(self) -> list[Crumb]:
        return [*self.list_crumbs(), Crumb(self.role.name, role_url(self.role.pk))]

    def effects(self) -> list[Text]:
        return [
            _("Its members lose the permissions that they have through it. Users and other roles are not deleted."),
            _("All grants to the role and on it are revoked."),
            _("The deletion cannot be undone: a new role of the same name has no members and no grants."),
        ]

    def back_url(self) -> str:
        return role_url(self.role.pk)

    def delete(self) -> HttpResponse:
        name = self.role.name
        delete_role(actor=self.actor, project=self.project, role_id=self.role.pk)
        return self.done(self.list_url(), _("Role %(name)s is deleted.") % {"name": name})
