"""The one reading of the request target. Prefix choice, routing, authentication and logs all use its result.

API paths stay encoded: their URL patterns match raw segments and the path converters decode each one. All other paths
are decoded as Django expects. Whatever two readers could fold differently (dot segments, a prefix written with
escapes, NUL) is refused here.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_to_bytes

from icekeeper.kernel.errors.types import BadRequest, NotFound
from icekeeper.kernel.http.raw_path import raw_path

_DOT_SEGMENT = re.compile(r"(?:^|/)(?:\.|%2e){1,2}(?:/|$)", re.IGNORECASE)
_ABSOLUTE_FORM = re.compile(r"https?://", re.IGNORECASE)


def set_path(environ: dict[str, Any], target: str, prefixes: tuple[str, ...]) -> bool:
    """Put the path and the query of `target` into `environ`; True when the path begins with one of `prefixes`.

    Raises `BadRequest` or `NotFound` for a target that can be read in two ways. `icekeeper.path` is the raw path.
    """
    environ["icekeeper.path"] = path = raw_path(target)
    environ["SCRIPT_NAME"] = ""
    environ["PATH_INFO"] = path
    environ["QUERY_STRING"] = query = target.split("#", 1)[0].partition("?")[2]
    if not target.startswith("/") and target != "*" and not _ABSOLUTE_FORM.match(target):
        raise BadRequest("Malformed request target: must be a path or an http URL")
    if _DOT_SEGMENT.search(path):
        raise BadRequest("Malformed path: . and .. segments are not allowed")
    if "%00" in path or "%00" in query:
        raise BadRequest("Malformed path or query: NUL is not allowed")
    if path.startswith(prefixes):
        return True
    environ["PATH_INFO"] = decoded = unquote_to_bytes(path).decode("latin-1")  # WSGI's form of bytes
    if decoded.startswith(prefixes):
        raise NotFound("No such resource: an API's prefix must be written without escapes")
    if _DOT_SEGMENT.search(decoded):
        raise BadRequest("Malformed path: . and .. segments are not allowed")
    return False
