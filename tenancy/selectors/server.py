"""The row of this deployment."""

from __future__ import annotations

import logging

from icekeeper.kernel.errors.types import CatalogError
from tenancy.models import Server

logger = logging.getLogger("icekeeper.server")


class TermsNotOnRecord(CatalogError):
    """The deployment was bootstrapped without accepted terms of use, as after a manual change of its row."""


def get_server() -> Server:
    """Return the single row of this deployment."""
    return Server.objects.get()


def require_terms_accepted() -> None:
    """Check at startup (`STARTUP_CHECKS`) that the terms of use are accepted. Raises `TermsNotOnRecord`.

    A server that is not bootstrapped yet starts with a warning.
    """
    server = get_server()
    if server.bootstrapped_at is None:
        logger.warning(
            "the catalog is not bootstrapped: the first caller of POST /management/v1/bootstrap becomes administrator"
        )
    elif server.terms_accepted_at is None:
        raise TermsNotOnRecord(
            "The catalog is bootstrapped, but the terms of use are not accepted. "
            "Run: manage.py reopen_bootstrap --yes, then manage.py bootstrap"
        )
