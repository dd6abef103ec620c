"""Whether the folder of the embedded database can be written to."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from icekeeper.kernel.writable_paths import is_writable


class UnwritableFolder(Exception):
    """A folder that the server cannot do without. The message is one line and names the cure."""


def check_data_folder(database: Path) -> None:
    """Raise `UnwritableFolder` unless the embedded `database` can be written to. Creates its folder if needed."""
    with suppress(OSError):
        database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_writable(database.parent) and is_writable(database):
            return
    raise UnwritableFolder(
        f"The embedded SQLite database {database} cannot be written to by this user (uid {os.getuid()}). Set "
        "ICEKEEPER__DATA_DIR to a folder that can, or LAKEKEEPER__PG_DATABASE_URL_WRITE to a PostgreSQL, which needs "
        "no folder"
    )
