"""A program that misbehaves as its frame asks for."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from icekeeper.kernel.bounded_program import serve_frames


def respond(frame: bytes) -> Any:
    if frame == b"sleep":
        time.sleep(60)
    if frame == b"spin":
        while True:
            pass
    if frame == b"grow":
        return len(bytearray(1 << 40))
    if frame == b"exit":
        os._exit(3)
    if frame == b"large":
        return "x" * 100_000
    if frame == b"letters":
        return "é" * 4_900
    if frame == b"score":
        return Path("/proc/self/oom_score_adj").read_text()
    if frame == b"print":
        print("this is not a frame", flush=True)
    return sorted(os.environ)


if __name__ == "__main__":
    serve_frames(respond, max_frame=1000)
