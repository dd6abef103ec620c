"""Chromium, which Playwright drives, and axe-core, which finds barriers for users of keyboards and screen readers."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.parts.node import NpmPackage

AXE = NpmPackage("axe-core", "4.14.1", "2026-11-20", "axe.min.js")

PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable")


def find_program() -> Path | None:
    """Return the browser of this machine."""
    for name in PROGRAMS:
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    return None


@cache
def version(program: Path) -> str:
    said = subprocess.run([program, "--version", "--no-sandbox"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\d+(\.\d+)+", said)
    return found[0] if found else "?"


def find_axe() -> Path | None:
    """Return the file of axe-core."""
    words = AXE.find()
    return None if words is None else words[-1]
