#!/usr/bin/env python
"""Django's entry point: `manage.py help` lists the commands."""

import os
import sys

from django.core.management import ManagementUtility

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "icekeeper.settings")
    utility = ManagementUtility(sys.argv)
    if sys.argv[1:2] == ["version"]:  # Django would answer with its own
        import django

        django.setup()
        utility.fetch_command("version").run_from_argv(sys.argv)
    else:
        utility.execute()
