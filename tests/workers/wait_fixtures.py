"""Wait for effects of other processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(done: Callable[[], Any], seconds: float = 60) -> Any:
    """Return the result of `done` once it is true."""
    give_up = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < give_up, "it does not happen"
        time.sleep(0.02)
    return found
