"""Prometheus' text format, version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/"""

from __future__ import annotations

from collections.abc import Iterable

from icekeeper.kernel.meters import Series

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def expose(numbers: Iterable[tuple[Series, float]]) -> str:
    """The page: each name once with its description and kind, then its series in the order in which they come."""
    families: dict[str, list[str]] = {}
    for series, number in numbers:
        lines = families.setdefault(
            series.name, [f"# HELP {series.name} {series.description}", f"# TYPE {series.name} {series.kind}"]
        )
        labels = ",".join(f'{label}="{value}"' for label, value in series.labels.items())
        lines.append(f"{series.name}{{{labels}}} {_text(number)}" if labels else f"{series.name} {_text(number)}")
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


def _text(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else repr(float(number))
