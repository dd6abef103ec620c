"""The output of a logger in this process, parsed from the lines as they are written."""

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
        """Return the lines since the last call; a forged line fails to parse or is returned."""
        lines = [orjson.loads(line) for line in self.text.split("\n") if line]
        self._stream.seek(0)
        self._stream.truncate()
        return lines


@contextmanager
def log_lines(name: str) -> Iterator[LogLines]:
    """Record what the logger `name` writes at level INFO and above."""
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
