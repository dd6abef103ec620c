"""Log lines as JSON, one object a line, so that clients cannot inject log lines."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import orjson

from icekeeper.kernel.request_context import current_context

_STANDARD = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Writes `timestamp` (RFC 3339, UTC), `level`, `logger`, `message`, request id, members of `extra`, `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "timestamp": _timestamp(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        request_id = current_context().request_id
        if request_id is not None:
            line |= request_id.log_fields()
        line.update({name: value for name, value in record.__dict__.items() if name not in _STANDARD})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        try:
            return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        except TypeError:  # lone surrogates, which are invalid JSON, or integers beyond 64 bits
            return json.dumps(line, default=str, ensure_ascii=False).encode("utf-8", "replace").decode()


def _timestamp(seconds: float) -> str:
    whole = int(seconds)
    return f"{_format_second(whole)}.{int((seconds - whole) * 1_000_000):06d}Z"


_last_second: tuple[int, str] = (0, "")


def _format_second(seconds: int) -> str:
    """Return a time such as `2026-01-31T23:59:59`. The last one is cached: a busy server logs many lines a second."""
    global _last_second  # noqa: PLW0603 - one tuple: threads see the old or the new one
    known, text = _last_second
    if known != seconds:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        _last_second = (seconds, text)
    return text
