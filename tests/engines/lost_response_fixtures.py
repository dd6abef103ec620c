"""A proxy before the catalog that loses answers to commits, in the ways in which networks and proxies lose them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from threading import Lock

from tests.parts.recorder import Recorded, Reply

COMMIT = re.compile(r"/catalog/v1/[^/]+/(namespaces/[^/]+/tables/[^/]+|transactions/commit)(\?.*)?")
WAYS: tuple[int | None, ...] = (None, 500, 502, 503)
"""Statuses in the place of the catalog's answer; None is a connection that is cut."""


class LosingResponses:
    """Lets every third commit be done and loses its answer, in one way after the other; each sixth never arrives.

    An answerer of a `Recorder`. `lost` counts by status, 0 being cut connections; `keys` are the idempotency keys of
    commits, in order.
    """

    def __init__(self) -> None:
        self.lost: Counter[int] = Counter()
        self.unarrived = 0
        self.commits = 0
        self.keys: list[str | None] = []
        self._lock = Lock()

    def __call__(self, request: Recorded, ask: Callable[[], Reply]) -> Reply | None:
        if request.method != "POST" or not COMMIT.fullmatch(request.target):
            return ask()
        with self._lock:
            self.commits += 1
            number = self.commits
            self.keys.append(request.headers.get("idempotency-key"))
            if number % 6 == 5:
                self.unarrived += 1
                return _failure(503)
        reply = ask()
        if number % 3 or reply.status >= 400:
            return reply
        with self._lock:
            way = WAYS[self.lost.total() % len(WAYS)]
            self.lost[way or 0] += 1
        return None if way is None else _failure(way)


def _failure(status: int) -> Reply:
    return Reply(status, {"Content-Type": "text/html"}, b"<html>the proxy failed</html>")
