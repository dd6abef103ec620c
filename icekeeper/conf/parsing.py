"""Lakekeeper's syntax of values in the environment: quoted text, lists `[a,b]`, and compound values `{key=value}`."""

from __future__ import annotations

import re
import tomllib
from typing import Final

MAX_DEPTH: Final = 16
"""Nested lists and compound values."""

_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'', re.DOTALL)
_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN: Final = re.compile(r"[^,{}\[\]]*")
_SPACE: Final = re.compile(r"\s*")

Value = str | list["Value"] | dict[str, "Value"]


def unquote(text: str) -> str:
    """Remove quotes around a value, which compose files do not remove; return other text unchanged.

    Raises ValueError for an invalid escape in double quotes; the message does not contain the value.
    """
    stripped = text.strip()
    return _quoted_text(stripped) if _QUOTED.fullmatch(stripped) else text


def parse_value(text: str) -> Value:
    """Parse a list `[a, "b"]` or a compound value `{key=value, "other key"={...}}`; anything else is text.

    Keys become lower-case, because names of settings are case-insensitive. Raises ValueError; the message does not
    contain the value.
    """
    return _Parser(text).parse()


def _quoted_text(quoted: str) -> str:
    """Return the text between the quotes, with the escapes of TOML. Raises ValueError."""
    if quoted.startswith("'") or "\\" not in quoted:
        return quoted[1:-1]
    try:
        text: str = tomllib.loads(f"text = {quoted}")["text"]
    except tomllib.TOMLDecodeError:
        raise ValueError("a quoted text with the escapes of TOML, or no quotes") from None
    return text


class _Parser:
    """Recursive descent over one value."""

    def __init__(self, text: str) -> None:
        self._text, self._position = text, 0

    def parse(self) -> Value:
        value = self._value(depth=0)
        self._take(_SPACE)
        if self._position != len(self._text):
            raise ValueError("nothing may follow the closing bracket or quote")
        return value

    def _value(self, depth: int) -> Value:
        if depth > MAX_DEPTH:
            raise ValueError(f"at most {MAX_DEPTH} levels of brackets")
        self._take(_SPACE)
        if self._accept("["):
            return self._list(depth + 1)
        if self._accept("{"):
            return self._compound(depth + 1)
        quoted = self._take(_QUOTED)
        if quoted:
            return _quoted_text(quoted)
        if self._text.startswith('"', self._position):
            raise ValueError("each quote must be closed")
        return self._take(_PLAIN).strip()

    def _list(self, depth: int) -> list[Value]:
        items: list[Value] = []
        while not self._closes("]"):
            before = self._position
            item = self._value(depth)
            if item != "" or self._text[before : self._position].strip():  # `[a,,b]` has two items, `[""]` one
                items.append(item)
            self._separate("]")
        return items

    def _compound(self, depth: int) -> dict[str, Value]:
        members: dict[str, Value] = {}
        while not self._closes("}"):
            quoted = self._take(_QUOTED)
            key = _quoted_text(quoted) if quoted else self._take(_KEY)
            self._take(_SPACE)
            if not key or not self._accept("="):
                raise ValueError("each member must be key=value")
            key = key.lower()
            if key in members:
                raise ValueError("each key may be given once")
            members[key] = self._value(depth)
            self._separate("}")
        return members

    def _separate(self, closing: str) -> None:
        """Consume a comma, but not the closing bracket."""
        self._take(_SPACE)
        if not self._accept(",") and not self._text.startswith(closing, self._position):
            raise ValueError(f"a comma or {closing} must follow each member")

    def _closes(self, closing: str) -> bool:
        self._take(_SPACE)
        return self._accept(closing)

    def _accept(self, character: str) -> bool:
        is_next = self._text.startswith(character, self._position)
        self._position += is_next
        return is_next

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Consume and return the match of `pattern`; an empty string without a match."""
        found = pattern.match(self._text, self._position)
        if found is None:
            return ""
        self._position = found.end()
        return found[0]
