"""Local files as an object store, for one machine: laptops, tests, a shared mount.

Every path is opened from the root folder one name at a time without following links, so neither `..` nor a symbolic
link that is created later leads outside. A written file is synced, then its folders, before the call returns.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import CatalogError, InvalidLocation
from icekeeper.kernel.files import is_writable
from storage.errors import StoreUnavailable
from storage.io.port import (
    ObjectExists,
    ObjectNotFound,
    ObjectStore,
    ObjectTooLarge,
    OnDeleted,
    ignore_count,
    timed,
)
from storage.profiles.local import normalize_location

MAX_DEPTH = 64
"""Levels of folders that are open at the same time."""

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LINK_ERRORS = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})
MAX_PASSES = 10_000
"""Limit of passes over one folder that is being deleted while another process keeps writing to it."""

_NOT_EMPTY = frozenset({errno.ENOTEMPTY, errno.EEXIST})


class LocalStore(ObjectStore):
    """Files below `root`, an existing absolute folder; locations are `file://` ones below it."""

    kind = "local"

    def __init__(self, root: Path) -> None:
        self.root = root
        self._prefix = f"{str(root).rstrip('/')}/"

    def require_ready(self) -> None:
        """Nothing to do: local files need no credential."""

    @timed("put")
    def put_new(self, location: str, data: bytes) -> None:
        request_context.remaining_seconds()
        *folders, name = self._names(location)
        with self._translate_errors(location), self._folder(folders, create=True) as folder:
            try:
                descriptor = os.open(
                    name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder
                )
            except FileExistsError:
                raise ObjectExists(f"There is already a file at {location}") from None
            try:
                with open(descriptor, "wb") as file:  # noqa: PTH123
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.fsync(folder)
            except OSError:
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)
                raise

    @timed("get")
    def get(self, location: str, *, limit: int) -> bytes:
        request_context.remaining_seconds()
        *folders, name = self._names(location)
        with self._translate_errors(location), self._folder(folders) as folder:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
            with open(descriptor, "rb") as file:  # noqa: PTH123
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise InvalidLocation(f"Location {location} names something that is not a file")
                if status.st_size > limit:
                    raise ObjectTooLarge(f"The file at {location} is larger than {limit} bytes")
                return file.read(limit)

    @timed("head")
    def require_exists(self, location: str) -> None:
        request_context.remaining_seconds()
        with self._translate_errors(location):
            os.lstat(location.removeprefix("file:").removeprefix("//"))  # validated when it was written

    @timed("delete")
    def delete(self, location: str) -> None:
        *folders, name = self._names(location)
        with suppress(ObjectNotFound), self._translate_errors(location), self._folder(folders) as folder:
            os.unlink(name, dir_fd=folder)

    def delete_many(self, locations: Sequence[str]) -> None:
        first_error: CatalogError | None = None
        for location in locations:
            try:
                self.delete(location)
            except CatalogError as error:
                first_error = first_error or error
        if first_error is not None:
            raise first_error

    @timed("list")
    def is_empty(self, location: str, *, ignore: Callable[[str], bool]) -> bool:
        request_context.remaining_seconds()
        *folders, name = self._names(location)
        try:
            with self._translate_errors(location), self._folder(folders) as parent:
                try:
                    folder = os.open(name, OPEN_FOLDER, dir_fd=parent)
                except OSError as error:
                    if error.errno in LINK_ERRORS:  # a file or a link
                        return False
                    raise
                try:
                    return not contains_files(folder, ignore, request_context.remaining_seconds)
                finally:
                    os.close(folder)
        except ObjectNotFound:
            return True

    @timed("sweep")
    def delete_below(
        self, location: str, checkpoint: Callable[[], object], on_deleted: OnDeleted = ignore_count
    ) -> None:
        *folders, name = self._names(location)
        with suppress(ObjectNotFound), self._translate_errors(location), self._folder(folders) as parent:
            is_removed = False
            while not is_removed:  # another process may still write there
                checkpoint()
                folder = os.open(name, OPEN_FOLDER, dir_fd=parent)
                try:
                    empty_folder(folder, checkpoint, on_deleted)
                finally:
                    os.close(folder)
                checkpoint()
                is_removed = remove_folder(name, parent=parent)
            os.fsync(parent)

    def create_folder(self, location: str) -> bool:
        request_context.remaining_seconds()
        *folders, name = self._names(location)
        with self._translate_errors(location), self._folder(folders, create=True) as parent:
            try:
                os.mkdir(name, 0o755, dir_fd=parent)
            except FileExistsError:
                os.close(os.open(name, OPEN_FOLDER, dir_fd=parent))  # fails for a file or a link
                return False
            os.fsync(parent)
            return True

    def remove_empty_folder(self, location: str) -> None:
        *folders, name = self._names(location)
        with suppress(ObjectNotFound), self._translate_errors(location), self._folder(folders) as parent:
            remove_folder(name, parent=parent)

    def _names(self, location: str) -> list[str]:
        path = normalize_location(location).removeprefix("file://")
        if f"{path}/" == self._prefix:
            raise InvalidLocation(f"Location {location} is the folder for local warehouses itself")
        if not path.startswith(self._prefix):
            raise InvalidLocation(f"Location {location} lies outside the folder for local warehouses")
        return path.removeprefix(self._prefix).split("/")

    @contextmanager
    def _folder(self, names: list[str], *, create: bool = False) -> Iterator[int]:
        """Open the folder `names` below the root."""
        folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in names:
                try:
                    deeper = os.open(name, OPEN_FOLDER, dir_fd=folder)
                except FileNotFoundError:
                    if not create:
                        raise
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o755, dir_fd=folder)
                        os.fsync(folder)
                    deeper = os.open(name, OPEN_FOLDER, dir_fd=folder)
                os.close(folder)
                folder = deeper
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def _translate_errors(self, location: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise ObjectNotFound(f"Failed to open input stream for file: {location}") from None
        except (IsADirectoryError, NotADirectoryError) as error:
            raise InvalidLocation(f"Location {location} leads through a link or names a folder") from error
        except OSError as error:
            if error.errno in LINK_ERRORS:
                raise InvalidLocation(f"Location {location} leads through a symbolic link") from None
            if error.errno == errno.ENAMETOOLONG:
                raise InvalidLocation(f"Location {location[:200]}… is too long for the file system") from None
            raise StoreUnavailable(f"The local store failed: {error.strerror}") from error


def contains_files(
    folder: int, ignore: Callable[[str], bool], checkpoint: Callable[[], object], *, depth: int = 0
) -> bool:
    """Return whether an open folder contains anything but folders, and files whose names `ignore` accepts.

    True for folders nested beyond `MAX_DEPTH`. `checkpoint` is called before each entry; what it raises ends the
    search.
    """
    if depth > MAX_DEPTH:
        return True
    with os.scandir(folder) as entries:
        for entry in entries:
            checkpoint()
            if entry.is_dir(follow_symlinks=False):
                with _opened(entry.name, folder) as deeper:
                    if deeper is not None and contains_files(deeper, ignore, checkpoint, depth=depth + 1):
                        return True
            elif not (entry.is_file(follow_symlinks=False) and ignore(entry.name)):
                return True
    return False


def empty_folder(folder: int, checkpoint: Callable[[], object], on_deleted: OnDeleted = ignore_count) -> None:
    """Delete everything in an open folder; links are deleted, not followed. May be repeated.

    `checkpoint` is called before each entry; what it raises ends the deletion. `on_deleted` is called after each file
    and link. Memory and open descriptors are bounded. Raises `OSError` (EBUSY) when another process keeps writing
    there.
    """
    _empty(folder, folder, checkpoint, on_deleted, depth=0)


def remove_folder(name: str, *, parent: int) -> bool:
    """Remove an empty folder. Return whether it no longer exists; False when it is not empty."""
    try:
        os.rmdir(name, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in _NOT_EMPTY:
            raise
        return False
    return True


def _empty(folder: int, top: int, checkpoint: Callable[[], object], on_deleted: OnDeleted, *, depth: int) -> None:
    """Repeat until a pass finds nothing: a deletion may hide entries from the pass that is running."""
    for _ in range(MAX_PASSES):
        is_empty = True
        with os.scandir(folder) as entries:
            for entry in entries:
                is_empty = False
                checkpoint()
                if entry.is_dir(follow_symlinks=False):
                    _remove_inner(entry.name, folder, top, checkpoint, on_deleted, depth=depth)
                else:
                    with suppress(FileNotFoundError, IsADirectoryError):
                        size = entry.stat(follow_symlinks=False).st_size
                        os.unlink(entry.name, dir_fd=folder)
                        on_deleted(1, size)
        if is_empty:
            return
    raise OSError(errno.EBUSY, "Another process keeps writing there")


def _remove_inner(
    name: str, folder: int, top: int, checkpoint: Callable[[], object], on_deleted: OnDeleted, *, depth: int
) -> None:
    if depth == MAX_DEPTH:
        # A folder that is nested too deep is moved to the top, where a later pass finds it.
        with suppress(FileNotFoundError):
            os.rename(name, str(uuid4()), src_dir_fd=folder, dst_dir_fd=top)
        return
    with _opened(name, folder) as deeper:
        if deeper is None:
            return
        _empty(deeper, top, checkpoint, on_deleted, depth=depth + 1)
    checkpoint()
    with suppress(NotADirectoryError):
        remove_folder(name, parent=folder)


@contextmanager
def _opened(name: str, folder: int) -> Iterator[int | None]:
    """Open the folder `name`; None when it was deleted or replaced."""
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


def unwritable_storage(root: Path | None) -> str | None:
    """Return why warehouses cannot be created below `root`, and how to fix it; None when they can."""
    if root is None:
        return None
    if not root.is_dir():
        reason, cure = "as there is no such folder", "create it, mount a volume there"
    elif not is_writable(root):
        reason, cure = f"by this user (uid {os.getuid()})", "mount a volume there that can"
    else:
        return None
    return f"warehouses below {root} cannot be written to {reason}: {cure}, or unset ICEKEEPER__LOCAL_STORAGE_ROOT"
