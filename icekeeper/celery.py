"""The Celery app of `celery -A icekeeper worker` and `celery -A icekeeper beat`."""

from __future__ import annotations

import os
import sys

import django
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "icekeeper.settings")
django.setup(set_prefix=False)

from tasks.queue.celery_app import celery_app  # noqa: E402 - Django must be set up first
from tasks.workers.celery_tasks import register_tasks  # noqa: E402

if settings.ICEKEEPER.celery.broker_url is None:
    sys.exit("ICEKEEPER__CELERY__BROKER_URL is not set: Celery needs a broker; `manage.py worker` runs without one")
app = celery_app()
register_tasks(app)
