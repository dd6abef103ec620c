"""Messages to Celery workers: each lets one of them look for due tasks of a queue.

A message contains nothing about a task: the rows are the truth. So messages can be lost, repeated and late.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
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


class Broker:
    """Sends messages. After a failure it sends none for a while; the first failure of several is logged, and their end.

    `without` are the words of the log for what happens meanwhile.
    """

    def __init__(self, without: str) -> None:
        self._without = without
        self._failures, self._try_at = 0, 0.0

    def send(self, queues: Iterable[str]) -> bool:
        """Send a message for each of the queues; return whether the broker got all of them."""
        if time.monotonic() < self._try_at:
            return False
        try:
            send_message: Callable[[str], None] = import_string("tasks.queue.celery_app.send_message")
            for queue in queues:
                send_message(queue)
        except NoBroker as error:
            self._failures += 1
            pause = backoff_seconds(self._failures, first=MIN_PAUSE_SECONDS, limit=MAX_PAUSE_SECONDS)
            self._try_at = time.monotonic() + pause
            if self._failures == 1:
                logger.warning("%s, the broker cannot be reached: %s", self._without, error)
            return False
        if self._failures:
            logger.info("the broker can be reached again")
        self._failures = 0
        return True


class MessageSender:
    """Sends messages in a thread of its own, so that no request waits for the broker.

    Those for one queue that have not been sent yet are one message. While the broker cannot be reached they are
    dropped: workers also poll.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting: set[str] = set()
        self._process = 0
        self._broker = Broker("Celery workers are not woken")

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
            self._broker.send(queues)


sender: Final = MessageSender()
