"""Names of warehouses, namespaces and tabulars: validation, and the keys by which they are looked up.

The spelling is stored as sent; two names are the same when their keys are equal, on every database.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from icekeeper.kernel.errors.types import BadRequest

MAX_NAME_LENGTH = 255
"""Characters."""

MAX_KEY_BYTES = 4 * MAX_NAME_LENGTH
"""Of the look-up key, which must fit into a database index."""

LEVEL_SEPARATOR = "\x1f"
"""Joins the levels of a namespace, in URLs (`%1F`) and in stored keys. Names cannot contain control characters."""


_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Control and format characters, surrogates, line and paragraph separators."""
_JOINERS = frozenset("\u200c\u200d")
"""Format characters that scripts need; the others only hide or reorder text."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u2800\u3164\uffa0")
"""Invisible letters and marks (Unicode's Default_Ignorable_Code_Point, and the empty Braille cell)."""

_LAYOUT = dict.fromkeys(map(ord, "\n\r\t"))


def name_key(name: str) -> str:
    """Return the case- and width-insensitive form: NFKC(casefold(NFKC(name)))."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def lookup_key(name: str) -> str:
    """As `name_key`, for names that are not validated: an impossible name gets a key that matches nothing."""
    return "" if "\x00" in name else name_key(name)


def path_key(levels: Sequence[str]) -> str:
    """Return the look-up key of a namespace; for impossible names a key that matches nothing."""
    for level in levels:
        if "\x00" in level or LEVEL_SEPARATOR in level:
            return ""
    return LEVEL_SEPARATOR.join(map(name_key, levels))


def require_name(name: object, what: str) -> str:
    """Return `name` if it is a valid name of a `what`; raise `BadRequest` with the reason if not.

    Slashes, dots and all scripts are allowed: clients encode them. Control characters, invisible format characters,
    `.` and `..` (path segments that proxies and clients remove) are not.
    """
    if not isinstance(name, str):
        raise BadRequest(f"Invalid {what}: must be a string")
    if not name.strip():
        raise BadRequest(f"Invalid {what}: must not be empty")
    if len(name) > MAX_NAME_LENGTH:
        raise BadRequest(f"Invalid {what}: longer than {MAX_NAME_LENGTH} characters")
    if len(name_key(name).encode(errors="replace")) > MAX_KEY_BYTES:  # a ligature can become 18 letters
        raise BadRequest(f"Invalid {what}: longer than {MAX_KEY_BYTES} bytes in its look-up form")
    if name in {".", ".."}:
        raise BadRequest(f"Invalid {what}: {name!r} is not a name")
    hidden = hidden_character(name)
    if hidden is not None:
        raise BadRequest(f"Invalid {what}: character U+{ord(hidden):04X} is not allowed")
    return name


def require_trimmed_name(name: object, what: str) -> str:
    """Do what `require_name` does, and reject leading and trailing spaces, which are invisible in lists."""
    checked = require_name(name, what)
    if checked != checked.strip():
        raise BadRequest(f"Invalid {what}: must not begin or end with a space")
    return checked


def require_description(text: str, *, max_length: int) -> str:
    """Return `text` if it is a valid description; raise `BadRequest` if not.

    At most `max_length` characters; of the invisible characters only line breaks and tabs are allowed.
    """
    if len(text) > max_length:
        raise BadRequest(f"description: longer than {max_length} characters")
    hidden = hidden_character(text.translate(_LAYOUT))
    if hidden is not None:
        raise BadRequest(f"description: character U+{ord(hidden):04X} is not allowed")
    return text


def hidden_character(text: str) -> str | None:
    """Return the first invisible or reordering character of `text`; None without one."""
    for character in text:
        if character in _BLANK or (unicodedata.category(character) in _HIDDEN and character not in _JOINERS):
            return character
    return None
