"""The metrics of a server: one board for all its processes, and a child_process that shows the sums to whoever asks."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable
from typing import Final

from icekeeper.kernel.meters import Meter, Series
from icekeeper.server.child_process import ChildProcess
from icekeeper.server.exposition import expose
from icekeeper.server.metrics_board import MetricsBoard, MetricsWriter
from icekeeper.server.metrics_listener import MetricsListener
from icekeeper.version import VERSION

STARTED: Final = Series("process_start_time_seconds", "gauge", "When the server started, in seconds since 1970")
BUILD: Final = Series("icekeeper_build_info", "gauge", "Always 1; the version is in the label", {"version": VERSION})


class Metrics:
    """Made before any process is forked; owns the socket that the child_process answers on."""

    def __init__(self, listening: socket.socket, meters: Iterable[Meter], *, workers: int) -> None:
        self.listening = listening
        # One spare for each: while workers are replaced, old and new ones live side by side.
        self.board = MetricsBoard(list(meters), 2 * workers)
        self.child_process = ChildProcess(
            "the metrics listener", MetricsListener(listening, self.page).run, listens_on=listening
        )
        self._started = time.time()

    @property
    def port(self) -> int:
        port: int = self.listening.getsockname()[1]
        return port

    def page(self) -> str:
        """All numbers as Prometheus reads them, at most a second old."""
        totals = zip(self.board.series, self.board.totals(), strict=True)
        return expose([*totals, (STARTED, self._started), (BUILD, 1.0)])

    def start_writing(self, place: int) -> Callable[[], None]:
        """In a worker, whose place it is; what is returned writes the last numbers and ends it."""
        writer = MetricsWriter(self.board, place)
        writer.start()
        return writer.stop
