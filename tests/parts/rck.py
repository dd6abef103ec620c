"""Iceberg's REST Compatibility Kit as jars in `.parts/`; `tests/rck` runs it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from tests.parts import maven
from tests.parts.folder import PARTS

POM = Path(__file__).resolve().parents[1] / "rck" / "pom.xml"


def version() -> str:
    """The release of Iceberg that the kit belongs to."""
    return re.search(r"<iceberg\.version>(.+)</", POM.read_text()).group(1)  # type: ignore[union-attr]


def find_jars() -> Path | None:
    """The folder with the jars that the project file names now, or None."""
    home = _home()
    return home if home.is_dir() else None


def install_jars() -> Path:
    """What `find_jars` finds, after fetching it if it was not there; raises `PartError`."""
    home = _home()
    if not home.is_dir():
        PARTS.mkdir(exist_ok=True)
        maven.gather(POM, home)
    return home


def _home() -> Path:
    return PARTS / f"rck-{version()}-{hashlib.sha256(POM.read_bytes()).hexdigest()[:8]}"
