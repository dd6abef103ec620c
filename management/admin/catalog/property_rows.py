"""The form of properties: a row for each with its value, and rows for new ones; what the user changed in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from django.http import QueryDict
from django.utils.translation import gettext as _

from icekeeper.kernel.errors.types import BadRequest

MAX_ROWS: Final = 200
"""Properties of one form. Django reads at most 1,000 fields."""
NEW_ROWS: Final = 3
MAX_VALUE_LENGTH: Final = 10_000
"""Characters of a value that the form changes."""


@dataclass(frozen=True, slots=True)
class PropertyRow:
    """A row of the form. `before` is the value that the form showed, None for a new property.

    `stored` is set when another user changed it meanwhile: the value by now.
    """

    index: int
    name: str = ""
    value: str = ""
    before: str | None = None
    is_removed: bool = False
    stored: str | None = None


@dataclass(frozen=True, slots=True)
class PropertyEdits:
    """What the user changed; `expected` are the values that the form showed of these."""

    updates: dict[str, str] = field(default_factory=dict)
    removals: list[str] = field(default_factory=list)
    expected: dict[str, str | None] = field(default_factory=dict)


def is_editable(value: str) -> bool:
    """Return whether a form can show a value and send it back unchanged."""
    return len(value) <= MAX_VALUE_LENGTH and "\r" not in value


def rows_of(properties: Mapping[str, str]) -> list[PropertyRow]:
    """Return the rows of the first properties, and empty ones for new properties."""
    shown = [(name, value) for name, value in sorted(properties.items()) if is_editable(value)][:MAX_ROWS]
    rows = [PropertyRow(index, name, value, value) for index, (name, value) in enumerate(shown)]
    return [*rows, *(PropertyRow(len(rows) + number) for number in range(NEW_ROWS))]


def entered_rows(given: QueryDict) -> list[PropertyRow]:
    """Return the rows of a form as the user sent them."""
    return [
        PropertyRow(
            index,
            given.get(f"name-{index}", ""),
            _normalized(given.get(f"value-{index}", "")),
            None if f"before-{index}" not in given else _normalized(given.get(f"before-{index}", "")),
            f"remove-{index}" in given,
        )
        for index in range(MAX_ROWS + NEW_ROWS)
        if f"name-{index}" in given
    ]


def read_edits(rows: list[PropertyRow]) -> PropertyEdits:
    """Return the changes in the rows. Raises `BadRequest` for a value without a name, and for a name that is twice."""
    edits, names = PropertyEdits(), set[str]()
    for row in rows:
        name = row.name if row.before is not None else row.name.strip()
        if not name:
            if row.value:
                raise BadRequest(_("A new property needs a name"))
            continue
        if name in names:
            raise BadRequest(_("The property %(name)s is twice in the form") % {"name": name})
        names.add(name)
        if row.is_removed and row.before is not None:
            edits.removals.append(name)
        elif row.value != row.before:
            edits.updates[name] = row.value
        else:
            continue
        edits.expected[name] = row.before
    return edits


def merged_rows(rows: list[PropertyRow], properties: Mapping[str, str]) -> list[PropertyRow]:
    """Return the rows of a form that was overtaken: what the user changed, next to the values that are stored now."""
    changed = {row.name: row for row in rows if row.name and (row.is_removed or row.value != row.before)}
    shown: list[PropertyRow] = []
    for row in rows_of(properties):
        entered = changed.pop(row.name, None) if row.name else None
        if entered is None or row.before is None:
            shown.append(PropertyRow(len(shown), row.name, row.value, row.before))
            continue
        stored = row.before if entered.before != row.before else None
        shown.append(PropertyRow(len(shown), row.name, entered.value, row.before, entered.is_removed, stored))
    for entered in changed.values():
        if not entered.is_removed:
            stored = None if entered.before is None else _("removed")
            shown.append(PropertyRow(len(shown), entered.name, entered.value, None, stored=stored))
    return shown


def _normalized(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\0", "")
