"""Serves tests.server.urls without looking at the database: `python -m tests.server.run_bare`."""

import os

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.server.bare_settings"

import django

django.setup()

from django.conf import settings  # noqa: E402 - after the set-up

from icekeeper.server.run import run_server  # noqa: E402

run_server(settings.ICEKEEPER, lambda _metrics: print("bound", flush=True))
