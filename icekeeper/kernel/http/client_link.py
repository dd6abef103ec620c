"""The connection to the client of the current request, for responses that wait for something before they continue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol


class ClientLink(Protocol):
    """`icekeeper.server.request_threads.ClientLink`, which the HTTP server puts into the environ of each request."""

    def drain(self) -> None:
        """Send what the client has not received yet, and wait for it within the limits of slow clients.

        Raises `TimeoutError` or `ConnectionError`.
        """

    def has_ended(self) -> bool:
        """Return whether the response should end: the client has disconnected, or the server stops."""


class _NoLink:
    """Of a request that no HTTP server has received."""

    def drain(self) -> None: ...

    def has_ended(self) -> bool:
        return False


_NO_LINK: Final = _NoLink()


def client_link(meta: Mapping[str, Any]) -> ClientLink:
    """Return the link of the request with the WSGI environ `meta`."""
    found: ClientLink = meta.get("icekeeper.client", _NO_LINK)
    return found
