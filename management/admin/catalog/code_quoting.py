"""Literals of Python and of Java properties files, for code that users copy. Every function accepts any text."""

from __future__ import annotations

from typing import Final

_PYTHON_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PROPERTY_ESCAPES: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}

_MAX_LATIN_1, _MAX_FOUR_DIGITS = 0xFF, 0xFFFF


def quote_python(text: str) -> str:
    """Return a string literal of Python in double quotes, on one line, with escapes for what is not printable."""
    return '"{}"'.format("".join(map(_escape_for_python, text)))


def write_python_tuple(texts: tuple[str, ...]) -> str:
    """Return a tuple of string literals."""
    return f"({', '.join(map(quote_python, texts))}{',' if len(texts) == 1 else ''})"


def escape_property(text: str) -> str:
    """Return the value of a line in a properties file: ASCII, on one line, spaces at its beginning kept."""
    escaped = "".join(map(_escape_for_properties, text))
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _escape_for_python(character: str) -> str:
    if character in _PYTHON_ESCAPES:
        return _PYTHON_ESCAPES[character]
    if character.isprintable():
        return character
    number = ord(character)
    if number <= _MAX_LATIN_1:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= _MAX_FOUR_DIGITS else f"\\U{number:08x}"


def _escape_for_properties(character: str) -> str:
    if character in _PROPERTY_ESCAPES:
        return _PROPERTY_ESCAPES[character]
    if character.isascii() and character.isprintable():
        return character
    encoded = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{encoded[start : start + 4]}" for start in range(0, len(encoded), 4))
