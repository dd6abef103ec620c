"""Normalized locations; location keys, by which overlapping warehouses are found; default locations of new objects.

Default locations follow the `storage-layout` of the warehouse, which applies to new objects only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from hashlib import blake2b
from itertools import accumulate
from typing import Any, Final
from urllib.parse import quote, unquote
from uuid import UUID

from icekeeper.kernel.errors.types import InvalidLocation
from storage.profiles.azure import DEFAULT_HOST, ONELAKE_HOST
from storage.profiles.local import EMPTY_OR_DOTS, MAX_LOCATION_BYTES, normalize_location
from storage.profiles.s3 import all_aws_hosts, has_wildcard, store_key

SCHEME_ALIASES: Final = {"s3": ("s3", "s3a", "s3n"), "abfss": ("abfss", "wasbs"), "gs": ("gs",)}
"""Equivalent schemes by that of the warehouse. New locations may use an alternative only if the warehouse allows it."""

_ADDRESS = re.compile(r"([a-z0-9]+)://([^/]+)(/.*)?", re.DOTALL)


def location_inside(location: object, *, base: str) -> str:
    """Normalize a location that a client chose. Raises `InvalidLocation` unless it is below `base`."""
    if not isinstance(location, str):
        raise InvalidLocation("The location must be a string")
    normalized = normalize(location, base=base)
    if not normalized.startswith(base + "/"):
        raise InvalidLocation(f"Location {location!r} is not in the warehouse, {base}")
    return normalized


def new_location_inside(location: object, *, base: str, storage_profile: dict[str, Any]) -> str:
    """As `location_inside`, for a new object, with stricter rules than for existing ones.

    Alternative schemes must be allowed by the warehouse, and no store or client may interpret it as another location.
    """
    inside = location_inside(location, base=base)
    require_unambiguous(inside, base=base)
    _require_vendable(inside, storage_profile)
    if not storage_profile.get("allow-alternative-protocols"):
        scheme, spelled = (str(each).partition(":")[0] for each in (base, location))
        if scheme != spelled:
            raise InvalidLocation(
                f"Location {location!r} must begin with {scheme}: in this warehouse without allow-alternative-protocols"
            )
    return inside


def _require_vendable(location: str, storage_profile: dict[str, Any]) -> None:
    """Raise `InvalidLocation` if no credentials could be vended for it: a policy would match other locations."""
    if not storage_profile.get("sts-enabled") or not location.startswith("s3:") or not has_wildcard(location):
        return
    if not all_aws_hosts(storage_profile.get("endpoint"), storage_profile.get("sts-endpoint")):
        raise InvalidLocation(
            f"Location {location!r} contains *, ? or ${{, to which this warehouse's store cannot limit credentials"
        )


def require_unambiguous(location: str, *, base: str = "") -> None:
    """Raise `InvalidLocation` if a store or client might interpret the part below `base` as another location.

    SeaweedFS and Azure treat backslashes as slashes; Azure drops dots at the end of a segment.
    """
    below = location.removeprefix(base)
    if "\\" in below:
        raise InvalidLocation(f"Location {location!r} contains a backslash")
    if location.startswith("abfss:") and any(unquote(each).rstrip().endswith(".") for each in below.split("/")):
        raise InvalidLocation(f"Location {location!r} has a segment that ends in a dot, which Azure drops")


def normalize(location: str, *, base: str) -> str:
    """Normalize a location in the store of `base`. Raises `InvalidLocation`."""
    return normalize_location(location) if base.startswith("file:") else _normalize(location, base)


def parents(location: str, *, base: str) -> Iterator[str]:
    """Return the locations between `base` and `location`, both excluded, outermost first."""
    at = len(base) + 1
    while (at := location.find("/", at)) != -1:
        yield location[:at]
        at += 1


def _normalize(location: str, base: str) -> str:
    """Normalize a location in an object store: the scheme of the base, no trailing slash, otherwise unchanged."""
    scheme = base.partition(":")[0]
    matched = _ADDRESS.fullmatch(location)
    if matched is None or matched[1] not in SCHEME_ALIASES[scheme]:
        raise InvalidLocation(f"Location {location[:200]!r} is not a {scheme}: location")
    if len(location.encode(errors="replace")) > MAX_LOCATION_BYTES:
        raise InvalidLocation(f"Location is longer than {MAX_LOCATION_BYTES} bytes")
    if not location.isprintable() and any(unicodedata.category(each) in {"Cc", "Cf", "Cs"} for each in location):
        raise InvalidLocation(f"Location {location!r} contains a control character")
    authority, path = matched[2], (matched[3] or "").removesuffix("/")
    if re.search(r"[?#]|://", path):
        raise InvalidLocation(f"Location {location!r} contains a character that is not allowed")
    segments = path.split("/")[1:]
    if not EMPTY_OR_DOTS.isdisjoint(segments):
        raise InvalidLocation(f"Location {location!r} has empty or dot segments")
    if scheme == "abfss":
        _require_unchanged_by_azure(location, authority, segments)
    return f"{scheme}://{authority}{path}"


def _require_unchanged_by_azure(location: str, authority: str, segments: list[str]) -> None:
    if any(unquote(segment).strip() in {"", "/", ".", ".."} for segment in segments):
        raise InvalidLocation(f"Location {location!r} has segments that Azure decodes to nothing, dots or a slash")
    if authority.endswith(f".{ONELAKE_HOST}") and "%" in "".join(segments):
        raise InvalidLocation(f"Location {location!r} contains %, which OneLake would decode")


def build_location_key(profile: dict[str, Any], location: str) -> str:
    """Return a digest of the store and the folder in it, `<32 hex digits>/a/b/`, for a stored profile and its location.

    Keys are stored: a change of their form needs a migration.
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
            return "s3", profile["bucket"], store_key(profile["endpoint"], profile["bucket"])
        case "adls":
            return "adls", profile["filesystem"], profile["account-name"], profile["host"] or DEFAULT_HOST
        case "onelake":  # one lakehouse has several host names
            return "onelake", profile["workspace-id"]
        case "gcs":
            return "gcs", profile["bucket"]
    return (profile["type"],)


