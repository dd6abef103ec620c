"""The product's settings with nothing behind the HTTP layer but the views of tests.server.urls."""

from icekeeper.settings import *  # noqa: F403

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.staticfiles",
    "rest_framework",
    "tenancy",
    "management",
]
# `management` is here for its commands, `tenancy` as `/health` says whether callers must be known. Models of the former
# refer to an app that is not here.
MIGRATION_MODULES = {"management": None}
SILENCED_SYSTEM_CHECKS = ["fields.E300", "fields.E307"]
API_OBSERVERS: list[str] = []
LAST_ACTS: list[str] = []
SERVER_PRECONDITIONS: list[str] = []
SERVER_ATTENDANTS: list[str] = []
SERVER_METERS = ["icekeeper.http.request_meter.request_meter", "icekeeper.server.process_meter.process_meter"]
ROOT_URLCONF = "tests.server.urls"
