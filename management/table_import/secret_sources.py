"""Read secrets for another catalog from an environment variable or a file, never from the command line.

The operator chooses the variable for one run; it is not a setting of the server.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from icekeeper.kernel.errors.types import BadRequest

MAX_BYTES = 65_536
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(\S.*)")


def read_secret(source: str | None) -> str | None:
    """Return the secret at `env:NAME` or `file:PATH` without surrounding white space; None if `source` is None.

    Raises `BadRequest`, which names the source and never the secret.
    """
    if source is None:
        return None
    kind, _, name = source.partition(":")
    if kind == "env" and name:
        secret = os.environ.get(name, "")
    elif kind == "file" and name:
        secret = _content(Path(name))
    else:
        raise BadRequest("The source of a secret must be env:NAME or file:PATH")
    secret = secret.strip()
    if not secret:
        raise BadRequest(f"{source} contains no secret")
    return secret


def read_one_line(source: str | None) -> str | None:
    """Like `read_secret`, for a value of a header."""
    secret = read_secret(source)
    if secret is not None and not (secret.isascii() and secret.isprintable()):
        raise BadRequest(f"{source} must contain one line of ASCII")
    return secret


def read_headers(source: str | None) -> dict[str, str]:
    """Return the headers at `env:NAME` or `file:PATH`, one `Name: value` a line."""
    headers: dict[str, str] = {}
    for line in (read_secret(source) or "").splitlines():
        if not line.strip():
            continue
        matched = _HEADER.fullmatch(line.strip())
        if matched is None or not (matched[2].isascii() and matched[2].isprintable()):
            raise BadRequest(f"{source} must contain lines such as Name: value")
        headers[matched[1]] = matched[2]
    return headers


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"file:{path} cannot be read: {type(error).__name__}") from None
