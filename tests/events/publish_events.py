"""Publishes events as a worker does: `python -m tests.events.publish_events`, with the environment of a server."""

from __future__ import annotations

import os
import time


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "icekeeper.settings")
    import django

    django.setup()

    from events.delivery.dispatcher import POLL_SECONDS
    from events.publication import Publisher

    publisher = Publisher()
    while True:
        publisher.publish()
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main()
