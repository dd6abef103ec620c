"""Names and comments with their invisible characters written as escapes."""

from __future__ import annotations

from typing import Final

_JOINERS: Final = frozenset("\u200c\u200d")
"""Format characters that scripts and emoji need."""


def show_invisible(text: str) -> str:
    """Return text in which control, format and unusual space characters are escapes such as `\\n` and `\\u202e`.

    Such characters hide or reorder what a page shows: two names may look the same, or code may read as another. The
    result is for display only, since a backslash of the text itself stays single.
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character in _JOINERS
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
