"""The `local` storage profile: a folder of the server's machine, for laptops and tests; Lakekeeper does not have it.

`{"type": "local", "path": "/srv/warehouses/demo"}`: the folder must be in `ICEKEEPER__LOCAL_STORAGE_ROOT`.
`verify-metadata-on-load` (default true), `allow-non-empty-locations` (default false): see `storage.profiles.profile`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from django.conf import settings
from pydantic import AfterValidator, ConfigDict, Field

from icekeeper.kernel.errors.types import BadRequest, InvalidLocation
from storage.profiles.profile import Profile

_FILE = re.compile(r"file:(?://)?(/.*)", re.DOTALL)
_FORBIDDEN = re.compile(r"[%?#\\\x00-\x1f\x7f\ud800-\udfff]")
EMPTY_OR_DOTS = frozenset({"", ".", ".."})
"""Segments that no location may have."""
MAX_LOCATION_BYTES = 2000
"""Limit of its UTF-8 form: a location must fit into an index entry of the database."""


def normalize_location(location: str) -> str:
    """Normalize a `file:` location: `file:///a/b`, no trailing slash.

    `file:/a/b` and `file:///a/b/` are the same folder. Raises `InvalidLocation` for other schemes, hosts, dot
    segments, empty segments, characters that clients decode differently (`%`, `?`, `#`, backslash, controls), and
    surrogates.
    """
    matched = _FILE.fullmatch(location)
    if matched is None:
        raise InvalidLocation(f"Location {location[:200]!r} is not a file: location")
    if len(location.encode(errors="replace")) > MAX_LOCATION_BYTES:
        raise InvalidLocation(f"Location is longer than {MAX_LOCATION_BYTES} bytes")
    path = matched[1].rstrip("/")
    segments = path.split("/")[1:]
    if not segments or not EMPTY_OR_DOTS.isdisjoint(segments):
        raise InvalidLocation(f"Location {location!r} has empty or dot segments")
    if _FORBIDDEN.search(path):
        raise InvalidLocation(f"Location {location!r} contains a character that is not allowed")
    return f"file://{path}"


def local_path(location: str) -> Path:
    """Return the path of a normalized `file://` location."""
    return Path(location.removeprefix("file://"))


def _below_root(path: str) -> str:
    """Return the folder with symbolic links in the path of the root resolved.

    Raises `BadRequest` when local warehouses are off, `InvalidLocation` when the folder is not below the root.
    """
    root = settings.ICEKEEPER.local_storage_root
    if root is None:
        raise BadRequest(
            "Local warehouses are off: ICEKEEPER__LOCAL_STORAGE_ROOT is not set", field="storage-profile.type"
        )
    if not path.startswith("/"):
        raise BadRequest("storage-profile: path must be an absolute path", field="storage-profile.path")
    location = normalize_location(f"file://{path}")
    real_root = root.resolve()
    for base in (real_root, root.absolute()):
        try:
            below = local_path(location).relative_to(base)
        except ValueError:
            continue
        if below.parts:
            return str(real_root / below)
    message = f"storage-profile: path must be below the folder for local warehouses, {root}"
    raise InvalidLocation(message, field="storage-profile.path")


class LocalProfile(Profile):
    """A folder of the server's machine, below `ICEKEEPER__LOCAL_STORAGE_ROOT`."""

    model_config = ConfigDict(extra="forbid")
    immutable: ClassVar = ("path",)

    type: Literal["local"]
    path: Annotated[str, AfterValidator(_below_root)] = Field(description="Absolute path of the folder")
    verify_metadata_on_load: bool = Field(
        default=True,
        description="Respond 404 when the metadata file of a table is missing, instead of with its content",
    )
    allow_non_empty_locations: bool = Field(
        default=False, description="Allow new tables at locations that already contain files"
    )

    @property
    def location(self) -> str:
        return f"file://{self.path}"
