"""The filter of an event sink in forms: chosen projects and warehouses, namespaces and types as lines."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import QueryDict
from django.utils.translation import gettext as _

from events.outbox import EventFilter
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.ids import parse_id
from management.admin.form_pages import MAX_TEXT_LENGTH
from management.admin.level_text import join_levels, split_levels
from management.admin.warehouse_choice import list_warehouses_by_project
from tenancy.actor import Actor

Options = list[tuple[str, str, bool]]


def filter_fields(actor: Actor, stored: EventFilter, entered: QueryDict | None) -> dict[str, Any]:
    """Return what the template shows: the options, and the lines. What was deleted keeps an option while it is stored.

    Two statements.
    """
    found = list_warehouses_by_project(actor)
    projects = stored.projects if entered is None else tuple(entered.getlist("projects"))
    warehouses = tuple(map(str, stored.warehouses)) if entered is None else tuple(entered.getlist("warehouses"))
    namespaces, types = "\n".join(map(join_levels, stored.namespaces)), "\n".join(stored.types)
    return {
        "project_options": _options({each.pk: each.name for each, _ in found.projects}, projects, stored.projects),
        "warehouse_options": _options(
            {
                str(each.pk): f"{project.name} / {each.name}"
                for project, warehouses_of_project in found.projects
                for each in warehouses_of_project
            },
            warehouses,
            tuple(map(str, stored.warehouses)),
        ),
        "namespaces": namespaces if entered is None else entered.get("namespaces", ""),
        "types": types if entered is None else entered.get("types", ""),
    }


def read_filter(given: QueryDict) -> EventFilter:
    """Return the filter in a form. Raises `BadRequest` with the field."""
    return EventFilter(
        projects=tuple(given.getlist("projects")),
        warehouses=tuple(_read_id(each) for each in given.getlist("warehouses")),
        namespaces=tuple(split_levels(each) for each in _lines(given, "namespaces")),
        types=tuple(_lines(given, "types")),
    )


def filter_facts(actor: Actor, stored: EventFilter) -> dict[str, list[str]]:
    """Return the values of a filter as texts, with names where the actor sees them; no kind without values."""
    shown = filter_fields(actor, stored, None)
    facts = {
        _("Projects"): [text for _value, text, is_chosen in shown["project_options"] if is_chosen],
        _("Warehouses"): [text for _value, text, is_chosen in shown["warehouse_options"] if is_chosen],
        _("Namespaces"): [join_levels(each) for each in stored.namespaces],
        _("Types"): list(stored.types),
    }
    return {label: values for label, values in facts.items() if values}


def _options(names: dict[str, str], chosen: tuple[str, ...], stored: tuple[str, ...]) -> Options:
    known = {**names, **{each: each for each in stored if each not in names}}
    return [(value, text, value in chosen) for value, text in known.items()]


def _read_id(text: str) -> UUID:
    found = parse_id(text)
    if found is None:
        raise BadRequest(_("Must be some of the choices"), field="warehouses")
    return found


def _lines(given: QueryDict, name: str) -> list[str]:
    return [line for each in given.get(name, "")[:MAX_TEXT_LENGTH].splitlines() if (line := each.strip())]
