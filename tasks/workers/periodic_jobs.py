"""Periodic jobs of the worker: they delete rows that are too old."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.conf import settings
from django.utils.module_loading import import_string

from tenancy.actor import INTERNAL

EVERY_SECONDS = 60.0

logger = logging.getLogger("icekeeper.tasks")


def run_periodic_jobs(keep_going: Callable[[], object]) -> None:
    """Call each service of `settings.PERIODIC_TASKS`, which deletes in batches what is too old.

    An error of one does not stop the others; `keep_going` is called before each.
    """
    for name in settings.PERIODIC_TASKS:
        keep_going()
        try:
            import_string(name)(actor=INTERNAL)
        except Exception:
            logger.warning("periodic job failed: %s", name, exc_info=True)
