"""The command line of `manage.py`: command names are accepted with underscores or hyphens."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import django
from django.core.management import ManagementUtility, get_commands


class CommandLine(ManagementUtility):
    """Accepts `wait-for-db` for `wait_for_db`, as in Lakekeeper's deployment files, and runs our own `version`."""

    def execute(self) -> None:
        if self.argv[1:2] == ["version"]:  # Django would print its own version
            django.setup()
            self.fetch_command("version").run_from_argv(self.argv)
        else:
            super().execute()

    def fetch_command(self, subcommand: str) -> Any:
        name = subcommand.replace("-", "_")
        return super().fetch_command(name if name in get_commands() else subcommand)


def run(arguments: Sequence[str] = sys.argv) -> None:
    """Run the command in `arguments`, in the form of `sys.argv`; raises SystemExit if it fails."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "icekeeper.settings")
    CommandLine(list(arguments)).execute()
