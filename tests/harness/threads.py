"""Concurrent calls of a test."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from django.db import connections

T = TypeVar("T")


def at_once(*acts: Callable[[], T]) -> list[T]:
    """Call functions concurrently, each on a thread and connections of its own; return their results in order.

    Raises the first error of one of them after all have ended.
    """
    start = Barrier(len(acts))

    def act(do: Callable[[], T]) -> T:
        start.wait(30)
        try:
            return do()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(act, acts))
