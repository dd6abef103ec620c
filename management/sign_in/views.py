"""Views of sign-in and sign-out, except those of identity providers (`management.sign_in.oidc`)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from icekeeper.kernel.errors.types import CatalogError, Forbidden, Unauthorized
from management.models import ConsoleSession
from management.sign_in import local_accounts
from management.sign_in.addresses import AddressRejected, find_claimant, find_user_of_address, use_address
from management.sign_in.notices import render_notice
from management.sign_in.pages import render_failure, render_sign_in
from management.sign_in.paths import safe_next, sign_in_url
from management.sign_in.providers import console_providers
from management.sign_in.scopes import ConsoleScopeMissing, require_console_scopes
from management.sign_in.sessions import accepts_access_tokens, begin_session, record_failed_sign_in, sign_out
from tenancy.actor import Actor, AuthenticationFailed, Identity
from tenancy.authn.own_tokens.stored_tokens import read_token
from tenancy.authn.requests import identify
from tenancy.models import User

logger = logging.getLogger("icekeeper.authn")

Method = ConsoleSession.Method


@require_safe
def show_sign_in(request: HttpRequest) -> HttpResponse:
    """Show the ways to sign in; a user with a session continues to `next`."""
    target = request.GET.get("next")
    if request.console_session is not None:  # type: ignore[attr-defined]
        return HttpResponseRedirect(safe_next(target))
    return render_sign_in(request, target=target)


@require_POST
@never_cache
def sign_in_with_token(request: HttpRequest) -> HttpResponse:
    """Sign in with an access token of this server. Short-lived tokens and those of providers are not accepted here."""
    target, text = request.POST.get("next"), request.POST.get("token", "").strip()
    if not accepts_access_tokens():
        return render_failure(request, target=target)
    try:
        if read_token(text) is None:
            raise AuthenticationFailed("the text is not an access token of this server")
        identity = identify(text)
        require_console_scopes(identity, is_reading=True)
        return _begin(request, identity, Method.TOKEN, target)
    except (Unauthorized, Forbidden) as failure:
        record_failed_sign_in(Method.TOKEN, failure)
        missing = failure.missing if isinstance(failure, ConsoleScopeMissing) else ()
        return render_failure(request, target=target, opened="token", missing_scopes=missing)


@require_POST
@never_cache
def sign_in_with_password(request: HttpRequest) -> HttpResponse:
    """Sign in as a local user, whose id may be given without `local~`."""
    target, name = request.POST.get("next"), request.POST.get("name", "").strip()
    if not local_accounts.is_enabled():
        return render_failure(request, target=target)
    user_id = name if name.startswith("local~") else f"local~{name}"
    verified = local_accounts.check_password(request, user_id=user_id, password=request.POST.get("password", ""))
    if verified is None:
        return render_failure(request, target=target, opened="password")
    try:
        return _begin(request, verified.identity, Method.PASSWORD, target, recheck=verified.require_unchanged)
    except AuthenticationFailed as failure:
        record_failed_sign_in(Method.PASSWORD, failure, claimant=Actor(user_id=user_id))
        return render_failure(request, target=target, opened="password")


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def sign_in_once(request: HttpRequest) -> HttpResponse:
    """Sign in with a one-time address, by POST alone: link scanners follow every link they see."""
    code = (request.POST if request.method == "POST" else request.GET).get("code", "")
    user = find_user_of_address(code)
    if user is None:
        return _reject_address(request, code)
    if request.method != "POST":
        return render(request, "console/sign_in/once.html", {"user": user, "code": code})
    identity = local_accounts.identity_of_user(user)
    try:
        return _begin(request, identity, Method.ADDRESS, None, recheck=lambda _user: use_address(code))
    except AddressRejected:  # used by another request since
        return _reject_address(request, code)
    except AuthenticationFailed as failure:
        record_failed_sign_in(Method.ADDRESS, failure, claimant=Actor(user_id=user.pk))
        return render_failure(request)


def _reject_address(request: HttpRequest, code: str) -> HttpResponse:
    if request.method == "POST":
        record_failed_sign_in(Method.ADDRESS, "AddressRejected", claimant=find_claimant(code))
    return render_notice(
        request,
        _("This one-time address is no longer valid"),
        _("It was used, or it is older than 15 minutes. Create another with manage.py sign_in_address."),
        status=403,
    )


@require_POST
@never_cache
def sign_out_here(request: HttpRequest) -> HttpResponse:
    """End the session, also at the identity provider if it has an end_session_endpoint.

    The browser is sent there by a page, because `form-action` of the policy also covers redirects after a POST.
    """
    actor = request.actor  # type: ignore[attr-defined]
    row = request.console_session  # type: ignore[attr-defined]
    sign_out(request)
    back = request.build_absolute_uri(reverse("sign_in:signed_out"))
    has_provider = row is not None and row.method == Method.PROVIDER
    provider = console_providers().get(actor.identity.provider_id) if has_provider else None
    link = provider.end_session_url(back) if provider is not None else None
    if provider is None or link is None:
        return HttpResponseRedirect(back)
    context = {"provider_link": link, "provider_name": provider.name}
    response = render(request, "console/sign_in/signed_out.html", context)
    response["Refresh"] = f"0;url={link}"
    return response


@require_safe
@never_cache
def show_signed_out(request: HttpRequest) -> HttpResponse:
    return render(request, "console/sign_in/signed_out.html", {"provider_link": None, "sign_in_link": sign_in_url()})


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's `CSRF_FAILURE_VIEW`."""
    logger.info("a form was rejected: %s", reason)
    return render_notice(
        request,
        _("This form is out of date, or it came from another site"),
        _("Nothing was changed. Go back, load the page again and repeat what you did. Cookies must be allowed."),
        status=403,
    )


def _begin(
    request: HttpRequest,
    identity: Identity,
    method: Method,
    target: str | None,
    *,
    recheck: Callable[[User], None] | None = None,
) -> HttpResponse:
    wanted = safe_next(target)
    try:
        begin_session(request, identity, method, recheck=recheck)
    except CatalogError as failure:
        if failure.status != 503:  # noqa: PLR2004
            raise
        return render_notice(request, failure.message, status=failure.status, retry_after=failure.retry_after)
    return HttpResponseRedirect(wanted)
