"""Access delegation: what a client requests in `X-Iceberg-Access-Delegation`, and what it gets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag
from typing import Any, Final

from storage.profiles.profile import signs_requests, vends_credentials

HEADER: Final = "X-Iceberg-Access-Delegation"


class RequestedAccess(Flag):
    """The values of the header; without any, the server chooses."""

    NOTHING = 0
    VENDED = 1
    SIGNING = 2
    CLIENT_MANAGED = 4
    """The client has its own credentials; ignored if it also requests another."""


_KNOWN: Final = {
    "vended-credentials": RequestedAccess.VENDED,
    "remote-signing": RequestedAccess.SIGNING,
    "client-managed": RequestedAccess.CLIENT_MANAGED,
}


@dataclass(frozen=True, slots=True)
class Delegation:
    """How a client gets access to the files of a table."""

    vended: bool
    signing: bool


def parse_requested_access(header: str | None) -> RequestedAccess:
    """Parse the value of the header; several headers are joined by commas. Unknown values are ignored."""
    requested = RequestedAccess.NOTHING
    for name in (header or "").split(","):
        requested |= _KNOWN.get(name.strip(), RequestedAccess.NOTHING)
    return (
        requested & ~RequestedAccess.CLIENT_MANAGED
        if requested & (RequestedAccess.VENDED | RequestedAccess.SIGNING)
        else requested
    )


def choose_delegation(requested: RequestedAccess, profile: dict[str, Any]) -> Delegation:
    """Choose the access of a client in a warehouse with this profile, as stored.

    A client that requests one kind gets the other if only that is available. Without a request, credentials are
    preferred.
    """
    vends, signs = vends_credentials(profile), signs_requests(profile)
    if requested is RequestedAccess.CLIENT_MANAGED:
        return Delegation(vended=False, signing=False)
    if requested is RequestedAccess.VENDED | RequestedAccess.SIGNING:
        return Delegation(vended=vends, signing=signs)
    if requested is RequestedAccess.SIGNING:
        return Delegation(vended=vends and not signs, signing=signs)
    return Delegation(vended=vends, signing=signs and not vends)
