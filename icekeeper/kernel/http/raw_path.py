"""The request path as the client sent it, which is split into segments before they are decoded.

A name may contain `/` (sent as `%2F`), `+` (sent as `%2B`) or a space (sent as `+` by Java, as `%20` by Python). Only
the raw target distinguishes them, so all code reads the path from it.
"""

from __future__ import annotations

from urllib.parse import unquote_plus
from uuid import UUID

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.names import LEVEL_SEPARATOR


class RawSegment:
    """Path converter of Django for one raw segment.

    It may be empty: Spark loads tables of no namespace and must get NoSuchTable.
    """

    regex = "[^/]*"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


def raw_path(target: str) -> str:
    """Return the path of a request target, without scheme, authority, query and fragment.

    It is `/catalog/v1` for `GET http://host/catalog/v1?x` (absolute form, RFC 9112 §3.2.2) and `GET /catalog/v1?x`.
    """
    path = target.split("#", 1)[0].split("?", 1)[0]
    if not path.startswith("/"):
        _, found, rest = path.partition("://")
        path = "/" + rest.partition("/")[2] if found else "/"
    return path


def decode_segment(segment: str) -> str:
    """Decode one path segment. Raises `BadRequest` when the bytes are not UTF-8."""
    if "%" not in segment and "+" not in segment:
        return segment
    try:
        return unquote_plus(segment, errors="strict")
    except UnicodeDecodeError:
        raise BadRequest("Malformed path: a segment is not UTF-8") from None


def decode_id(segment: str) -> UUID | None:
    """Return the UUID in a path segment; None for anything else. Some clients encode its hyphens (`%2D`)."""
    return parse_id(unquote_plus(segment) if "%" in segment else segment)


def decode_levels(segment: str) -> tuple[str, ...]:
    """Decode a namespace segment, whose levels are joined by `%1F`."""
    return split_levels(decode_segment(segment))


def split_levels(joined: str) -> tuple[str, ...]:
    """Split the levels of a namespace at U+001F, which no name contains."""
    return tuple(joined.split(LEVEL_SEPARATOR))
