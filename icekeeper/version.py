"""The version of this program, and the commit from which it was built."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

VERSION = "0.1.0"
LAKEKEEPER_VERSION = "0.14.0"
"""The version of Lakekeeper whose APIs this server implements."""

_ROOT = Path(__file__).resolve().parent.parent
_SHA = re.compile(r"[0-9a-f]{40,64}")


@cache
def commit_sha() -> str | None:
    """Return the commit from the file `COMMIT` of a build, or from the git checkout; None without both."""
    return find_commit(_ROOT)


def find_commit(root: Path) -> str | None:
    """Return the `commit_sha` of the program in the folder `root`."""
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
