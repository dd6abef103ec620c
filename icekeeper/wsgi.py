"""The WSGI application that `manage.py serve` runs."""

from __future__ import annotations

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "icekeeper.settings")
django.setup(set_prefix=False)

from icekeeper.http.application import Application  # noqa: E402 - Django must be set up first

application = Application()
