"""Sign-in with an identity provider: the authorization code flow with PKCE (RFC 6749 §4.1, RFC 7636) and a nonce.

The views are those of mozilla-django-oidc with the settings of one of several providers. The library keeps state, nonce
and code verifier in the session, each for one use; provider and destination of the sign-in are stored with them. The
token then identifies the user as it does in the APIs (`tenancy.authn.requests.identify`).
"""

from __future__ import annotations

import logging
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils.crypto import constant_time_compare
from django.utils.encoding import iri_to_uri
from django.utils.translation import gettext as _
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from icekeeper.kernel.errors.types import BadRequest, CatalogError, Forbidden, Unauthorized
from management.models import ConsoleSession
from management.sign_in.notices import render_notice
from management.sign_in.pages import render_failure
from management.sign_in.paths import safe_next
from management.sign_in.providers import ConsoleProvider, console_providers
from management.sign_in.sessions import begin_session, record_failed_sign_in
from tenancy.actor import AuthenticationFailed, Identity
from tenancy.authn.authenticator import ProviderUnavailable
from tenancy.authn.oidc.claims import texts
from tenancy.authn.oidc.jwt import NotAJwt, read_jwt
from tenancy.authn.requests import UnderMaintenance, identify
from tenancy.models import User

logger = logging.getLogger("icekeeper.authn")

STATES: Final = "oidc_states"
"""Name of the library's pending sign-ins in the data of a session, by state."""

MAX_STATES: Final = 3
"""Pending sign-ins of one browser; the oldest is dropped. They must fit into a cookie."""

MAX_NEXT_LENGTH: Final = 512
"""Maximum bytes of the destination of a sign-in, as a URI; for longer ones it is the overview."""


class UnknownSignIn(Unauthorized):
    wire_type = "UnknownSignIn"


class SignInDenied(Unauthorized):
    """The identity provider returned an error instead of a code."""

    wire_type = "SignInDenied"


def provider_settings(provider: ConsoleProvider) -> dict[str, Any]:
    """Return the settings of mozilla-django-oidc for one provider; others have the library's defaults."""
    return {
        "OIDC_RP_CLIENT_ID": provider.client_id,
        "OIDC_RP_CLIENT_SECRET": provider.client_secret,
        "OIDC_RP_SCOPES": provider.scope,
        "OIDC_USE_PKCE": True,
        "OIDC_AUTHENTICATION_CALLBACK_URL": "sign_in:callback",
        "OIDC_AUTH_REQUEST_EXTRA_PARAMS": {} if provider.resource is None else {"resource": provider.resource},
    }


class _OneProvider:
    """Gives the library the settings of `provider`, where it reads Django's."""

    provider: ConsoleProvider

    def get_settings(self, attr: str, *default: Any) -> Any:
        return provider_settings(self.provider).get(attr, default[0] if default else None)


class BeginView(_OneProvider, OIDCAuthenticationRequestView):  # type: ignore[misc]  # the library has no types
    """Redirects to the provider. It is called by GET: `form-action` of the policy also covers redirects after POST."""

    def __init__(self, **kwargs: Any) -> None:
        super(OIDCAuthenticationRequestView, self).__init__(**kwargs)  # the library reads its settings here

    def get(self, request: HttpRequest, provider_id: str) -> HttpResponseBase:
        provider = console_providers().get(provider_id)
        if provider is None:
            return render_notice(request, _("This identity provider does not exist"), status=404)
        self.provider = provider
        self.OIDC_RP_CLIENT_ID = provider.client_id
        try:
            self.OIDC_OP_AUTH_ENDPOINT = provider.endpoints().authorization
        except ProviderUnavailable as failure:
            return _unavailable(request, provider, failure)
        pending = request.session.get(STATES)
        if pending is not None and len(pending) >= MAX_STATES:
            del pending[next(iter(pending))]
        response: HttpResponse = super().get(request)
        del request.session["oidc_login_next"]
        begun = next(reversed(request.session[STATES].values()))
        wanted = iri_to_uri(request.GET.get("next"))  # ASCII, so that its length is that in the cookie
        begun["provider"], begun["next"] = provider_id, safe_next(wanted, max_length=MAX_NEXT_LENGTH)
        request.session.modified = True
        response["Cache-Control"] = "private, no-store"
        return response


