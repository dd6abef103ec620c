"""What a warehouse may choose about its files, whatever its kind of storage: members of the storage profile."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

MAY_HOLD_FILES = "allow-non-empty-locations"
"""Whether a new table may be put at a location that holds files already. Off unless the profile says otherwise: the
files may belong to others, and would be deleted with the table when it is purged."""

DEFAULT_LIFETIME_SECONDS = 3600
"""Of a credential whose store knows no other, or for which the profile says none."""


def allows_non_empty_locations(profile: dict[str, Any]) -> bool:
    return bool(profile.get(MAY_HOLD_FILES, False))


def vends_credentials(profile: dict[str, Any]) -> bool:
    """Whether clients may get temporary credentials for the files of tables."""
    return bool(profile.get("sts-enabled") or profile.get("sas-enabled"))


def signs_requests(profile: dict[str, Any]) -> bool:
    """Whether this server signs requests of clients to the store."""
    return bool(profile.get("remote-signing-enabled"))


def max_credential_lifetime(profile: dict[str, Any]) -> timedelta:
    """How long after it was handed out a credential for the files of a table may be good; nothing where none are."""
    if not vends_credentials(profile):
        return timedelta(0)
    lives = [profile.get(name) or 0 for name in ("sts-token-validity-seconds", "sas-token-validity-seconds")]
    return timedelta(seconds=max(*lives, DEFAULT_LIFETIME_SECONDS))
