"""Check whether an open folder of the local file system contains files, and remove all of it.

Both go from descriptor to descriptor and follow no link, so that nothing outside is read or deleted, whatever another
process creates or moves there meanwhile. They call `keep_going` before each entry; what that raises ends them. Memory
and the number of open descriptors are bounded, whatever the number of files and the depth.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

MAX_DEPTH = 64
"""Levels of folders that are open at once."""

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LINK_ERRORS = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})
MAX_PASSES = 10_000
"""Passes over one folder that each found something to delete: then another process writes faster than it is emptied."""

_NOT_EMPTY = frozenset({errno.ENOTEMPTY, errno.EEXIST})


def contains_files(
    folder: int, ignore: Callable[[str], bool], keep_going: Callable[[], object], *, depth: int = 0
) -> bool:
    """Whether anything lies below but folders and files of whose names `ignore` is true.

    Folders nested beyond `MAX_DEPTH` count as something.
    """
    if depth > MAX_DEPTH:
        return True
    with os.scandir(folder) as entries:
        for entry in entries:
            keep_going()
            if entry.is_dir(follow_symlinks=False):
                with _opened(entry.name, folder) as deeper:
                    if deeper is not None and contains_files(deeper, ignore, keep_going, depth=depth + 1):
                        return True
            elif not (entry.is_file(follow_symlinks=False) and ignore(entry.name)):
                return True
    return False


def empty_folder(folder: int, keep_going: Callable[[], object]) -> None:
    """Delete everything below; links are deleted themselves. Done before in part or whole is fine.

    `OSError` (EBUSY) when another process keeps writing there.
    """
    _empty(folder, folder, keep_going, depth=0)


def remove_folder(name: str, *, parent: int) -> bool:
    """Remove an empty folder; whether it is gone now. False when something lies in it again."""
    try:
        os.rmdir(name, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in _NOT_EMPTY:
            raise
        return False
    return True


def _empty(folder: int, top: int, keep_going: Callable[[], object], *, depth: int) -> None:
    """Look again until a look finds nothing: to delete may hide an entry from the look that is under way."""
    for _ in range(MAX_PASSES):
        is_empty = True
        with os.scandir(folder) as entries:
            for entry in entries:
                is_empty = False
                keep_going()
                if entry.is_dir(follow_symlinks=False):
                    _remove_inner(entry.name, folder, top, keep_going, depth=depth)
                else:
                    with suppress(FileNotFoundError, IsADirectoryError):
                        os.unlink(entry.name, dir_fd=folder)
        if is_empty:
            return
    raise OSError(errno.EBUSY, "Another process keeps writing there")


def _remove_inner(name: str, folder: int, top: int, keep_going: Callable[[], object], *, depth: int) -> None:
    if depth == MAX_DEPTH:
        # One that lies too deep is taken up, where a later look finds it.
        with suppress(FileNotFoundError):
            os.rename(name, str(uuid4()), src_dir_fd=folder, dst_dir_fd=top)
        return
    with _opened(name, folder) as deeper:
        if deeper is None:
            return
        _empty(deeper, top, keep_going, depth=depth + 1)
    keep_going()
    with suppress(NotADirectoryError):
        remove_folder(name, parent=folder)


@contextmanager
def _opened(name: str, folder: int) -> Iterator[int | None]:
    """A descriptor of the folder `name`; None when it has gone or has become something else."""
    try:
        descriptor = os.open(name, OPEN_FOLDER, dir_fd=folder)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        if error.errno not in LINK_ERRORS:
            raise
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)
