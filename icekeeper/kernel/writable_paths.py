"""Whether this process can write to a path of the file system."""

from __future__ import annotations

import os
from pathlib import Path


def is_writable(path: Path) -> bool:
    """Whether a file or folder can be written to; for one that does not exist, whether it could be created."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return os.access(path, os.W_OK | (os.X_OK if path.is_dir() else 0))
