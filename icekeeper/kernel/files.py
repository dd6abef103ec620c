"""Files of the operating system: without a name, and whether this process may write one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import BinaryIO


def open_anonymous_file(label: str) -> BinaryIO:
    """An empty file in memory; on systems without such files, one in the folder for temporary files.

    A server in a container may have no folder that it can write to. `label` is shown by the system beside the
    descriptor.
    """
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create(label), "w+b", 0)
    return tempfile.TemporaryFile("w+b", 0)


def is_writable(path: Path) -> bool:
    """Whether a file or folder can be written to; for one that does not exist, whether it could be created."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return os.access(path, os.W_OK | (os.X_OK if path.is_dir() else 0))
