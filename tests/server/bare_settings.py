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
REQUEST_OBSERVERS: list[str] = []
RESPONSE_HOOKS: list[str] = []
STARTUP_CHECKS: list[str] = []
BACKGROUND_JOBS: list[str] = []
ROOT_URLCONF = "tests.server.urls"
