"""The profile of the user of the session: attributes, roles, sessions and access tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.ids import parse_id
from management.admin.accounts.token_lists import TokenForms
from management.admin.form_pages import Action
from management.admin.navigation import SHORTCUTS_COOKIE, has_shortcuts
from management.models import ConsoleSession
from management.sign_in.paths import CONSOLE_PATH
from management.sign_in.sessions import SessionSummary, end_all_sessions, end_session, list_sessions_for
from tenancy.selectors.projects import list_projects_for
from tenancy.selectors.role_trees import list_role_paths_for
from tenancy.selectors.users import get_own_user

_YEAR_SECONDS: Final = 365 * 24 * 3600

METHODS = {
    ConsoleSession.Method.PROVIDER: gettext_lazy("identity provider"),
    ConsoleSession.Method.TOKEN: gettext_lazy("access token"),
    ConsoleSession.Method.PASSWORD: gettext_lazy("password"),
    ConsoleSession.Method.ADDRESS: gettext_lazy("one-time address"),
}


def session_rows(sessions: list[SessionSummary]) -> list[dict[str, Any]]:
    """Return sessions as `parts/sessions.html` shows them."""
    return [{"session": each, "method": METHODS[each.method]} for each in sessions]


class ProfilePage(TokenForms):
    """What the user of the session is and has, whatever their permissions."""

    template_name = "console/profile.html"
    section = "profile"
    title = gettext_lazy("Profile and sessions")
    actions: ClassVar[Mapping[str, Action]] = {
        **TokenForms.actions,
        "end-session": Action("end_session"),
        "end-other-sessions": Action("end_other_sessions"),
        "switch-shortcuts": Action("switch_shortcuts"),
    }

    def context(self) -> dict[str, Any]:
        user = get_own_user(actor=self.actor)
        projects = list_projects_for(actor=self.actor)
        identity = self.actor.identity
        sessions = list_sessions_for(actor=self.actor, current=self._current_session)
        return {
            "own": user,
            "roles": list_role_paths_for(actor=self.actor, user_id=user.pk, projects=projects),
            "project_names": {each.pk: each.name for each in projects},
            "token_roles": identity.roles if identity is not None else (),
            "session_scopes": sorted(identity.scopes) if identity is not None and identity.scopes is not None else None,
            "sessions": session_rows(sessions),
            "has_other_sessions": any(not each.is_current for each in sessions),
            "has_shortcuts": has_shortcuts(self.request),
            **self.token_context(can_create=True, can_rotate=True, can_revoke=True),
        }

    def page_url(self) -> str:
        return reverse("admin:profile")

    @property
    def _current_session(self) -> ConsoleSession | None:
        current: ConsoleSession | None = self.request.console_session  # type: ignore[attr-defined]  # of the middleware
        return current

    def end_session(self) -> HttpResponse:
        session_id = parse_id(self.text("session_id"))
        if session_id is None:
            raise BadRequest(_("session_id: must be the id of a session"))
        end_session(actor=self.actor, session_id=session_id)
        return self.done(self.page_url(), _("The session has ended."))

    def end_other_sessions(self) -> HttpResponse:
        count = end_all_sessions(actor=self.actor, keep=self._current_session)
        text = ngettext("%(count)s other session has ended.", "%(count)s other sessions have ended.", count)
        return self.done(self.page_url(), text % {"count": count})

    def switch_shortcuts(self) -> HttpResponse:
        """Switch shortcuts of single keys on or off, in this browser."""
        is_on = self.text("shortcuts") == "on"
        text = _("Shortcuts of a single key are on.") if is_on else _("Shortcuts of a single key are off.")
        response = self.done(self.page_url(), text)
        if is_on:
            response.delete_cookie(SHORTCUTS_COOKIE, path=CONSOLE_PATH)
        else:
            response.set_cookie(
                SHORTCUTS_COOKIE, "off", max_age=_YEAR_SECONDS, path=CONSOLE_PATH, secure=True, httponly=True,
                samesite="Lax",
            )  # fmt: skip
        return response
