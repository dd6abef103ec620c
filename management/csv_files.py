"""CSV files (RFC 4180, UTF-8), sent while their rows are read.

Users choose names, and spreadsheets take some texts for formulas: these texts are prefixed with an apostrophe, and so
are the parts of a text that follow a separator, because the list separator of some languages is not the comma.
https://owasp.org/www-community/attacks/CSV_Injection
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from django.http import StreamingHttpResponse

CSV: Final = "text/csv"

_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001 - as spreadsheets fold them
_BLANKS: Final = " \u00a0\u200b\ufeff"
"""Characters before a formula that spreadsheets may ignore."""
_AFTER_SEPARATORS: Final = re.compile(rf'([;|\t\r\n][\s"{_BLANKS}]*)(?=[=+\-@＝＋－＠])')  # noqa: RUF001
"""A separator, and the characters that can precede a formula: quotes are written twice, which is an empty text."""


class Number(str):
    """The text of a number, which is written as it is: no formula, though it may begin with a sign."""

    __slots__ = ()


def csv_response(
    name: str, header: Sequence[str], parts: Iterable[Iterable[Sequence[object]]]
) -> StreamingHttpResponse:
    """Return the rows as the file `name`, an ASCII word; rows have as many cells as the header."""
    response = StreamingHttpResponse(_lines(header, parts), content_type=f"{CSV}; charset=utf-8; header=present")
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _lines(header: Sequence[str], parts: Iterable[Iterable[Sequence[object]]]) -> Iterator[bytes]:
    yield _encode([header])
    for rows in parts:
        yield _encode(rows)


def _encode(rows: Iterable[Sequence[Any]]) -> bytes:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\r\n", quoting=csv.QUOTE_ALL)
    writer.writerows([cell(each) for each in row] for row in rows)
    return written.getvalue().encode("utf-8", "replace")


def cell(value: object) -> str:
    """Return the text of a value, changed if spreadsheets would take it for a formula; None is empty."""
    if isinstance(value, Number):
        return value
    text = "" if value is None else str(value)
    marked = _AFTER_SEPARATORS.sub(r"\1'", text)
    return f"'{marked}" if text.lstrip(_BLANKS).startswith(_FORMULAS) else marked
