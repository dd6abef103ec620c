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
from math import ceil
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

    What libraries print does not reach the parent. A response above the limit ends the process.
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
        response = json.dumps(respond(frame), allow_nan=False).encode()
        if len(response) > limits["output_bytes"]:
            return
        write_frame(responses, response)


def _set_limits(limits: dict[str, Any]) -> None:
    """Limit this process. The alarm ends it even if its parent has died and no longer watches the clock."""
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
