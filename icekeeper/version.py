"""The release of this program, and the commit that it was made from."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

VERSION = "0.1.0"
LAKEKEEPER_VERSION = "0.14.0"
"""The release of Lakekeeper whose APIs this one follows."""

_ROOT = Path(__file__).resolve().parent.parent
_SHA = re.compile(r"[0-9a-f]{40,64}")


@cache
def commit_sha() -> str | None:
    """From the file `COMMIT` that a build leaves beside `manage.py`, else from a git checkout; None in neither."""
    return find_commit(_ROOT)


def find_commit(root: Path) -> str | None:
    """As `commit_sha`, for the program in the folder `root`."""
    head = _line(root / "COMMIT") or _line(root / ".git" / "HEAD")
    if head.startswith("ref: "):
        ref = head.removeprefix("ref: ")
        head = _line(root / ".git" / ref) or _packed(root / ".git" / "packed-refs", ref)
    return head if _SHA.fullmatch(head) else None


def _line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _packed(path: Path, ref: str) -> str:
    for line in _line(path).splitlines():
        sha, _, name = line.partition(" ")
        if name == ref:
            return sha
    return ""
