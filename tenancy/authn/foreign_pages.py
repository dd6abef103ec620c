"""Pages of other sites in somebody's browser, where authentication is off and being able to call is all it takes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from django.conf import settings

from icekeeper.kernel.errors.types import CatalogError, Forbidden
from icekeeper.kernel.http.base_url import base_url


class ForeignOrigin(Forbidden):
    wire_type = "ForeignOrigin"


def require_own_page(meta: Mapping[str, object]) -> None:
    """Browsers say by `Origin` which page sends a change; programs say nothing. Raises `ForeignOrigin` (403).

    Own pages are those of the host that was called, or of the address that clients are told; others need
    LAKEKEEPER__ALLOW_ORIGIN. Where tokens are asked for, a page without one can do nothing anyway.
    """
    origin = meta.get("HTTP_ORIGIN")
    if origin is None or settings.CORS_ALLOW_ALL_ORIGINS or origin in settings.CORS_ALLOWED_ORIGINS:
        return
    if _host_of(str(origin)) not in _own_hosts(meta):
        raise ForeignOrigin(
            f"Authentication is off, so pages of {str(origin)[:200]!r} may change nothing here: "
            "LAKEKEEPER__ALLOW_ORIGIN names those that may"
        )


def _own_hosts(meta: Mapping[str, object]) -> set[str]:
    hosts = {str(meta.get("HTTP_HOST", "")).lower()}
    with suppress(CatalogError):  # the request names no host
        hosts.add(_host_of(base_url(meta, settings.ICEKEEPER)))
    return hosts - {""}


def _host_of(address: str) -> str:
    """Host and port, empty when `address` has none, as the origin `null` of a page in a sandbox."""
    try:
        return urlsplit(address).netloc.lower()
    except ValueError:
        return ""
