"""Names of warehouses, namespaces and tabulars: what is legal, and the key that they are looked up by.

The spelling is stored as it came; two names are the same when their keys are equal, on every database alike.
"""

from __future__ import annotations

import unicodedata

from icekeeper.kernel.errors import BadRequest

MAX_NAME_LENGTH = 255
"""Characters of one name."""

MAX_KEY_BYTES = 4 * MAX_NAME_LENGTH
"""Of its look-up form, which a database index must hold."""

LEVEL_SEPARATOR = "\x1f"
"""Joins the levels of a namespace, in URLs (`%1F`) and in stored keys. A control character, so no name holds it."""


def name_key(name: str) -> str:
    """Case- and width-insensitive form: NFKC(casefold(NFKC(name)))."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def require_name(name: object, what: str) -> str:
    """Return `name` if it can name a `what`; raises `BadRequest` with the reason if not.

    Slashes, dots and any script are fine: clients encode them. Control characters, format characters that cannot be
    seen, `.` and `..` (path segments that proxies and clients fold away) are not.
    """
    if not isinstance(name, str):
        raise BadRequest(f"Invalid {what}: must be a string")
    if not name.strip():
        raise BadRequest(f"Invalid {what}: must not be empty")
    if len(name) > MAX_NAME_LENGTH:
        raise BadRequest(f"Invalid {what}: longer than {MAX_NAME_LENGTH} characters")
    if len(name_key(name).encode(errors="replace")) > MAX_KEY_BYTES:  # one ligature may unfold into 18 letters
        raise BadRequest(f"Invalid {what}: longer than {MAX_KEY_BYTES} bytes in its look-up form")
    if name in {".", ".."}:
        raise BadRequest(f"Invalid {what}: {name!r} is not a name")
    for character in name:
        # Cc control, Cs surrogate, Zl/Zp line and paragraph separators; Cf that only hides (bidi controls, BOM).
        category = unicodedata.category(character)
        if category in {"Cc", "Cs", "Zl", "Zp"} or (category == "Cf" and character not in "\u200c\u200d"):
            raise BadRequest(f"Invalid {what}: character U+{ord(character):04X} is not allowed")
    return name
