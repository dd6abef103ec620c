"""Users: their list and search, and the page of each with roles, tokens, sessions and what can be done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from icekeeper.kernel.errors.types import BadRequest, Forbidden
from icekeeper.kernel.ids import parse_id
from management.admin.access.principals import grants_url
from management.admin.accounts.profile import session_rows
from management.admin.accounts.service_accounts import service_account_url
from management.admin.accounts.token_lists import TokenForms
from management.admin.accounts.user_ids import user_url
from management.admin.form_pages import Action, ConfirmPage, FormPage
from management.admin.listing_pages import read_pager
from management.admin.navigation import Crumb, Text
from management.admin.times import read_moment
from management.sign_in.sessions import end_all_sessions, end_session, list_sessions_for
from tenancy.authz.actions import Can
from tenancy.models import User
from tenancy.models.user import SERVICE_ACCOUNT_PREFIX
from tenancy.selectors.projects import list_projects_for
from tenancy.selectors.role_trees import list_role_paths_for
from tenancy.selectors.users import get_user_for, list_allowed_on_user, list_users_for, search_users
from tenancy.services.users import UserChanged, block_user, delete_user, unblock_user, update_user


class UsersPage(FormPage):
    """All users, or those that match a text. Users without the permission to list them can only search."""

    template_name = "console/users.html"
    section = "users"
    title = gettext_lazy("Users")

    def context(self) -> dict[str, Any]:
        typed = self.query("q")
        pager = read_pager(self.request, "users", q=typed)
        shown: dict[str, Any] = {"q": typed, "rows": []}
        if typed:
            users, token = search_users(actor=self.actor, typed=typed, user_type=None, page=pager.page)
        else:
            try:
                users, token = list_users_for(actor=self.actor, name=None, page=pager.page)
            except Forbidden:
                return {**shown, "is_forbidden": True}
        return {**shown, "rows": [_user_row(each) for each in users], **pager.links(token)}


def _user_row(user: User) -> dict[str, Any]:
    is_application = user.user_type == User.Type.APPLICATION
    return {
        "id": user.pk,
        "url": user_url(user.pk),
        "name": user.name or user.pk,
        "email": user.email,
        "type": user.user_type,
        "icon": "service" if is_application else "user",
        "is_active": user.is_active,
        "is_registered": user.has_called,
        "created_at": user.created_at,
    }


class UserOfAddress(FormPage):
    """The base of the pages of one user."""

    @cached_property
    def shown_user(self) -> User:
        return get_user_for(actor=self.actor, action=Can.READ, user_id=self.user_id)

    @property
    def user_id(self) -> str:
        user_id: str = self.kwargs["user_id"]
        return user_id

    @property
    def is_own(self) -> bool:
        return self.user_id == self.actor.user_id

    def user_crumbs(self) -> list[Crumb]:
        return [Crumb(_("Users"), reverse("admin:users"))]


class UserPage(TokenForms, UserOfAddress):
    """A user: attributes, roles, sessions and tokens, as far as the user of the session may see them."""

    template_name = "console/user.html"
    section = "users"
    actions: ClassVar[Mapping[str, Action]] = {
        "update": Action("update", ("name", "email")),
        "block": Action("block"),
        "unblock": Action("unblock"),
        "rotate-token": Action("rotate_token"),
        "end-session": Action("end_session"),
        "end-sessions": Action("end_sessions"),
    }

    def context(self) -> dict[str, Any]:
        user = self.shown_user
        is_service = user.pk.startswith(SERVICE_ACCOUNT_PREFIX)
        wanted = [Can.UPDATE, Can.DELETE, Can.READ_ROLE_ASSIGNMENTS]
        allowed = list_allowed_on_user(self.actor, wanted, user.pk)
        can_update, can_delete = Can.UPDATE in allowed, Can.DELETE in allowed
        shown: dict[str, Any] = {
            "title": user.name or user.pk,
            "breadcrumb": [*self.user_crumbs(), Crumb(user.name or user.pk)],
            "shown": _user_row(user)
            | {
                "updated_at": user.updated_at,
                "revision": user.updated_at.isoformat(),
                "origin": user.get_origin_display(),
            },
            "is_own": self.is_own,
            "can_update": can_update and not is_service,
            "can_block": can_delete and not self.is_own,
            "can_delete": can_delete and not self.is_own and not is_service,
            "shows_state": bool(allowed),
            "delete_url": reverse("admin:user-delete", args=[user.pk]),
            "grants_url": grants_url(f"user:{user.pk}"),
            "service_account_url": service_account_url(UUID(user.pk.removeprefix(SERVICE_ACCOUNT_PREFIX)))
            if is_service and can_update
            else None,
        }
        if Can.READ_ROLE_ASSIGNMENTS in allowed:
            projects = list_projects_for(actor=self.actor)
            shown["roles"] = list_role_paths_for(actor=self.actor, user_id=user.pk, projects=projects)
            shown["project_names"] = {each.pk: each.name for each in projects}
        if can_delete:
            current = self.request.console_session  # type: ignore[attr-defined]  # of the middleware
            sessions = list_sessions_for(actor=self.actor, user_id=user.pk, current=current)
            shown["sessions"] = session_rows(sessions)
        if can_update:
            shown |= self.token_context(can_create=False, can_rotate=self.is_own, can_revoke=True)
        return shown

    def token_owner(self) -> str:
        return self.user_id

    def page_url(self) -> str:
        return user_url(self.user_id)

    def update(self) -> HttpResponse:
        name, email = self.text("name").strip(), self.text("email").strip()
        try:
            update_user(
                actor=self.actor, user_id=self.user_id, name=name, email=email or None,
                user_type=self.shown_user.user_type, unchanged_since=read_moment(self.text("changed_at")),
            )  # fmt: skip
        except UserChanged:
            del self.shown_user  # the page shows the stored values next to those that were entered
            raise
        return self.done(self.page_url(), _("User %(id)s is updated.") % {"id": self.user_id})

    def block(self) -> HttpResponse:
        block_user(actor=self.actor, user_id=self.user_id)
        return self.done(
            self.page_url(), _("User %(id)s is blocked, and their sessions have ended.") % {"id": self.user_id}
        )

    def unblock(self) -> HttpResponse:
        unblock_user(actor=self.actor, user_id=self.user_id)
        return self.done(self.page_url(), _("User %(id)s is not blocked any longer.") % {"id": self.user_id})

    def end_session(self) -> HttpResponse:
        session_id = parse_id(self.text("session_id"))
        if session_id is None:
            raise BadRequest(_("session_id: must be the id of a session"))
        end_session(actor=self.actor, session_id=session_id)
        return self.done(self.page_url(), _("The session has ended."))

    def end_sessions(self) -> HttpResponse:
        current = self.request.console_session  # type: ignore[attr-defined]  # of the middleware
        count = end_all_sessions(actor=self.actor, user_id=self.user_id, keep=current)
        text = ngettext("%(count)s session has ended.", "%(count)s sessions have ended.", count)
        return self.done(self.page_url(), text % {"count": count})


class UserDeletePage(ConfirmPage, UserOfAddress):
    """What the deletion of a user ends, before it happens."""

    section = "users"

    def context(self) -> dict[str, Any]:
        if not list_allowed_on_user(self.actor, [Can.DELETE], self.user_id):
            raise Forbidden(_("You do not have the permission to delete this user"))
        return super().context()

    def heading(self) -> str:
        return _("Delete user %(name)s?") % {"name": self.shown_user.name or self.user_id}

    def crumbs(self) -> list[Crumb]:
        return [*self.user_crumbs(), Crumb(self.shown_user.name or self.user_id, self.back_url())]

    def effects(self) -> list[Text]:
        return [
            _("The user is %(id)s.") % {"id": self.user_id},
            _("Memberships and grants end, access tokens are revoked, and sessions end."),
            _("What the user created stays."),
            _("A user of an identity provider can call again, and then starts without permissions. To prevent that, "
              "block the user instead."),
        ]  # fmt: skip

    def back_url(self) -> str:
        return user_url(self.user_id)

    def delete(self) -> HttpResponse:
        delete_user(actor=self.actor, user_id=self.user_id)
        return self.done(reverse("admin:users"), _("User %(id)s is deleted.") % {"id": self.user_id})
