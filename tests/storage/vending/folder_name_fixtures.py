"""Folder names that could be read as patterns, variables or encodings."""

from __future__ import annotations

from hypothesis import strategies as st

PLAIN = "ab1.%+&<>'\"{}$= ~!@()[],;:^`|_-"
UNICODE = "\u00e9\uff0f\u2044\u2215\u2217\uff0a\uff1f\uff04\uff5b\u017f\u212a\u03a9\u65e5\U0001f642"
"""Look-alikes of the slash, star, question mark and dollar sign; what normalization changes; more than 16 bits."""


def folders(alphabet: str, *, most_segments: int = 3) -> st.SearchStrategy[str]:
    """Generate valid location paths: no empty or dot segments, nor what MinIO reads as those."""
    segment = st.text(alphabet, min_size=1, max_size=12).filter(lambda text: text.strip() not in {"", ".", ".."})
    return st.lists(segment, min_size=1, max_size=most_segments).map("/".join).filter(lambda path: "://" not in path)
