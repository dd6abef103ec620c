"""Messages to Celery workers: each lets one of them look for due tasks of a queue.

A message contains nothing about a task: the rows are the truth. So messages can be lost, repeated and late.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from threading import Condition, Thread
from typing import Final

from django.utils.module_loading import import_string

from icekeeper.kernel.retry import backoff_seconds

MIN_PAUSE_SECONDS: Final = 1.0
MAX_PAUSE_SECONDS: Final = 30.0
"""Limits of the pause after a failure, during which no messages are sent."""

logger = logging.getLogger("icekeeper.tasks")


class NoBroker(Exception):
    """The broker cannot be reached."""


class MessageSender:
    """Sends messages in a thread of its own, so that no request waits for the broker.

    Those for one queue that have not been sent yet are one message. While the broker cannot be reached they are
    dropped: workers also poll.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting: set[str] = set()
        self._process = 0
        self._failures, self._try_at = 0, 0.0

    def send(self, queue: str) -> None:
        with self._changed:
            if self._process != os.getpid():  # threads do not survive a fork
                self._process = os.getpid()
                Thread(target=self._run, name="celery messages", daemon=True).start()
            self._waiting.add(queue)
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                queues, self._waiting = sorted(self._waiting), set()
            if time.monotonic() >= self._try_at:
                for queue in queues:
                    self._send(queue)

    def _send(self, queue: str) -> None:
        try:
            send_message: Callable[[str], None] = import_string("tasks.queue.celery_app.send_message")
            send_message(queue)
        except NoBroker as error:
            self._failures += 1
            pause = backoff_seconds(self._failures, first=MIN_PAUSE_SECONDS, limit=MAX_PAUSE_SECONDS)
            self._try_at = time.monotonic() + pause
            if self._failures == 1:
                logger.warning("Celery workers are not woken, the broker cannot be reached: %s", error)
        else:
            if self._failures:
                logger.info("Celery workers are woken again")
            self._failures = 0


sender: Final = MessageSender()
