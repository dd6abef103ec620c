"""Whether the server may begin to serve with who decides about rights."""

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
from tenancy.refs import securable_id
from tenancy.selectors.server import get_server
from tenancy.services.administrators import administrated_among

logger = logging.getLogger("icekeeper.authz")


ALLOW_ALL: Final = "allowall"


OPENFGA: Final = "openfga"


NOBODY: Final = ""
"""It has not served yet: nobody relies on having all rights."""


OPEN_BEFORE: Final = frozenset({None, NOBODY, ALLOW_ALL})
"""Values on record with which the server protected nothing yet."""


class AuthorizationNotChosen(CatalogError):
    """The message names what may be chosen."""


def require_chosen_backend() -> None:
    """Asked before the server begins (`STARTUP_CHECKS`); raises `AuthorizationNotChosen`.

    A server on which everybody might do everything goes on like that until somebody decides: who only upgrades locks
    nobody out. Who decided when it last began to serve is on record, since before it was bootstrapped: that may be done
    over the API, of a server that serves.
    """
    own = settings.ICEKEEPER
    chosen = own.effective_authz_backend
    if chosen != ALLOW_ALL and not own.has_authentication:
        raise AuthorizationNotChosen(
            f"LAKEKEEPER__AUTHZ_BACKEND={chosen} decides by who asks, and authentication is off: nobody could do "
            "anything. Set LAKEKEEPER__OPENID_PROVIDER_URI (docs/authentication.md), or "
            "LAKEKEEPER__AUTHZ_BACKEND=allowall"
        )
    _require_authorizer(chosen)
    server = get_server()
    is_bootstrapped = server.bootstrapped_at is not None
    decided_before = server.authz_backend
    if decided_before is None and not is_bootstrapped:
        decided_before = NOBODY
    if is_bootstrapped and own.authz_backend is None and chosen != ALLOW_ALL and decided_before in {None, ALLOW_ALL}:
        raise AuthorizationNotChosen(
            "On this server everybody who has a token may do everything, and nothing says whether that is to go on. "
            "Set LAKEKEEPER__AUTHZ_BACKEND=allowall to go on like that; or appoint an administrator "
            "(manage.py bootstrap --admin oidc~SUBJECT) and set LAKEKEEPER__AUTHZ_BACKEND=builtin, from when on "
            "everybody needs grants (docs/authorization.md)"
        )
    if is_bootstrapped and own.authz_backend is None and chosen == ALLOW_ALL and decided_before not in OPEN_BEFORE:
        raise AuthorizationNotChosen(
            f"Until now {decided_before} decided about permissions on this server. Authentication is off now, so "
            "everybody could do everything. Set LAKEKEEPER__OPENID_PROVIDER_URI (an empty variable counts as unset), "
            "or LAKEKEEPER__AUTHZ_BACKEND=allowall to open this server to everybody"
        )
    if is_bootstrapped and chosen != ALLOW_ALL and not own.instance_admins and not _has_administrator(server):
        logger.warning(
            "nobody administrates this server, so nobody can grant anything: run manage.py bootstrap --admin USER_ID"
        )
    if chosen == OPENFGA and decided_before not in {OPENFGA, NOBODY}:
        require_reconciliation()
        logger.warning(
            "OpenFGA was not told of rights that changed before; until manage.py openfga_reconcile has run, what it "
            "says counts only where our own rows say the same"
        )
    if chosen == OPENFGA:
        _require_http_interface()
    if server.authz_backend != chosen and not is_read_only():
        Server.objects.update(authz_backend=chosen)


def _require_authorizer(chosen: str) -> None:
    """One that cannot be made stops the server, not its first request."""
    try:
        made: object = authorizer()
    except ImportError as error:
        raise AuthorizationNotChosen(f"LAKEKEEPER__AUTHZ_BACKEND={chosen} names no class: {error}") from error
    if not isinstance(made, Authorizer):
        raise AuthorizationNotChosen(f"LAKEKEEPER__AUTHZ_BACKEND={chosen} is no tenancy.authz.port.Authorizer")


def _require_http_interface() -> None:
    """An OpenFGA that is away, or not set up yet, does not stop the server; one that will never answer does."""
    try:
        retry_during_startup(openfga_store().resolve)
    except OpenFgaEndpointIsGrpc as failure:
        raise AuthorizationNotChosen(failure.reason) from None
    except OpenFgaUnavailable as failure:
        logger.warning("OpenFGA cannot decide yet, requests that need it are answered 503: %s", failure.reason)


def _has_administrator(server: Server) -> bool:
    return bool(administrated_among([securable_id(Securable.Type.SERVER, server.server_id)]))
