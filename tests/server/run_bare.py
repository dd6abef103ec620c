"""Serves tests.server.urls without looking at the database: `python -m tests.server.run_bare`."""

import os

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.server.bare_settings"

import django

django.setup()

from django.conf import settings

from icekeeper.server.run import run_server

run_server(settings.ICEKEEPER, lambda: print("bound", flush=True))
