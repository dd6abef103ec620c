"""The folder of this user in which Spark's parts are kept between runs: resolved jars and prepared Java homes."""

import contextlib
import os
import tempfile
from pathlib import Path


class UnsafeCacheError(Exception):
    """The cache folder belongs to another user, who could replace the programs that are run from it."""


def cache_dir(*parts: str) -> Path:
    """Return `<user cache>/icekeeper/<parts>`, created if absent with access for its owner alone.

    The user cache is `$XDG_CACHE_HOME`, else `~/.cache`, else (no home that can be written) a folder of this user
    under the system's temporary folder. Raises `UnsafeCacheError` when the folder is not this user's own.
    """
    for base in _candidates():
        root = base / "icekeeper"
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        if root.stat().st_uid != os.getuid() or not os.access(root, os.W_OK):
            continue
        folder = root.joinpath(*parts)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder
    raise UnsafeCacheError(
        "no cache folder that belongs to this user can be written: set XDG_CACHE_HOME to a folder of your own"
    )


def _candidates() -> list[Path]:
    found = []
    if configured := os.environ.get("XDG_CACHE_HOME"):
        found.append(Path(configured))
    with contextlib.suppress(RuntimeError):  # no HOME, and no entry in the password file
        found.append(Path.home() / ".cache")
    found.append(Path(tempfile.gettempdir()) / f"cache-{os.getuid()}")
    return found
