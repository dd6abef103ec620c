from __future__ import annotations

import platform
from typing import Any

import django
from django.core.management.base import CommandParser

from icekeeper.version import LAKEKEEPER_VERSION, VERSION, commit_sha
from management.management.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Print the versions of Icekeeper, of the Lakekeeper whose APIs it implements, of Django and of Python."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON, which includes the commit")

    def handle(self, *args: Any, **options: Any) -> None:
        versions = {
            "icekeeper": VERSION,
            "commit-sha": commit_sha(),
            "lakekeeper": LAKEKEEPER_VERSION,
            "django": django.get_version(),
            "python": platform.python_version(),
        }
        sentence = (
            f"icekeeper {VERSION} (APIs of Lakekeeper {LAKEKEEPER_VERSION}; Django {versions['django']}, "
            f"Python {versions['python']})"
        )
        self.print_result(options, versions, sentence)
