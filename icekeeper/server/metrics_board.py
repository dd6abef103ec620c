"""The numbers of all server processes in memory that they share, so that a scrape disturbs none of them."""

from __future__ import annotations

import logging
import mmap
from collections.abc import Sequence
from typing import Final

from icekeeper.kernel.meters import Meter
from icekeeper.kernel.periodic_thread import PeriodicThread

INTERVAL: Final = 1.0
"""Seconds between two writes of a process."""

_WIDTH: Final = 8

logger = logging.getLogger("icekeeper.server")


class MetricsBoard:
    """Made before the workers are forked. A place is written by its worker and, when that is gone, by the arbiter.

    A worker counts on from what the one before it in its place had counted, so no sum ever falls when one dies.
    """

    def __init__(self, meters: Sequence[Meter], places: int) -> None:
        self.meters = meters
        self.series = [each for meter in meters for each in meter.series]
        memory = memoryview(mmap.mmap(-1, _WIDTH * max(1, len(self.series)) * places)).cast("d")
        width = len(self.series)
        self._rows = [memory[place * width : (place + 1) * width] for place in range(places)]
        self._free = set(range(places))

    def claim(self) -> int | None:
        """A free place for a new worker, None when there are more workers than places."""
        if not self._free:
            return None
        place = min(self._free)
        self._free.remove(place)
        return place

    def release(self, place: int) -> None:
        """Its worker is gone: what it counted stays, what it had is gone, too."""
        row = self._rows[place]
        for index, series in enumerate(self.series):
            if series.kind == "gauge":
                row[index] = 0.0
        self._free.add(place)

    def row(self, place: int) -> memoryview[float]:
        """One number for each of `series`."""
        return self._rows[place]

    def totals(self) -> list[float]:
        """The sum over all places, for each of `series`."""
        return [sum(row[index] for row in self._rows) for index in range(len(self.series))]


class MetricsWriter(PeriodicThread):
    """The thread of a worker that writes its numbers down, at once, every second, and when the worker ends."""

    def __init__(self, board: MetricsBoard, place: int, *, interval: float = INTERVAL) -> None:
        super().__init__("metrics", self.write, interval=interval)
        self._board, self._row = board, board.row(place)
        self._before = [
            number if series.kind == "counter" else 0.0 for series, number in zip(board.series, self._row, strict=True)
        ]
        self._failing: set[int] = set()

    def start(self) -> None:
        self.write()
        super().start()

    def write(self) -> None:
        """A meter that cannot be read, as for want of open files, keeps its last numbers; the log says so once."""
        first = 0
        for index, meter in enumerate(self._board.meters):
            try:
                numbers = meter.read()
            except Exception as error:  # noqa: BLE001 - the others go on counting
                if index not in self._failing:
                    logger.warning("a part of the metrics cannot be read: %s", error)
                self._failing.add(index)
            else:
                self._failing.discard(index)
                for place, number in enumerate(numbers, first):
                    self._row[place] = self._before[place] + number
            first += len(meter.series)
