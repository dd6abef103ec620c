"""Secrets for another catalog, from a variable or a file: on the command line everybody on the machine could read them.

This is no setting of the server: the operator names the variable, and it counts for one run.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from icekeeper.kernel.errors.types import BadRequest

MAX_BYTES = 65_536
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(\S.*)")


def read_secret(place: str | None) -> str | None:
    """The secret at `env:NAME` or `file:PATH`, without white space around it; None when `place` is None.

    Raises `BadRequest`, which names the place and never the secret.
    """
    if place is None:
        return None
    kind, _, name = place.partition(":")
    if kind == "env" and name:
        secret = os.environ.get(name, "")
    elif kind == "file" and name:
        secret = _content(Path(name))
    else:
        raise BadRequest("A secret is given as env:NAME or file:PATH")
    secret = secret.strip()
    if not secret:
        raise BadRequest(f"{place} holds no secret")
    return secret


def read_one_line(place: str | None) -> str | None:
    """As `read_secret`, for what goes into a header."""
    secret = read_secret(place)
    if secret is not None and not (secret.isascii() and secret.isprintable()):
        raise BadRequest(f"{place} must hold one line of ASCII")
    return secret


def read_headers(place: str | None) -> dict[str, str]:
    """Headers at `env:NAME` or `file:PATH`, one `Name: value` a line."""
    headers: dict[str, str] = {}
    for line in (read_secret(place) or "").splitlines():
        if not line.strip():
            continue
        matched = _HEADER.fullmatch(line.strip())
        if matched is None or not (matched[2].isascii() and matched[2].isprintable()):
            raise BadRequest(f"{place} must hold lines such as Name: value")
        headers[matched[1]] = matched[2]
    return headers


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"file:{path} cannot be read: {type(error).__name__}") from None
