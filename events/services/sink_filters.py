"""Validation of the filters of sinks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from events.cloud_events import TYPES_DOCUMENT
from events.outbox import EventFilter
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.names import require_name
from storage.models import Warehouse
from tenancy.changes.kinds import Change
from tenancy.models import Project

MAX_FILTER_VALUES: Final = 100
"""Values of each kind in a filter."""
MAX_LEVELS: Final = 32
"""Levels of a namespace in a filter."""

EVENT_TYPES: Final = frozenset(each.value.event_type for each in Change)
"""Types of all events in the outbox."""


def require_valid_filter(event_filter: EventFilter, *, known: EventFilter | None = None) -> None:
    """Raise `BadRequest`, with the member, for too many values, unknown types, projects or warehouses, and impossible
    names of namespaces.

    Projects and warehouses of `known`, the stored filter, may have been deleted. Two statements.
    """
    known = known or EventFilter()
    for kind in ("projects", "warehouses", "namespaces", "types"):
        if len(getattr(event_filter, kind)) > MAX_FILTER_VALUES:
            raise BadRequest(f"filter.{kind}: at most {MAX_FILTER_VALUES} values", field=kind)
    for index, each in enumerate(event_filter.types):
        if each not in EVENT_TYPES:
            raise BadRequest(
                f"filter.types[{index}]: {each[:64]!r} is not a type of events: {TYPES_DOCUMENT} lists them",
                field="types",
            )
    for index, levels in enumerate(event_filter.namespaces):
        _require_levels(levels, f"filter.namespaces[{index}]")
    projects = {*known.projects, *_existing(Project, event_filter.projects)}
    _require_all(event_filter.projects, projects, "projects")
    warehouses = {*known.warehouses, *_existing(Warehouse, event_filter.warehouses)}
    _require_all(event_filter.warehouses, warehouses, "warehouses")


def _require_levels(levels: tuple[str, ...], where: str) -> None:
    if not 0 < len(levels) <= MAX_LEVELS:
        raise BadRequest(f"{where}: must have from 1 to {MAX_LEVELS} levels", field="namespaces")
    for level in levels:
        require_name(level, where)


def _existing(model: type[Project | Warehouse], ids: tuple[object, ...]) -> Iterable[object]:
    storable = [each for each in ids if "\0" not in str(each)]
    return model.objects.filter(pk__in=storable).values_list("pk", flat=True) if storable else ()


def _require_all(wanted: tuple[object, ...], known: set[object], kind: str) -> None:
    for index, each in enumerate(wanted):
        if each not in known:
            raise BadRequest(f"filter.{kind}[{index}]: {str(each)[:100]!r} does not exist", field=kind)
