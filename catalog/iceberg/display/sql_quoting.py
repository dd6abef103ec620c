"""Quoting of names and texts for the SQL of engines. Every function accepts any text, also empty and hostile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_SPARK_ESCAPES: Final = {
    "\\": "\\\\",
    "'": "\\'",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "$": "\\u0024",  # Spark substitutes ${name} before it parses, in string literals, too
}
_MAX_FOUR_DIGITS: Final = 0xFFFF


def quote_backticks(name: str) -> str:
    """Return an identifier of Spark or Flink: a backtick inside is doubled, nothing else is special."""
    return f"`{name.replace('`', '``')}`"


def quote_identifier(name: str) -> str:
    """Return an identifier of standard SQL (Trino, DuckDB, Snowflake): a double quote inside is doubled."""
    return '"{}"'.format(name.replace('"', '""'))


def quote_string(text: str) -> str:
    """Return a string literal of standard SQL (Trino, DuckDB, Flink): a quote inside is doubled."""
    return "'{}'".format(text.replace("'", "''"))


def quote_backslash_string(text: str) -> str:
    """Return a string literal of an engine where the backslash escapes (Snowflake)."""
    return "'{}'".format(text.replace("\\", "\\\\").replace("'", "\\'"))


def quote_spark_string(text: str) -> str:
    """Return a string literal of Spark on one line, with `\\uXXXX` for what is not printable."""
    return "'{}'".format("".join(map(_escape_for_spark, text)))


def _escape_for_spark(character: str) -> str:
    escaped = _SPARK_ESCAPES.get(character)
    if escaped is not None:
        return escaped
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number <= _MAX_FOUR_DIGITS else f"\\U{number:08x}"


def join_backticks(parts: Iterable[str]) -> str:
    """Return a dotted name of Spark or Flink, every part quoted."""
    return ".".join(map(quote_backticks, parts))


def join_identifiers(parts: Iterable[str]) -> str:
    """Return a dotted name of standard SQL, every part quoted."""
    return ".".join(map(quote_identifier, parts))
