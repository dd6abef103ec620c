"""Access delegation: what a client requests in `X-Iceberg-Access-Delegation`, which access it gets, to which folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, Flag
from typing import Any, Final

from storage.profiles.location import location_inside
from storage.profiles.profile import Profile, signs_requests, vends_credentials

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


class FileAccess(Enum):
    READ = "read"
    READ_WRITE = "read-write"
    """Includes deletion: writers replace files."""


@dataclass(frozen=True, slots=True)
class Vended:
    """A vended credential. `config` has the properties of clients, such as `s3.access-key-id`.

    It is cached and shared, so `config` must not be changed. `expires_at`, in UTC, is what the store says.
    """

    config: dict[str, str] = field(repr=False)
    expires_at: datetime

    @property
    def expires_at_ms(self) -> str:
        """Return milliseconds since the epoch, as clients expect them."""
        return str(int(self.expires_at.timestamp() * 1000))


def folder_of(location: str, profile: Profile) -> str:
    """Return the path of a location in the bucket or container, without surrounding slashes; never empty.

    Raises `InvalidLocation` for a location that is not below the base of the profile. The base itself is not allowed: a
    credential for it would open every table of the warehouse.
    """
    inside = location_inside(location, base=profile.location)
    return inside.partition("://")[2].partition("/")[2]
