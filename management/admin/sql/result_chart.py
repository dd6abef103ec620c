"""The chart of a result: a column with labels and one with numbers, which the user chooses."""

from __future__ import annotations

from typing import Any, Final, cast

from django.utils.translation import gettext as _

from catalog.services.sql_query import SqlResult
from management.admin.value_chart import Kind, draw_values, read_number

MAX_POINTS: Final = 200
KINDS: Final = ("bar", "line")


def chart_context(result: SqlResult, kind: str, label: str, value: str) -> dict[str, Any]:
    """Return the choices, and the chart if a kind is chosen. Nothing for a result that has no number or no rows.

    `label` and `value` are positions of columns; unknown ones stand for the first column, and the first other number.
    """
    columns = range(len(result.columns))
    numbers = [at for at in columns if result.columns[at].is_number]
    if not numbers or not result.rows:
        return {}
    value_at = _position(value, numbers, default=next((at for at in numbers if at), numbers[0]))
    label_at = _position(label, list(columns), default=0)
    shown = {
        "chart_kinds": [
            (each, text, each == kind) for each, text in (("", _("No chart")), ("bar", _("Bars")), ("line", _("Line")))
        ],
        "label_choices": [(at, result.columns[at].name, at == label_at) for at in columns],
        "value_choices": [(at, result.columns[at].name, at == value_at) for at in numbers],
    }
    if kind not in KINDS:
        return shown
    rows = result.rows[:MAX_POINTS]
    name = _("%(value)s by %(label)s") % {
        "value": result.columns[value_at].name,
        "label": result.columns[label_at].name,
    }
    labels = ["null" if (text := row[label_at]) is None else text.removesuffix("T00:00:00") for row in rows]
    chart = draw_values(name, cast("Kind", kind), labels, [read_number(row[value_at]) for row in rows])
    is_cut = result.has_more or len(result.rows) > MAX_POINTS
    return {**shown, "chart": chart, "points": len(rows), "is_chart_cut": is_cut}


def _position(text: str, allowed: list[int], *, default: int) -> int:
    at = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else -1  # noqa: PLR2004
    return at if at in allowed else default
