"""`manage.py`: the commands of this server and Django's, by their names with underscores or with hyphens."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import django
from django.core.management import ManagementUtility, get_commands


class CommandLine(ManagementUtility):
    """Takes `wait-for-db` for `wait_for_db`, as Lakekeeper's deployment files write it, and `version` for ours."""

    def execute(self) -> None:
        if self.argv[1:2] == ["version"]:  # Django would answer with its own
            django.setup()
            self.fetch_command("version").run_from_argv(self.argv)
        else:
            super().execute()

    def fetch_command(self, subcommand: str) -> Any:
        name = subcommand.replace("-", "_")
        return super().fetch_command(name if name in get_commands() else subcommand)


def run(arguments: Sequence[str] = sys.argv) -> None:
    """Run the command that `arguments` name, as `sys.argv`; leaves through SystemExit when it fails."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "icekeeper.settings")
    CommandLine(list(arguments)).execute()
