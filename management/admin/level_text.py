"""Namespaces as one line of text in forms: levels separated by dots; a dot in a level is written `\\.`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from catalog.identifiers import Levels


def join_levels(levels: Iterable[str]) -> str:
    return ".".join(level.replace("\\", "\\\\").replace(".", "\\.") for level in levels)


def split_levels(text: str) -> Levels:
    """Return the levels in a text of `join_levels`; none for an empty text."""
    if not text:
        return ()
    levels = [""]
    for part in re.findall(r"\\.|\\$|\.|[^.\\]+", text, re.DOTALL):
        if part == ".":
            levels.append("")
        else:
            levels[-1] += part[1:] if part[0] == "\\" and part[1:] else part
    return tuple(levels)