class CallbackView(_OneProvider, OIDCAuthenticationCallbackView):  # type: ignore[misc]
    """Completes the sign-in to which the browser returns from the provider."""

    def get(self, request: HttpRequest) -> HttpResponseBase:
        pending = request.session.get(STATES) or {}
        begun = pending.get(request.GET.get("state", ""))
        provider = None if begun is None else console_providers().get(str(begun.get("provider")))
        if begun is None or provider is None:
            return self._failed(UnknownSignIn("no sign-in with this state began in this browser"), status=400)
        self.provider, self.next = provider, safe_next(begun.get("next"))
        if request.GET.get("error") or "code" not in request.GET:
            del pending[request.GET["state"]]
            request.session.modified = True
            reported = request.GET.get("error", "")[:64]
            return self._failed(SignInDenied(f"the identity provider reported {reported!r}"))
        request.console_provider = provider  # type: ignore[attr-defined]  # for the backend
        try:
            response: HttpResponseBase = super().get(request)
        except ProviderUnavailable as failure:
            return _unavailable(request, provider, failure)
        except UnderMaintenance as failure:
            return render_notice(request, failure.message, status=failure.status, retry_after=failure.retry_after)
        except (Unauthorized, Forbidden, BadRequest) as failure:
            return self._failed(failure)
        return response

    def login_success(self) -> HttpResponseBase:
        identity: Identity = self.request.console_identity
        begin_session(self.request, identity, ConsoleSession.Method.PROVIDER)
        return HttpResponseRedirect(self.next)

    def login_failure(self) -> HttpResponseBase:
        return self._failed(AuthenticationFailed("the user is deleted or not active"))

    def _failed(self, failure: CatalogError, *, status: int = 403) -> HttpResponse:
        record_failed_sign_in(ConsoleSession.Method.PROVIDER, failure)
        return render_failure(self.request, status=status, target=getattr(self, "next", None))


class ProviderBackend(_OneProvider, OIDCAuthenticationBackend):  # type: ignore[misc]
    """Exchanges the code, verifies the ID token and its nonce, and identifies the user as the APIs do."""

    def __init__(self) -> None:
        super(OIDCAuthenticationBackend, self).__init__()  # the library reads its settings here

    def authenticate(self, request: HttpRequest, *, nonce: str, code_verifier: str) -> User | None:
        """Return the user, as a row that need not be stored, and set `request.console_identity`.

        Raises `AuthenticationFailed` and the other errors of `identify`.
        """
        self.provider = request.console_provider  # type: ignore[attr-defined]
        self.OIDC_RP_CLIENT_ID, self.OIDC_RP_CLIENT_SECRET = self.provider.client_id, None
        found: User | None = super().authenticate(request, nonce=nonce, code_verifier=code_verifier)
        return found

    def get_token(self, payload: dict[str, Any]) -> dict[str, Any]:
        return self.provider.exchange_code(payload)

    def verify_token(self, token: object, **kwargs: Any) -> dict[str, Any]:
        """Return the claims of the ID token (OpenID Connect Core §3.1.3.7). Raises `AuthenticationFailed`."""
        if not isinstance(token, str):
            raise AuthenticationFailed(
                "the response of the token endpoint has no ID token: is the scope openid missing?"
            )
        self.provider.verify_id_token(token)
        try:
            claims = dict(read_jwt(token).claims)
        except NotAJwt as reason:
            raise AuthenticationFailed(f"the ID token is not a JWT: {reason}") from None
        if not constant_time_compare(str(claims.get("nonce")), str(kwargs["nonce"])):
            raise AuthenticationFailed("the ID token is for another sign-in: its nonce differs")
        if len(texts(claims.get("aud"))) > 1 and claims.get("azp") != self.provider.client_id:
            raise AuthenticationFailed("the ID token was issued to another client (azp)")
        return claims

    def get_or_create_user(self, access_token: object, id_token: str, _payload: dict[str, Any]) -> User:
        token = id_token if self.provider.uses_id_token else access_token
        if not isinstance(token, str):
            raise AuthenticationFailed("the response of the token endpoint has no access token")
        identity = identify(token)
        if identity.provider_id != self.provider.id:
            raise AuthenticationFailed("the token is of another identity provider")
        self.request.console_identity = identity
        return User(pk=identity.user_id)

    def get_user(self, user_id: object) -> User | None:
        return None  # `ActorMiddleware` finds the user of a session


def _unavailable(request: HttpRequest, provider: ConsoleProvider, failure: ProviderUnavailable) -> HttpResponse:
    logger.warning("a sign-in to the console failed: %s", failure.reason)
    return render_notice(
        request,
        _("%(name)s cannot be reached") % {"name": provider.name},
        _("Try again in a few seconds. If it stays so, ask an administrator: the log of the server has the reason."),
        status=failure.status,
        retry_after=failure.retry_after,
    )
