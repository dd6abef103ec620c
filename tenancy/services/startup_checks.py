"""Checks before the server starts (`STARTUP_JOBS`): accepted terms of use, and the authorization backend."""

from __future__ import annotations

import logging
from typing import Final

from django.conf import settings

from icekeeper.kernel.errors.types import CatalogError
from tenancy.authz.openfga.client import OpenFgaEndpointIsGrpc, OpenFgaUnavailable
from tenancy.authz.openfga.http_interface import retry_during_startup
from tenancy.authz.openfga.outbox import require_reconciliation
from tenancy.authz.openfga.store import openfga_store
from tenancy.authz.port import Authorizer, authorizer
from tenancy.maintenance import is_read_only
from tenancy.models import Securable, Server
from tenancy.models.securable import securable_id
from tenancy.selectors.projects import get_server
from tenancy.services.administrators import administrated_among

logger = logging.getLogger("icekeeper.authz")

ALLOW_ALL: Final = "allowall"
OPENFGA: Final = "openfga"
NOT_SERVED: Final = ""
"""The server has not served yet: no client relies on unrestricted access."""


OPEN_BEFORE: Final = frozenset({None, NOT_SERVED, ALLOW_ALL})
"""Stored values of a server without access control."""


class TermsNotOnRecord(CatalogError):
    """The deployment was bootstrapped without accepted terms of use, as after a manual change of its row."""


class AuthorizationNotChosen(CatalogError):
    """The authorization backend must be configured; the message lists the choices."""


def require_terms_accepted() -> None:
    """Check that the terms of use are accepted. Raises `TermsNotOnRecord`.

    A server that is not bootstrapped yet starts with a warning.
    """
    server = get_server()
    if server.bootstrapped_at is None:
        logging.getLogger("icekeeper.server").warning(
            "the catalog is not bootstrapped: the first caller of POST /management/v1/bootstrap becomes administrator"
        )
    elif server.terms_accepted_at is None:
        raise TermsNotOnRecord(
            "The catalog is bootstrapped, but the terms of use are not accepted. "
            "Run: manage.py reopen_bootstrap --yes, then manage.py bootstrap"
        )


def require_chosen_backend() -> None:
    """Check the authorization backend. Raises `AuthorizationNotChosen`.

    A server with unrestricted access keeps it until an operator configures a backend, so that an upgrade locks no user
    out. The backend of the last start is stored, also before bootstrap, which may be a request to a running server.
    """
    own = settings.ICEKEEPER
    chosen = own.effective_authz_backend
    if chosen != ALLOW_ALL and not own.has_authentication:
        raise AuthorizationNotChosen(
            f"LAKEKEEPER__AUTHZ_BACKEND={chosen} authorizes by user, and authentication is off: every request would "
            "be denied. Set LAKEKEEPER__OPENID_PROVIDER_URI (docs/authentication.md), or "
            "LAKEKEEPER__AUTHZ_BACKEND=allowall"
        )
    _require_authorizer(chosen)
    server = get_server()
    is_bootstrapped = server.bootstrapped_at is not None
    decided_before = server.authz_backend
    if decided_before is None and not is_bootstrapped:
        decided_before = NOT_SERVED
    if is_bootstrapped and own.authz_backend is None and chosen != ALLOW_ALL and decided_before in {None, ALLOW_ALL}:
        raise AuthorizationNotChosen(
            "Every user with a token has unrestricted access to this server, and no setting confirms that. "
            "Set LAKEKEEPER__AUTHZ_BACKEND=allowall to keep it; or appoint an administrator "
            "(manage.py bootstrap --admin oidc~SUBJECT) and set LAKEKEEPER__AUTHZ_BACKEND=builtin, with which "
            "all users need grants (docs/authorization.md)"
        )
    if is_bootstrapped and own.authz_backend is None and chosen == ALLOW_ALL and decided_before not in OPEN_BEFORE:
        raise AuthorizationNotChosen(
            f"Until now {decided_before} authorized requests on this server. Authentication is off now, so "
            "access would be unrestricted. Set LAKEKEEPER__OPENID_PROVIDER_URI (an empty variable counts as unset), "
            "or LAKEKEEPER__AUTHZ_BACKEND=allowall to allow unrestricted access"
        )
    if is_bootstrapped and chosen != ALLOW_ALL and not own.instance_admins and not _has_administrator(server):
        logger.warning(
            "this server has no administrator, so no user can grant privileges: run manage.py bootstrap --admin USER_ID"
        )
    if chosen == OPENFGA and decided_before not in {OPENFGA, NOT_SERVED}:
        require_reconciliation()
        logger.warning(
            "OpenFGA has not received earlier changes of permissions; until manage.py openfga_reconcile has run, it "
            "allows only what the grants in the database also allow"
        )
    if chosen == OPENFGA:
        _require_http_interface()
    if server.authz_backend != chosen and not is_read_only():
        Server.objects.update(authz_backend=chosen)


def _require_authorizer(chosen: str) -> None:
    """Create the backend at startup, so that an invalid one stops the server and not its first request."""
    try:
        backend: object = authorizer()
    except ImportError as error:
        raise AuthorizationNotChosen(f"LAKEKEEPER__AUTHZ_BACKEND={chosen} cannot be imported: {error}") from error
    if not isinstance(backend, Authorizer):
        raise AuthorizationNotChosen(
            f"LAKEKEEPER__AUTHZ_BACKEND={chosen} is not a subclass of tenancy.authz.port.Authorizer"
        )


def _require_http_interface() -> None:
    """Require the HTTP interface of OpenFGA. An unavailable OpenFGA, or one without a store, only logs a warning."""
    try:
        retry_during_startup(openfga_store().resolve)
    except OpenFgaEndpointIsGrpc as failure:
        raise AuthorizationNotChosen(failure.reason) from None
    except OpenFgaUnavailable as failure:
        logger.warning("OpenFGA cannot decide yet, requests that need it get 503: %s", failure.reason)


def _has_administrator(server: Server) -> bool:
    return bool(administrated_among([securable_id(Securable.Type.SERVER, server.server_id)]))
