"""The product's settings with nothing behind the HTTP layer but the views of tests.server.urls."""

from icekeeper.settings import *  # noqa: F403

INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.staticfiles", "rest_framework", "management"]
AUTH_USER_MODEL = "auth.User"
# `management` is here for its commands; its model refers to an app that is not.
MIGRATION_MODULES = {"management": None}
SILENCED_SYSTEM_CHECKS = ["fields.E300", "fields.E307"]
API_OBSERVERS: list[str] = []
SERVER_PRECONDITIONS: list[str] = []
SERVER_ATTENDANTS: list[str] = []
ROOT_URLCONF = "tests.server.urls"
