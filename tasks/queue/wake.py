"""Wake-ups of workers: a task that becomes due starts at once, without frequent polling.

On PostgreSQL a statement of the transaction that enqueues notifies the channel `icekeeper_tasks`, and workers listen on
a connection of their own. On SQLite each worker has a named pipe next to the database. Celery workers get a message. A
lost wake-up delays a task until the next poll.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import psycopg
from django.conf import settings
from django.db import connection, transaction

from icekeeper.kernel.db.sql import fetch_one
from icekeeper.kernel.retry import backoff_seconds
from tasks.queue.celery_messages import sender

CHANNEL: Final = "icekeeper_tasks"
NOTIFY: Final = f"pg_notify('{CHANNEL}', %s)"
"""Expression that wakes the workers of a queue when the transaction commits."""

FOLDER: Final = "wake"
"""Folder of the named pipes, next to the SQLite database."""

MIN_RECONNECT_SECONDS: Final = 1.0
MAX_RECONNECT_SECONDS: Final = 60.0

logger = logging.getLogger("icekeeper.tasks")


class Listener(Protocol):
    """Receives wake-ups."""

    def fileno(self) -> int | None:
        """Return the descriptor that becomes readable with a wake-up; None while there is no connection."""

    def drain(self) -> None:
        """Discard the wake-ups so far."""

    def close(self) -> None: ...


def wake_workers(queue: str) -> None:
    """Wake the workers of `queue` when the caller's transaction commits; one statement on PostgreSQL."""
    if connection.vendor == "postgresql":
        fetch_one("default", f"SELECT {NOTIFY}", [queue])
    wake_after_commit(queue)


def wake_after_commit(queue: str) -> None:
    """Wake those workers of `queue` after the caller's transaction that no statement of it wakes (`NOTIFY`).

    These are the workers on SQLite, and those of Celery.
    """
    if connection.vendor == "sqlite":
        transaction.on_commit(_write_to_pipes, robust=True)
    if settings.ICEKEEPER.celery.broker_url is not None:
        transaction.on_commit(partial(sender.send, queue), robust=True)


def open_listener() -> Listener:
    """Return the listener of this worker process."""
    return _PipeListener() if connection.vendor == "sqlite" else _NotificationListener()


class _NotificationListener:
    """Listens on a connection outside of the pool, which is opened again after a failure, with a backoff."""

    def __init__(self) -> None:
        self._connection: psycopg.Connection[Any] | None = None
        self._failures, self._try_at = 0, 0.0

    def fileno(self) -> int | None:
        if self._connection is None and time.monotonic() >= self._try_at:
            self._connect()
        return None if self._connection is None else self._connection.fileno()

    def drain(self) -> None:
        if self._connection is None:
            return
        try:
            for _ in self._connection.notifies(timeout=0):
                pass
        except psycopg.Error as error:
            logger.warning("wake-ups are not received until the next connection: %s", error)
            self._lose()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> None:
        try:
            self._connection = psycopg.connect(**_direct_parameters(), autocommit=True)
            self._connection.execute(f"LISTEN {CHANNEL}")
            self._failures = 0
        except psycopg.Error as error:
            logger.warning("wake-ups are not received, the database cannot be reached: %s", error)
            self._lose()

    def _lose(self) -> None:
        self.close()
        self._failures += 1
        pause = backoff_seconds(self._failures, first=MIN_RECONNECT_SECONDS, limit=MAX_RECONNECT_SECONDS)
        self._try_at = time.monotonic() + pause


def _direct_parameters() -> dict[str, Any]:
    """Return the parameters of a connection that no pooler shares."""
    usual = {"application_name": "icekeeper-wake", "connect_timeout": 5, "keepalives_idle": 30}
    known = {name: value for name, value in connection.get_connection_params().items() if value is not None}
    direct = settings.ICEKEEPER.pg_database_url_direct
    if direct is not None:
        tls = {name: known[name] for name in ("sslmode", "sslrootcert") if name in known}
        return {"conninfo": direct.get_secret_value()} | tls | usual
    names = ("host", "port", "user", "password", "dbname", "sslmode", "sslrootcert", "options")
    return {name: known[name] for name in names if name in known} | usual


class _PipeListener:
    """Reads the named pipe of this process."""

    def __init__(self) -> None:
        self._path = _pipe_folder() / f"{os.getpid()}"
        self._descriptor: int | None = None
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            self._path.unlink(missing_ok=True)
            os.mkfifo(self._path, 0o600)
            # Opened for writing, too: otherwise it would be readable after the first writer has closed it.
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_NONBLOCK)
        except OSError as error:
            logger.warning("wake-ups are not received: %s", error)

    def fileno(self) -> int | None:
        return self._descriptor

    def drain(self) -> None:
        if self._descriptor is not None:
            with suppress(BlockingIOError):
                os.read(self._descriptor, 65_536)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._path.unlink(missing_ok=True)
            self._descriptor = None


def _write_to_pipes() -> None:
    """Write to the pipe of each worker; delete those whose worker has ended."""
    try:
        pipes = list(_pipe_folder().iterdir())
    except OSError:
        return
    for path in pipes:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no process reads it
                path.unlink(missing_ok=True)
            continue
        try:
            with suppress(BlockingIOError, BrokenPipeError):  # it is full of earlier wake-ups, or its worker has ended
                if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                    os.write(descriptor, b".")
        finally:
            os.close(descriptor)


def _pipe_folder() -> Path:
    return Path(str(connection.settings_dict["NAME"])).parent / FOLDER
