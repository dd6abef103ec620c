"""Template tags of the console: readable numbers, sizes and times, icons and shortened texts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from django import template
from django.templatetags.static import static
from django.urls import get_script_prefix
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timezone import now
from django.utils.translation import gettext as _

register = template.Library()

NOTHING: Final = "\N{EN DASH}"
"""Shown where a value is unknown."""

_SHORT_UNITS: Final = ("", " k", " M", " B", " T")
_BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_UNITS: Final = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1, "s"))
_DAYS_AS_AGE: Final = 30
_THIN_SPACE: Final = "\N{NARROW NO-BREAK SPACE}"
_DIGITS: Final = 3
_SHOWN_CHARACTERS: Final = 60


@register.simple_tag
def icon(name: str, css_class: str = "") -> SafeString:
    """Return the icon `name` of `icons.svg`; decoration, so that the text next to it has its meaning."""
    return _icon(name, css_class, get_script_prefix())


@lru_cache(maxsize=512)  # a page has up to a thousand icons
def _icon(name: str, css_class: str, _prefix: str) -> SafeString:
    """Return the same. The address of `icons.svg` begins with the prefix of the public address."""
    return format_html(
        '<svg class="ik-icon {}" aria-hidden="true" focusable="false"><use href="{}#{}"/></svg>',
        css_class, static("console/icons.svg"), name,
    )  # fmt: skip


@register.filter
def grouped(number: float | None) -> str:
    """Return a whole number with its digits in groups of three: `18 402 771`."""
    return NOTHING if number is None else f"{int(number):,}".replace(",", _THIN_SPACE)


@register.filter
def trend_rows(rows: Iterable[tuple[datetime, Iterable[float]]]) -> SafeString:
    """Return the rows of the table below a chart. Not a loop in its template: a page has hundreds of them."""
    return format_html_join(
        "",
        '<tr><td class="ik-nowrap">{}</td>{}</tr>',
        (
            (
                f"{at:%Y-%m-%d %H:%M}",
                format_html_join("", '<td class="ik-number">{}</td>', ((grouped(value),) for value in values)),
            )
            for at, values in rows
        ),
    )


@register.filter
def short_count(number: float | None) -> str:
    """Return a number with at most three digits and its unit: `18.4 B`; a dash for None."""
    if number is None:
        return NOTHING
    return _scaled(float(number), 1000.0, _SHORT_UNITS)


@register.filter
def byte_size(number: float | None) -> str:
    """Return a number of bytes with at most three digits, in IEC units: `4.86 TiB`; a dash for None."""
    if number is None:
        return NOTHING
    return _scaled(float(number), 1024.0, tuple(f" {unit}" for unit in _BYTE_UNITS))


def _scaled(number: float, base: float, units: tuple[str, ...]) -> str:
    sign, size, unit = "-" if number < 0 else "", abs(number), 0
    while unit < len(units) - 1 and max(size, float(f"{size:.{_DIGITS}g}")) >= base:
        size /= base
        unit += 1
    text = f"{size:.0f}" if unit == 0 or size >= 10 ** (_DIGITS - 1) else f"{size:.{_DIGITS}g}"
    return f"{sign}{text}{units[unit].replace(' ', _THIN_SPACE)}"


@register.filter
def moment(at: datetime | None) -> SafeString | str:
    """Return a `<time>` element: `8 min ago` or `in 2 h` within 30 days, else the date; the title has it in UTC.

    The script of the console adds the reader's local time to the title, and shows the date of the reader's zone.
    """
    if at is None:
        return NOTHING
    exact = at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), exact, relative_time(at))


def relative_time(at: datetime) -> str:
    seconds = (now() - at).total_seconds()
    age = abs(seconds)
    if age < 1:
        return _("just now")
    if age >= _DAYS_AS_AGE * _DAY:
        return at.strftime("%Y-%m-%d")
    text = _rounded(age)
    return (_("%(time)s ago") if seconds >= 0 else _("in %(time)s")) % {"time": text}


@register.filter
def duration(seconds: float | None) -> str:
    """Return a length of time in its two largest units: `7 d`, `1 d 12 h`, `8 min 5 s`; below 10 s with one decimal."""
    return NOTHING if seconds is None else _duration(float(seconds))


def _rounded(seconds: float) -> str:
    """Return an age in its largest unit, rounded: 59.7 minutes are `1 h`."""
    if round(seconds / _HOUR) >= 24:  # noqa: PLR2004
        return f"{round(seconds / _DAY)} d"
    if round(seconds / _MINUTE) >= 60:  # noqa: PLR2004
        return f"{round(seconds / _HOUR)} h"
    return f"{round(seconds / _MINUTE)} min" if round(seconds) >= _MINUTE else f"{max(1, round(seconds))} s"


def _duration(seconds: float) -> str:
    for (unit, name), (below, name_below) in pairwise(_UNITS):
        if seconds >= unit:
            whole, rest = divmod(int(seconds), unit)
            return f"{whole} {name} {rest // below} {name_below}" if rest >= below else f"{whole} {name}"
    if seconds >= 10 or float(seconds).is_integer():  # noqa: PLR2004
        return f"{int(seconds)} s"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


@register.inclusion_tag("console/parts/copy.html")
def copy(text: Any, what: str, length: int = _SHOWN_CHARACTERS) -> dict[str, Any]:
    """Show a text, shortened to `length` characters, with a button that copies all of it; `what` names the button."""
    return {"text": str(text), "shown": shortened(text, length), "what": what}


@register.filter
def shortened(text: Any, length: int = _SHOWN_CHARACTERS) -> str:
    """Return a text with its middle replaced by an ellipsis if it is longer than `length` characters."""
    whole = str(text)
    if len(whole) <= length:
        return whole
    tail = (length - 1) // 2
    return f"{whole[: length - 1 - tail]}…{whole[-tail:]}"


@register.filter
def delete_window(delete_profile: dict[str, Any]) -> int:
    """Return for how many seconds a dropped table can be restored, from the delete profile of a warehouse."""
    return int(delete_profile.get("expiration-seconds", 0))


@register.filter
def member(document: dict[str, Any] | None, name: str) -> Any:
    """Return a member of a JSON object whose name is no identifier; empty if it has none."""
    return document.get(name, "") if document else ""


@register.filter
def at_most(number: int, limit: int) -> int:
    return min(int(number), int(limit))


@register.filter
def percent(fraction: float) -> str:
    """Return a share from 0 to 1 as whole per cent: `35 %`."""
    return f"{bar_width(fraction)}{_THIN_SPACE}%"


@register.filter
def bar_width(fraction: float) -> int:
    """Return a share from 0 to 1 as the width of a bar that is 100 wide."""
    return round(min(max(float(fraction), 0.0), 1.0) * 100)
