"""How a client gets at the files of a table: what it asks for (`X-Iceberg-Access-Delegation`), what it is given."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag
from typing import Any, Final

from storage.profiles.profile import signs_requests, vends_credentials

HEADER: Final = "X-Iceberg-Access-Delegation"


class RequestedAccess(Flag):
    """What the header names; nothing: the server decides."""

    NOTHING = 0
    VENDED = 1
    SIGNING = 2
    CLIENT_MANAGED = 4
    """The client has credentials of its own; only when it asks for nothing else."""


_KNOWN: Final = {
    "vended-credentials": RequestedAccess.VENDED,
    "remote-signing": RequestedAccess.SIGNING,
    "client-managed": RequestedAccess.CLIENT_MANAGED,
}


@dataclass(frozen=True, slots=True)
class Delegation:
    """What a client gets beside the address of the store."""

    vended: bool
    signing: bool


def parse_requested_access(header: str | None) -> RequestedAccess:
    """`header` is its value, of several lines joined by commas. Unknown names are ignored."""
    asked = RequestedAccess.NOTHING
    for name in (header or "").split(","):
        asked |= _KNOWN.get(name.strip(), RequestedAccess.NOTHING)
    return (
        asked & ~RequestedAccess.CLIENT_MANAGED if asked & (RequestedAccess.VENDED | RequestedAccess.SIGNING) else asked
    )


def choose_delegation(asked: RequestedAccess, profile: dict[str, Any]) -> Delegation:
    """What a client gets that asks so, from a warehouse with this profile, as stored.

    Who asks for one thing gets the other where only that is to be had; who asks for nothing gets credentials first.
    """
    vends, signs = vends_credentials(profile), signs_requests(profile)
    if asked is RequestedAccess.CLIENT_MANAGED:
        return Delegation(vended=False, signing=False)
    if asked is RequestedAccess.VENDED | RequestedAccess.SIGNING:
        return Delegation(vended=vends, signing=signs)
    if asked is RequestedAccess.SIGNING:
        return Delegation(vended=vends and not signs, signing=signs)
    return Delegation(vended=vends, signing=signs and not vends)
