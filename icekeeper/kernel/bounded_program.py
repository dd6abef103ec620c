"""The side of the child in `icekeeper.kernel.bounded_process`: its limits, and the frames it exchanges.

A frame is its length in 8 bytes, the highest first, and then its bytes.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import IO, Any, Final

_LENGTH: Final = struct.Struct(">Q")
_MAX_OPEN_FILES: Final = 256


class BrokenFrame(Exception):
    """The other side closed its end, or sent a frame that is larger than allowed."""


def read_frame(stream: IO[bytes], limit: int) -> bytes:
    """Return the next frame. Raises `BrokenFrame`."""
    (length,) = _LENGTH.unpack(_read_exactly(stream, _LENGTH.size))
    if length > limit:
        raise BrokenFrame
    return _read_exactly(stream, length)


def write_frame(stream: IO[bytes], frame: bytes) -> None:
    stream.write(_LENGTH.pack(len(frame)))
    stream.write(frame)
    stream.flush()


def serve_frames(respond: Callable[[bytes], Any], *, max_frame: int) -> None:
    """Set the limits in the first argument, then respond to each frame with a JSON value until there is none.

    What libraries print does not reach the parent. In place of a response above the limit there is one with `error`.
    """
    limits = json.loads(sys.argv[1])
    _set_limits(limits)
    requests, responses = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    while True:
        try:
            frame = read_frame(requests, max_frame)
        except BrokenFrame:
            return
        response = write_response(respond(frame))
        if len(response) > limits["output_bytes"]:
            response = write_response({"error": f"The result is larger than {limits['output_bytes']:,} bytes"})
        write_frame(responses, response)


def write_response(value: Any) -> bytes:
    """Return a JSON value as it is sent to the parent, in UTF-8."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace")


def _set_limits(limits: dict[str, Any]) -> None:
    """Limit this process. The alarm ends it even if its parent has died and no longer watches the clock.

    When memory is short, the kernel ends this process before the server.
    """
    with suppress(OSError):  # not on every system
        Path("/proc/self/oom_score_adj").write_text("1000")
    memory, cpu = int(limits["memory_bytes"]), max(1, ceil(limits["cpu_seconds"]))
    for kind, limit in (
        (resource.RLIMIT_AS, (memory, memory)),
        (resource.RLIMIT_CPU, (cpu, cpu + 1)),
        (resource.RLIMIT_CORE, (0, 0)),
        (resource.RLIMIT_FSIZE, (0, 0)),
        (resource.RLIMIT_NOFILE, (_MAX_OPEN_FILES, _MAX_OPEN_FILES)),
    ):
        resource.setrlimit(kind, limit)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(ceil(limits["seconds"]) + 1)


def _read_exactly(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) != length:
        raise BrokenFrame
    return data
