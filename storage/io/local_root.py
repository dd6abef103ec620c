"""Whether the folder of local warehouses, `ICEKEEPER__LOCAL_STORAGE_ROOT`, can be used."""

from __future__ import annotations

import os
from pathlib import Path

from icekeeper.kernel.files import is_writable


def unwritable_storage(root: Path | None) -> str | None:
    """Why no warehouse can be created in the folder for local warehouses, with the cure; None where it is writable."""
    if root is None:
        return None
    if not root.is_dir():
        reason, cure = "as there is no such folder", "create it, mount a volume there"
    elif not is_writable(root):
        reason, cure = f"by this user (uid {os.getuid()})", "mount a volume there that can"
    else:
        return None
    return f"warehouses below {root} cannot be written to {reason}: {cure}, or unset ICEKEEPER__LOCAL_STORAGE_ROOT"
