"""JSON as readable text, bounded."""

from __future__ import annotations

import json
from typing import Any, Final

MAX_CHARACTERS: Final = 200_000
"""Of a document on a page; longer ones are downloaded."""


def json_lines(document: Any) -> str:
    """Return indented JSON, cut off after `MAX_CHARACTERS`."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}\n…"
