"""What a client may do with the files of a table."""

from __future__ import annotations

from enum import Enum


class FileAccess(Enum):
    READ = "read"
    READ_WRITE = "read-write"
    """Deleting included: writers replace files."""
