"""The tables and views that a SQL query names.

One pass over the tokens, without recursion: the time is proportional to the length of the text, whatever it contains.
It knows quoting, comments, subqueries, joins and WITH; names of functions and of WITH queries are left out. It does not
check the query, so of a text that is no query of this form it returns what looks like names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MAX_SQL_LENGTH: Final = 64 * 1024
"""Characters; of longer texts no names are read."""
MAX_REFERENCES: Final = 100
MAX_PARTS: Final = 20
"""Of a name: a catalog, levels of a namespace, and the table."""

_BACKSLASH_DIALECTS: Final = frozenset({"spark", "hive", "databricks", "bigquery", "snowflake", "mysql", "clickhouse"})
"""Dialects in which a backslash escapes the next character of a string."""

_REST: Final = r"""
  | (?P<quoted> "(?:[^"]|"")*+(?:"|\Z) | `(?:[^`]|``)*+(?:`|\Z) )
  | (?P<word> [\w$]+ )
  | (?P<sign> . )
"""
_SKIPPED: Final = r"\s+ | --[^\n]* | /\*.*?(?:\*/|\Z)"
_WITH_BACKSLASH: Final = re.compile(rf"{_SKIPPED} | '(?:[^'\\]|\\.|'')*+(?:'|\\?\Z) {_REST}", re.VERBOSE | re.DOTALL)
_STANDARD: Final = re.compile(rf"{_SKIPPED} | '(?:[^']|'')*+(?:'|\Z) {_REST}", re.VERBOSE | re.DOTALL)

_AFTER_FROM: Final = frozenset({
    "where", "group", "order", "having", "limit", "offset", "fetch", "union", "intersect", "except", "minus", "window",
    "qualify", "cluster", "distribute", "sort", "set", "returning", "values",
})  # fmt: skip
_BEFORE_NAME: Final = frozenset({"lateral", "only"})


class References(NamedTuple):
    """Names in the order of the text, each once, as parts without quotes; `is_complete` is False beyond a limit."""

    names: tuple[tuple[str, ...], ...]
    is_complete: bool


class _Token(NamedTuple):
    kind: str
    text: str

    @property
    def word(self) -> str:
        """The word in lower case; empty for anything else."""
        return self.text.lower() if self.kind == "word" else ""

    @property
    def name(self) -> str | None:
        """The name that this may be, without quotes."""
        if self.kind == "quoted":
            quote = self.text[0]
            return self.text[1:-1].replace(quote * 2, quote) if len(self.text) > 1 else ""
        return self.text if self.kind == "word" else None


@dataclass(slots=True)
class _Query:
    """What is known inside one pair of parentheses."""

    has_select: bool = False
    in_from: bool = False
    expects_name: bool = False
    in_with: bool = False
    is_recursive: bool = False
    expects_with_name: bool = False
    has_as: bool = False
    pending: str | None = None
    """The query of WITH whose text is being read: its own name in it is that of a table, unless it is recursive."""
    defined: set[str] = field(default_factory=set)


_END: Final = _Token("end", "")


def find_references(sql: str, dialect: str = "") -> References:
    """Return the names of at most `MAX_REFERENCES` tables and views in a query."""
    if len(sql) > MAX_SQL_LENGTH:
        return References((), is_complete=False)
    tokens = [*_tokenize(sql, dialect), _END, _END]
    found: dict[tuple[str, ...], None] = {}
    open_queries = [_Query()]
    previous, at = _END, 0
    while at < len(tokens) - 2:
        token, query = tokens[at], open_queries[-1]
        at += 1
        if token.text == "(" and token.kind == "sign":
            inner = _Query(in_from=query.expects_name, expects_name=query.expects_name)
            query.expects_name = False
            open_queries.append(inner)
        elif token.text == ")" and token.kind == "sign":
            if len(open_queries) > 1:
                open_queries.pop()
            _end_of_with_query(open_queries[-1])
        elif query.in_with and not query.has_select and token.word != "select":
            _read_with(query, token)
        elif token.word and _read_keyword(query, token.word, previous.word, tokens[at]):
            pass
        elif token.text == "," and token.kind == "sign":
            query.expects_name = query.in_from
        elif query.expects_name and token.name is not None:
            parts, at = _read_name(tokens, at - 1)
            query.expects_name = False
            is_function = tokens[at].text == "(" and tokens[at].kind == "sign"
            if not is_function and not _is_defined(parts, open_queries):
                found.setdefault(parts)
                if len(found) > MAX_REFERENCES:
                    return References(tuple(found)[:MAX_REFERENCES], is_complete=False)
        previous = token
    return References(tuple(found), is_complete=True)


def _tokenize(sql: str, dialect: str) -> Iterator[_Token]:
    pattern = _WITH_BACKSLASH if dialect.lower() in _BACKSLASH_DIALECTS else _STANDARD
    for match in pattern.finditer(sql):
        if match.lastgroup is not None:
            yield _Token(match.lastgroup, match.group())


def _read_with(query: _Query, token: _Token) -> None:
    """Read a token between WITH and its SELECT, outside of parentheses."""
    if token.word == "recursive" and query.expects_with_name:
        query.is_recursive = True
    elif token.word == "as":
        query.has_as = True
    elif token.text == "," and token.kind == "sign":
        query.expects_with_name = True
    elif query.expects_with_name and token.name is not None:
        query.expects_with_name, query.has_as, query.pending = False, False, token.name.lower()
        if query.is_recursive:
            query.defined.add(query.pending)


def _end_of_with_query(query: _Query) -> None:
    if query.pending is not None and query.has_as:
        query.defined.add(query.pending)
        query.pending = None


def _read_keyword(query: _Query, word: str, previous: str, following: _Token) -> bool:
    """Apply a keyword to the query; return False for any other word."""
    if word == "select":
        query.has_select, query.in_from, query.expects_name = True, False, False
    elif word == "with" and not query.has_select and not previous:
        query.in_with, query.expects_with_name, query.expects_name = True, True, False
    elif word == "from" and query.has_select and previous != "distinct":  # not EXTRACT(.. FROM ..), IS DISTINCT FROM
        query.in_from, query.expects_name = True, True
    elif word == "join":
        query.expects_name = query.in_from or query.has_select
    elif _ends_from(query, word, following.word):
        query.in_from, query.expects_name = False, False
    else:
        return query.expects_name and word in _BEFORE_NAME
    return True


def _ends_from(query: _Query, word: str, following: str) -> bool:
    """Return whether no names of tables follow; where one is expected, a keyword is a name."""
    if word == "values" or (word == "lateral" and following == "view"):
        return True
    return word in _AFTER_FROM and not query.expects_name


def _read_name(tokens: Sequence[_Token], at: int) -> tuple[tuple[str, ...], int]:
    """Return the parts of the dotted name that begins at a token, and the position behind it."""
    parts = [tokens[at].name or ""]
    at += 1
    while tokens[at].text == "." and tokens[at].kind == "sign" and len(parts) < MAX_PARTS:
        part = tokens[at + 1].name
        if part is None:
            break
        parts.append(part)
        at += 2
    return tuple(parts), at


def _is_defined(parts: Sequence[str], open_queries: Sequence[_Query]) -> bool:
    return len(parts) == 1 and any(parts[0].lower() in query.defined for query in open_queries)
