from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from management.openapi.documents import APIS, build_document

FOLDER = Path(settings.BASE_DIR) / "docs" / "openapi"


class Command(BaseCommand):
    help = (
        "Write the OpenAPI documents of the APIs to docs/openapi, or check that they are up to date. Fails if an "
        "operation is not completely described."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="write nothing; fail if a document is out of date")

    def handle(self, *args: Any, **options: Any) -> None:
        for name in APIS:
            document = build_document(name)
            if document.complaints:
                raise CommandError("\n".join([f"{name}: {len(document.complaints)} complaints", *document.complaints]))
            path = FOLDER / f"{name}.json"
            text = orjson.dumps(document.content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
            if options["check"]:
                if not path.exists() or path.read_bytes() != text:
                    raise CommandError(f"{path.name} is out of date: run `make openapi` and review the difference")
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
            self.stdout.write(f"Wrote {path.name}")
