"""Keys of locations: one text a warehouse, by which warehouses in, around and at the same location are found."""

from __future__ import annotations

import re
from hashlib import blake2b
from itertools import accumulate
from typing import Any

from storage.profiles.azure import DEFAULT_HOST
from storage.profiles.s3_address import store_at


def build_location_key(profile: dict[str, Any], location: str) -> str:
    """Return the store as a digest and the folder in it, `<32 hex digits>/a/b/`, for a stored profile and its location.

    Keys are stored: another form of them needs a migration.
    """
    digest = blake2b(repr(_store(profile)).encode(), digest_size=16).hexdigest()
    return f"{digest}{_folder(location)}/"


def keys_overlap(one: str, other: str) -> bool:
    """Return whether two warehouses with these keys have files in common."""
    return one.startswith(other) or other.startswith(one)


def ancestor_keys(key: str) -> list[str]:
    """Return the keys of all locations that contain `key`, the whole store first and `key` itself last."""
    return list(accumulate(re.findall(r"[^/]*/", key)))


def descendant_key_range(key: str) -> tuple[str, str]:
    """Return the bounds of all keys that begin with `key`, in byte order: the first, and the first after them."""
    return key, f"{key.removesuffix('/')}0"


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