def _folder(location: str) -> str:
    """Return the path in the store, with a leading slash; empty for the whole store."""
    _, slash, path = location.partition("://")[2].partition("/")
    return f"{slash}{path}"


MAX_SEGMENT_BYTES: Final = 255
"""Limit of a folder's name in local file systems, MinIO and Azure."""

MAX_KEY_BYTES: Final = 950
"""Limit of a folder's path: keys of S3 and GCS have at most 1,024 bytes, and names of metadata files need 74."""


def namespace_location(profile: dict[str, Any], *, base: str, parent: str | None, name: str, namespace_id: UUID) -> str:
    """Return the location of a new namespace: below that of its `parent`, or `base` if the layout has no namespaces.

    Raises `InvalidLocation` for a name from which the layout builds no valid location.
    """
    layout = profile.get("storage-layout") or {}
    if layout.get("type") != "full-hierarchy":
        return base
    return _below(parent or base, layout["namespace"], name, namespace_id, base=base)


def tabular_location(profile: dict[str, Any], *, base: str, folder: str, name: str, tabular_id: object) -> str:
    """Return the location of a new table, view or generic table in the `folder` of its namespace.

    Raises `InvalidLocation` for a name from which the layout builds no valid location.
    """
    template = (profile.get("storage-layout") or {}).get("tabular")
    return f"{folder}/{tabular_id}" if template is None else _below(folder, template, name, tabular_id, base=base)


def _below(folder: str, template: str, name: str, id_: object, *, base: str) -> str:
    """Fill in the template: the id first, then the percent-encoded name, which has no placeholder or slash."""
    segment = template.replace("{uuid}", str(id_)).replace("{name}", quote(name, safe=""))
    location = f"{folder}/{segment}"
    try:
        _require_acceptable(location, segment, base)
    except InvalidLocation as error:
        raise InvalidLocation(
            f"The storage-layout of the warehouse builds the folder {segment[:300]!r} from the name {name!r}: "
            f"{error.message}. Choose a location, or another name"
        ) from None
    return location


def _require_acceptable(location: str, segment: str, base: str) -> None:
    if len(segment.encode()) > MAX_SEGMENT_BYTES:
        raise InvalidLocation(f"it is longer than {MAX_SEGMENT_BYTES} bytes")
    normalize(location, base=base)
    path = location.partition("://")[2].partition("/")[2]
    if not base.startswith("file:") and len(path.encode()) > MAX_KEY_BYTES:
        raise InvalidLocation(f"its path in the store is longer than {MAX_KEY_BYTES} bytes")
