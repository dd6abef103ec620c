"""Which folders a server writes to, and whether it can."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from icekeeper.env import Settings


class UnwritableFolder(Exception):
    """A folder that the server cannot do without. The message is one line and names the cure."""


def check_data_folder(database: Path) -> None:
    """Raise `UnwritableFolder` unless the embedded `database` can be written to. Creates its folder if needed."""
    with suppress(OSError):
        database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_writable(database.parent) and _is_writable(database):
            return
    raise UnwritableFolder(
        f"The embedded SQLite database {database} cannot be written to by this user (uid {os.getuid()}). Set "
        "ICEKEEPER__DATA_DIR to a folder that can, or LAKEKEEPER__PG_DATABASE_URL_WRITE to a PostgreSQL, which needs "
        "no folder"
    )


def unwritable_storage(settings: Settings) -> str | None:
    """What to warn of where warehouses on local files cannot be written to; None where there is nothing."""
    root = settings.local_storage_root
    if root is None or _is_writable(root):
        return None
    return (
        f"warehouses below {root} cannot be written to by this user (uid {os.getuid()}): mount a volume there that "
        "can, or unset ICEKEEPER__LOCAL_STORAGE_ROOT"
    )


def _is_writable(path: Path) -> bool:
    """Of what is not there yet, whether it could be made."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return os.access(path, os.W_OK | (os.X_OK if path.is_dir() else 0))
