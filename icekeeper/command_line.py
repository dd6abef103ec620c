"""The command line of `manage.py`: command names are accepted with underscores or hyphens."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final

import django
from django.core.management import ManagementUtility, get_commands

BROKEN_PIPE_STATUS: Final = 128 + signal.SIGPIPE
"""What a shell reports of a program that SIGPIPE has ended."""


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
        command = super().fetch_command(name if name in get_commands() else subcommand)
        _resume_collection()
        return command


def _resume_collection() -> None:
    """Enable the garbage collector, which from now on leaves out what has been imported: it stays."""
    gc.freeze()
    gc.enable()


def run(arguments: Sequence[str] = sys.argv) -> None:
    """Run the command in `arguments`, in the form of `sys.argv`; raises SystemExit if it fails.

    A command whose output is no longer read, as by `| head`, exits with `BROKEN_PIPE_STATUS`.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "icekeeper.settings")
    gc.disable()  # until the command is imported: a fifth of the time
    try:
        try:
            CommandLine(list(arguments)).execute()
        finally:
            gc.enable()
            sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout at its exit and would report the error once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE_STATUS)
