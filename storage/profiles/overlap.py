"""Whether two warehouses have files in common: in the same store, one's folder is in the other's or the same."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

_AWS = re.compile(r"s3[.-](.+\.)?amazonaws\.com(\.cn)?")


def overlap(one: tuple[dict[str, Any], str], other: tuple[dict[str, Any], str]) -> bool:
    """Each is a stored profile with its location."""
    if _store(one[0]) != _store(other[0]):
        return False
    mine, theirs = (f"{_folder(location)}/" for _, location in (one, other))
    return mine.startswith(theirs) or theirs.startswith(mine)


def common_start(profile: dict[str, Any], location: str) -> str:
    """How the locations of all warehouses begin that `overlap` may be true of."""
    scheme, _, rest = location.partition("://")
    authority = rest.partition("/")[0]
    if profile["type"] == "onelake":  # one lakehouse goes by the names of several hosts
        authority = authority.partition("@")[0] + "@"
    return f"{scheme}://{authority}"


def _store(profile: dict[str, Any]) -> tuple[object, ...]:
    match profile["type"]:
        case "s3" | "stackit":
            return "s3", profile["bucket"], _endpoint(profile["endpoint"])
        case "adls":
            return "adls", profile["filesystem"], profile["account-name"], profile["host"]
        case "onelake":
            return "onelake", profile["workspace-id"]
        case "gcs":
            return "gcs", profile["bucket"]
    return (profile["type"],)


def _endpoint(address: str | None) -> str | None:
    """None for AWS, however it is spelled: its buckets have their names once in the world.

    Nor does a region tell buckets apart elsewhere: most stores take any.
    """
    host = urlsplit(address).hostname or "" if address else ""
    return None if _AWS.fullmatch(host) else address


def _folder(location: str) -> str:
    """The path in the store, empty for all of it; begins with a slash otherwise."""
    _, slash, path = location.partition("://")[2].partition("/")
    return f"{slash}{path}"
