"""Middleware of the console: the public address of each request, its session, and its actor.

Requests for other paths than those of the console run no statement here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.exceptions import SessionInterrupted
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.middleware.csrf import CsrfViewMiddleware
from django.urls import set_script_prefix
from django.utils.translation import gettext as _

from icekeeper.kernel.http.base_url import base_url
from management.sign_in.notices import render_notice
from management.sign_in.paths import CONSOLE_PATH, is_console_path, sign_in_url
from management.sign_in.scopes import missing_scopes
from management.sign_in.sessions import find_actor, session_of, set_actor
from tenancy import maintenance
from tenancy.actor import ANONYMOUS, Identity, InsufficientScope
from tenancy.audit.occurrences import record_denial

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

MAX_ANONYMOUS_FORM_BYTES: Final = 65_536
"""Maximum size of a form that is sent without a session: the forms of the sign-in page are small."""

Handler = Callable[[HttpRequest], HttpResponseBase]


def follow_public_address(get_response: Handler) -> Handler:
    """Middleware that applies `base_url`, the address that browsers see, to requests and cookies of the console.

    Django then builds links with the public host and prefix, compares them with the `Origin` of a form, and knows
    whether the browser uses https, also behind a proxy that terminates TLS. Cookies are limited to the console; they
    are `Secure` with https.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        if not is_console_path(request):
            return get_response(request)
        public = urlsplit(base_url(request.META, settings.ICEKEEPER))
        request.META["HTTP_HOST"], request.META["wsgi.url_scheme"] = public.netloc, public.scheme
        request.path = public.path + request.path_info
        set_script_prefix(f"{public.path}/")
        response = get_response(request)
        for cookie in response.cookies.values():
            cookie["path"], cookie["secure"] = public.path + CONSOLE_PATH, public.scheme == "https"
        return response

    return middleware


class ConsoleSessionMiddleware(SessionMiddleware):
    """Django's own; a session that is deleted while a request runs leads to the sign-in page."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        try:
            return super().process_response(request, response)
        except SessionInterrupted:
            interrupted = HttpResponseRedirect(sign_in_url())
            interrupted.delete_cookie(settings.SESSION_COOKIE_NAME)
            return interrupted


class ConsoleCsrfMiddleware(CsrfViewMiddleware):
    """Django's own, for the console only: elsewhere no cookie authenticates a user."""

    def process_request(self, request: HttpRequest) -> None:
        if is_console_path(request):
            super().process_request(request)

    def process_view(
        self, request: HttpRequest, callback: Any, callback_args: Any, callback_kwargs: Any
    ) -> HttpResponseForbidden | None:
        if not is_console_path(request):
            return None
        return super().process_view(request, callback, callback_args, callback_kwargs)


class ActorMiddleware(AuthenticationMiddleware):
    """Sets `request.user` (`tenancy.User`), `request.actor` and `request.console_session` (None without a user).

    It also denies requests that the session does not allow: changes with an access token that lacks a scope (403) and
    in maintenance mode (503), and large forms without a session (413). Sign-in and sign-out are always possible.
    """

    def process_request(self, request: HttpRequest) -> None:
        actor = find_actor(request) if is_console_path(request) else None
        if actor is None:
            request.user, request.console_session = AnonymousUser(), None  # type: ignore[attr-defined]
            request.actor = ANONYMOUS  # type: ignore[attr-defined]
            return
        row = session_of(request).row
        request.user, request.console_session = row.user, row  # type: ignore[attr-defined, union-attr]
        set_actor(request, actor)

    def process_view(
        self, request: HttpRequest, _view: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]
    ) -> HttpResponse | None:
        if not is_console_path(request):
            return None
        is_reading = request.method in SAFE_METHODS
        actor = request.actor  # type: ignore[attr-defined]
        if actor.identity is None and not is_reading and _body_bytes(request) > MAX_ANONYMOUS_FORM_BYTES:
            return render_notice(request, _("The form is too large"), status=413)
        match = request.resolver_match
        if is_reading or (match is not None and match.app_name == "sign_in"):
            return None
        if actor.identity is not None and (denied := _deny_change_by_scope(request, actor.identity)):
            return denied
        if maintenance.is_read_only():
            return render_notice(
                request,
                _("The server is in maintenance mode"),
                _("Nothing was changed. Try again when maintenance is over."),
                status=503,
            )
        return None


def _deny_change_by_scope(request: HttpRequest, identity: Identity) -> HttpResponse | None:
    """Return the response for a change that the scopes of the access token do not allow; without a scope to read there
    is no session (`find_actor`)."""
    missing = missing_scopes(identity, is_reading=False)
    if not missing:
        return None
    match = request.resolver_match
    action = f"{request.method} {match.route if match is not None else ''}"
    actor, reason = request.actor, InsufficientScope.wire_type  # type: ignore[attr-defined]
    record_denial(actor=actor, action=action, object_type="endpoint", object_id="", reason=reason)
    return render_notice(
        request,
        _("This session is read-only"),
        _("Nothing was changed, because you signed in with an access token without the scope %(scopes)s.")
        % {"scopes": ", ".join(missing)},
        status=403,
    )


def _body_bytes(request: HttpRequest) -> int:
    try:
        return int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        return MAX_ANONYMOUS_FORM_BYTES + 1
