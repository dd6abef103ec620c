"""A proxy of the catalog that loses responses to commits, as networks and proxies do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from threading import Lock

from tests.parts.recorder import Recorded, Reply

COMMIT = re.compile(r"/catalog/v1/[^/]+/(namespaces/[^/]+/tables/[^/]+|transactions/commit)(\?.*)?")
WAYS: tuple[int | None, ...] = (None, 500, 502, 503)
"""Statuses that replace the catalog's response; None closes the connection."""


class LosingResponses:
    """Forward every third commit and lose its response, with each status in turn; each sixth commit is not forwarded.

    A handler of a `Recorder`. `lost` counts by status, 0 for closed connections; `keys` are the idempotency keys of
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
