"""Files without a name, for locks and time stamps that processes share through a fork."""

from __future__ import annotations

import os
import tempfile
from typing import BinaryIO


def open_anonymous_file(label: str) -> BinaryIO:
    """An empty file in memory; on systems without such files, one in the folder for temporary files.

    A server in a container may have no folder that it can write to. `label` is shown by the system beside the
    descriptor.
    """
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create(label), "w+b", 0)
    return tempfile.TemporaryFile("w+b", 0)
