"""The product's settings with nothing behind the HTTP layer but the views of tests.server.urls."""

from icekeeper.settings import *  # noqa: F403

INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.staticfiles", "rest_framework", "management"]
AUTH_USER_MODEL = "auth.User"
ROOT_URLCONF = "tests.server.urls"
