"""What a logger writes in this process, read back from the lines as they are written."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import orjson

from icekeeper.logs import JsonFormatter


class LogLines:
    def __init__(self, stream: StringIO) -> None:
        self._stream = stream

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    def read(self) -> list[dict[str, Any]]:
        """The lines since the last call; what is forged as a line of its own fails or shows."""
        lines = [orjson.loads(line) for line in self.text.split("\n") if line]
        self._stream.seek(0)
        self._stream.truncate()
        return lines


@contextmanager
def log_lines(name: str) -> Iterator[LogLines]:
    """From here on, what the logger `name` writes at level INFO and above."""
    logger, stream = logging.getLogger(name), StringIO()
    handler, level = logging.StreamHandler(stream), logger.level
    handler.setFormatter(JsonFormatter())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield LogLines(stream)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
