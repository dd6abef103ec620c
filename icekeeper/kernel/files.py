"""Files of the operating system: without a name, and whether this process may write one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import BinaryIO


def open_anonymous_file(label: str) -> BinaryIO:
    """Return an empty file in memory; a temporary file on systems that have none.

    A server in a container may have no folder that it can write to. The system shows `label` with the descriptor.
    """
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create(label), "w+b", 0)
    return tempfile.TemporaryFile("w+b", 0)


def is_writable(path: Path) -> bool:
    """Return whether this process can write to a file or folder; whether it can create it if it does not exist."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return os.access(path, os.W_OK | (os.X_OK if path.is_dir() else 0))
