"""Where the files of a warehouse are, as one text that the texts of all in, around and at it can be found by."""

from __future__ import annotations

import re
from hashlib import blake2b
from itertools import accumulate
from typing import Any

from storage.profiles.azure import DEFAULT_HOST
from storage.profiles.s3_address import store_at


def build_location_key(profile: dict[str, Any], location: str) -> str:
    """The store, as a digest, and the folder in it: `<32 hex digits>/a/b/`, for a stored profile and its location.

    Places are stored: another form of them needs a migration.
    """
    digest = blake2b(repr(_store(profile)).encode(), digest_size=16).hexdigest()
    return f"{digest}{_folder(location)}/"


def keys_overlap(one: str, other: str) -> bool:
    """Whether two warehouses at these places have files in common."""
    return one.startswith(other) or other.startswith(one)


def ancestor_keys(place: str) -> list[str]:
    """The places that `place` lies in, the whole store first and itself last."""
    return list(accumulate(re.findall(r"[^/]*/", place)))


def descendant_key_range(place: str) -> tuple[str, str]:
    """The first place at or in `place`, and the first one behind them all, in the order of bytes."""
    return place, f"{place.removesuffix('/')}0"


def _store(profile: dict[str, Any]) -> tuple[object, ...]:
    match profile["type"]:
        case "s3" | "stackit":
            return "s3", profile["bucket"], store_at(profile["endpoint"], profile["bucket"])
        case "adls":
            return "adls", profile["filesystem"], profile["account-name"], profile["host"] or DEFAULT_HOST
        case "onelake":  # one lakehouse goes by the names of several hosts
            return "onelake", profile["workspace-id"]
        case "gcs":
            return "gcs", profile["bucket"]
    return (profile["type"],)


def _folder(location: str) -> str:
    """The path in the store, empty for all of it; begins with a slash otherwise."""
    _, slash, path = location.partition("://")[2].partition("/")
    return f"{slash}{path}"
