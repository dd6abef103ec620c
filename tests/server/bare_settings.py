"""The product's settings with only the views of tests.server.urls behind the HTTP layer."""

from icekeeper.settings import *  # noqa: F403

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.staticfiles",
    "rest_framework",
    "tasks",
    "tenancy",
    "management",
]
# `management` is installed for its commands, the others because `/health` reports their state. Models of the former
# refer to an app that is not installed here.
MIGRATION_MODULES = {"management": None}
SILENCED_SYSTEM_CHECKS = ["fields.E300", "fields.E307"]
REQUEST_OBSERVERS = []
RESPONSE_HOOKS = []
STARTUP_JOBS = []
PERIODIC_JOBS = []
ROOT_URLCONF = "tests.server.urls"
