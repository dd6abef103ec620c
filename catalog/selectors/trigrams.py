"""How alike two texts are, as PostgreSQL's pg_trgm defines it, so that every database gives the same answer.

A text is cut into words, runs of letters and digits; with two spaces before a word and one behind it, each three
characters in a row are a trigram. Alike is how many trigrams the texts share, out of all that either has.
"""

from __future__ import annotations

import re
import struct

_WORD = re.compile(r"[^\W_]+")
_SINGLE = struct.Struct("f")


def trigrams_of(text: str) -> set[str]:
    """The trigrams of a text in which capitals do not count any more: see `icekeeper.kernel.names.name_key`."""
    found: set[str] = set()
    for word in _WORD.findall(text):
        padded = f"  {word} "
        found.update([padded[at : at + 3] for at in range(len(word) + 1)])
    return found


def in_single_precision(similarity: float) -> float:
    """A similarity as pg_trgm gives it: shared trigrams by all that either text has."""
    rounded: float = _SINGLE.unpack(_SINGLE.pack(similarity))[0]
    return rounded


def similarity_of(one: str, other: str) -> float:
    """From 0, nothing in common, to 1, the same words."""
    ours, theirs = trigrams_of(one), trigrams_of(other)
    shared = len(ours & theirs)
    return in_single_precision(shared / (len(ours | theirs) or 1))
