"""Names of warehouses, namespaces and tabulars: what is legal, and the key that they are looked up by.

The spelling is stored as it came; two names are the same when their keys are equal, on every database alike.
"""

from __future__ import annotations

import unicodedata

from icekeeper.kernel.errors.types import BadRequest

MAX_NAME_LENGTH = 255
"""Characters of one name."""

MAX_KEY_BYTES = 4 * MAX_NAME_LENGTH
"""Of its look-up form, which a database index must hold."""

LEVEL_SEPARATOR = "\x1f"
"""Joins the levels of a namespace, in URLs (`%1F`) and in stored keys. A control character, so no name holds it."""


_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Control and format characters, surrogates, line and paragraph separators."""
_JOINERS = frozenset("\u200c\u200d")
"""Format characters that scripts need; the others only hide or turn what is read."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u2800\u3164\uffa0")
"""Letters and marks of which nothing is drawn (Unicode's Default_Ignorable_Code_Point, and the empty Braille cell)."""

_LAYOUT = dict.fromkeys(map(ord, "\n\r\t"))


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
    hidden = hidden_character(name)
    if hidden is not None:
        raise BadRequest(f"Invalid {what}: character U+{ord(hidden):04X} is not allowed")
    return name


def require_trimmed_name(name: object, what: str) -> str:
    """As `require_name`, for names that people read in lists, where spaces around one cannot be seen."""
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
    """The first character of `text` that cannot be seen, or that turns what is read; None when there is none."""
    for character in text:
        if character in _BLANK or (unicodedata.category(character) in _HIDDEN and character not in _JOINERS):
            return character
    return None
