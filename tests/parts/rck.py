"""Iceberg's REST Compatibility Kit as jars in `.parts/`; `tests/rck` runs it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from tests.parts import maven
from tests.parts.folder import PARTS

POM = Path(__file__).resolve().parents[1] / "rck" / "pom.xml"


def version() -> str:
    """Return the Iceberg release of the kit."""
    return re.search(r"<iceberg\.version>(.+)</", POM.read_text()).group(1)  # type: ignore[union-attr]


def find_jars() -> Path | None:
    """Return the folder with the jars of the current project file, or None."""
    home = _home()
    return home if home.is_dir() else None


def install_jars() -> Path:
    """Download the jars if needed and return the folder of `find_jars`; raise `PartError` on failure."""
    home = _home()
    if not home.is_dir():
        PARTS.mkdir(exist_ok=True)
        maven.gather(POM, home)
    return home


def _home() -> Path:
    return PARTS / f"rck-{version()}-{hashlib.sha256(POM.read_bytes()).hexdigest()[:8]}"
