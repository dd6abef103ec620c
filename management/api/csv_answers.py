"""Tables as CSV (RFC 4180, UTF-8), sent while they are read.

Names are whatever people chose, and programs that open such a file take some for formulas: these get an apostrophe in
front. https://owasp.org/www-community/attacks/CSV_Injection
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from django.http import StreamingHttpResponse
from rest_framework.request import Request

from icekeeper.kernel.errors.types import BadRequest

CSV: Final = "text/csv"
_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001 - as spreadsheets fold them
_BLANKS: Final = " \u00a0\u200b\ufeff"
"""What spreadsheets may pass over before they look."""


def wants_csv(request: Request) -> bool:
    """Whether the query parameter `format`, or without it `Accept`, asks for CSV. Raises `BadRequest`."""
    given = request.GET.getlist("format")
    if len(given) > 1 or (given and given[0] not in {"csv", "json"}):
        raise BadRequest("format: must be csv or json, once")
    if given:
        return given[0] == "csv"
    accepted = [each.partition(";") for each in request.META.get("HTTP_ACCEPT", "").split(",")]
    for name, _, parameters in accepted:  # the first that is known; weights but for none at all are passed over
        if parameters.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}:
            if name.strip().lower() == CSV:
                return True
            if name.strip().lower() in {"application/json", "*/*", "application/*"}:
                return False
    return False


def csv_answer(name: str, header: Sequence[str], parts: Iterable[Iterable[Sequence[object]]]) -> StreamingHttpResponse:
    """The file `name`, an ASCII word; rows have as many cells as the header."""
    answer = StreamingHttpResponse(_lines(header, parts), content_type=f"{CSV}; charset=utf-8; header=present")
    answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer


def _lines(header: Sequence[str], parts: Iterable[Iterable[Sequence[object]]]) -> Iterator[bytes]:
    yield _text([header])
    for rows in parts:
        yield _text(rows)


def _text(rows: Iterable[Sequence[Any]]) -> bytes:
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerows([cell(each) for each in row] for row in rows)
    return written.getvalue().encode("utf-8", "replace")


def cell(value: object) -> str:
    """As a text that no program takes for a formula; None is empty."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.lstrip(_BLANKS).startswith(_FORMULAS) else text
