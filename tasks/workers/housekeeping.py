"""What grows and must be cut back from time to time, whatever is queued."""

from __future__ import annotations

import logging
from collections.abc import Callable

from catalog.services.outcomes import delete_old_outcomes

EVERY_SECONDS = 60.0

HOUSEKEEPING: tuple[Callable[[], int], ...] = (delete_old_outcomes,)
"""Each deletes a bounded number of rows and returns how many; it is called until there are none left."""

logger = logging.getLogger("icekeeper.tasks")


def keep_house(keep_going: Callable[[], object]) -> None:
    """Run all of it. One that fails does not keep the others from it; `keep_going` is called before each step."""
    for chore in HOUSEKEEPING:
        keep_going()
        try:
            while chore():
                keep_going()
        except Exception:
            logger.warning("housekeeping failed: %s", chore.__name__, exc_info=True)
