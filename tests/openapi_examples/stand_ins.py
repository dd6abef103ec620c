"""Replace the values that differ between two runs of a story with stable stand-ins.

Equal ids of one story stay equal, and different ids stay different. A stand-in depends on the step that first
returns its id, so that a new step in a story does not change the examples of other steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

from tenancy.authn.own_tokens.stored_tokens import TokenKind, read_prefix, token_prefix

FOLDER = "/var/lib/icekeeper/warehouses"
STORY_BEGINS_MS = 1_768_469_400_000
"""2026-01-15T09:30:00Z, which is what UUIDv7 begin with."""

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_PREFIX = re.compile(r"\bik[ps]_[0-9A-Za-z]{22}")
_SECRET = re.compile(r"(?<=\bik[ps]_[0-9A-Za-z]{22}_)[0-9A-Za-z]{49}")
_SESSION_TOKEN = re.compile(r"\bika_[\w.-]+")
_PAGE_TOKEN = re.compile(r"\bWzEsI[\w-]+")
_TICKET = re.compile(r"\bWyJ[\w-]+:\w+:[\w-]+")
A_SECRET = "EXAMPLE" * 7
A_SESSION_TOKEN = "ika_EXAMPLE.EXAMPLE.EXAMPLE"
A_TICKET = "WyJleGFtcGxlIl0:EXAMPLE:EXAMPLE"
"""Of a staged table."""
A_PAGE_TOKEN = "WzEsImV4YW1wbGUiXQ"
"""`[1,"example"]`, as the server would write it."""
A_HASH = "5bd1e7" * 10 + "a94c"
"""Of an audit record: it covers ids."""
A_DURATION_MS = 4
A_CURSOR = "1042"
"""Of the feed of events."""


class StandIns:
    """The stand-ins of one story. `folder` contains its files."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._ids: dict[str, str] = {}

    def instead_of(self, value: Any, location: str) -> Any:
        """Return `value` as it is recorded; `position` is its position in the story."""
        if isinstance(value, dict):
            new = {key: self.instead_of(value[key], f"{location}/{key}") for key in sorted(value)}
            new |= {key: A_DURATION_MS for key in new if key == "duration-ms"}
            new |= {key: A_HASH for key in new if key in {"hash", "previous-hash"} and new[key] is not None}
            new |= {key: A_CURSOR for key in new if key in {"position", "next"} and isinstance(new[key], str)}
            return {key: new[key] for key in value}
        if isinstance(value, list):
            return [self.instead_of(each, f"{location}/{at}") for at, each in enumerate(value)]
        return self._text(value, location) if isinstance(value, str) else value

    def _text(self, text: str, location: str) -> str:
        text = text.replace(self._folder, FOLDER)
        text = _PAGE_TOKEN.sub(A_PAGE_TOKEN, text)
        text = _TICKET.sub(A_TICKET, text)
        text = _SESSION_TOKEN.sub(A_SESSION_TOKEN, text)
        text = _SECRET.sub(A_SECRET, text)
        text = _PREFIX.sub(self._for_each(location, self._prefix), text)
        return _ID.sub(self._for_each(location, self._id), text)

    @staticmethod
    def _for_each(location: str, replace: Callable[[str, str], str]) -> Callable[[re.Match[str]], str]:
        return lambda found: replace(found[0], f"{location}@{found.start()}")

    def _prefix(self, prefix: str, location: str) -> str:
        token_id = read_prefix(prefix)
        assert token_id is not None
        return token_prefix(TokenKind(prefix[:3]), UUID(self._id(str(token_id), location)))

    def _id(self, text: str, location: str) -> str:
        return self._ids.setdefault(text, _invented(UUID(text), location))


def _invented(like: UUID, location: str) -> str:
    """Return a stand-in id of the same UUID version."""
    digits = sha256(location.encode()).hexdigest()
    begin = f"{STORY_BEGINS_MS:012x}" if like.version == 7 else digits[20:32]
    return str(UUID(hex=f"{begin}{like.version:x}{digits[:3]}8{digits[3:18]}"))
