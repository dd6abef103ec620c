from __future__ import annotations

import logging

from icekeeper.kernel.errors.types import CatalogError
from tenancy.models import Server

logger = logging.getLogger("icekeeper.server")


class TermsNotOnRecord(CatalogError):
    """A deployment whose terms of use nobody has accepted: its row was made by hand, or came from elsewhere."""


def get_server() -> Server:
    """The one row about this deployment."""
    return Server.objects.get()


def require_terms_accepted() -> None:
    """Asked before the server begins (`STARTUP_CHECKS`); raises `TermsNotOnRecord`.

    A server that is not bootstrapped yet begins with a warning, so that it can be.
    """
    server = get_server()
    if server.bootstrapped_at is None:
        logger.warning(
            "the catalog is not bootstrapped: whoever calls POST /management/v1/bootstrap first becomes administrator"
        )
    elif server.terms_accepted_at is None:
        raise TermsNotOnRecord(
            "The catalog is bootstrapped, but nobody has accepted the terms of use. "
            "Run: manage.py reopen_bootstrap --yes, then manage.py bootstrap"
        )
