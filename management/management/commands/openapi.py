from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from management.openapi.documents import APIS, build_document
from management.openapi.event_document import build_event_document

FOLDER = Path(settings.BASE_DIR) / "docs" / "openapi"


class Command(BaseCommand):
    help = (
        "Write the OpenAPI documents of the APIs, and the AsyncAPI document of the events, to docs/openapi, or check "
        "that they are up to date. Fails if an operation is not completely described, or a type of events has no "
        "example."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="write nothing; fail if a document is out of date")

    def handle(self, *args: Any, **options: Any) -> None:
        for name in APIS:
            document = build_document(name)
            if document.complaints:
                raise CommandError("\n".join([f"{name}: {len(document.complaints)} complaints", *document.complaints]))
            self._write(f"{name}.json", document.content, is_check=options["check"])
        try:
            events = build_event_document()
        except LookupError as error:
            raise CommandError(str(error)) from None
        self._write("asyncapi.json", events, is_check=options["check"])

    def _write(self, name: str, content: dict[str, Any], *, is_check: bool) -> None:
        """Write the document, or raise `CommandError` if it differs from the file."""
        path = FOLDER / name
        text = orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        if is_check:
            if not path.exists() or path.read_bytes() != text:
                raise CommandError(f"{name} is out of date: run `make openapi` and review the difference")
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        self.stdout.write(f"Wrote {name}")
