from __future__ import annotations

from django.contrib.admin.apps import SimpleAdminConfig


class ConsoleConfig(SimpleAdminConfig):
    """Django's admin with our site. Nothing is registered at the start: `management.admin.urls` imports the pages."""

    default_site = "management.admin.site.ConsoleSite"
