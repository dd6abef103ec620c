"""Sail, a Spark Connect server in Rust, and its client, in a separate Python environment."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from tests.parts import folder
from tests.parts.folder import PARTS

REQUIREMENTS = Path(__file__).with_suffix(".txt")


def version() -> str:
    return re.search(r"^pysail==(.+)$", REQUIREMENTS.read_text(), re.MULTILINE).group(1)  # type: ignore[union-attr]


def find_python() -> Path | None:
    """Return the interpreter that can import `pysail` and `pyspark`, or None."""
    home = _home()
    return home / "bin" / "python" if (home / folder.COMPLETE).is_file() else None


def install() -> None:
    if find_python() is None:
        folder.install_environment(REQUIREMENTS, _home())


def _home() -> Path:
    return PARTS / f"sail-{version()}-{hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:8]}"
