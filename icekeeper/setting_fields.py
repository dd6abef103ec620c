"""Where in the settings a variable belongs: settings may hold groups of settings, some under ids of the operator's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo


def group_of(field: FieldInfo) -> tuple[type[BaseModel] | None, bool]:
    """The settings that a field holds, and whether it holds them under ids of the operator's choice."""
    annotation: Any = field.annotation
    is_keyed = get_origin(annotation) is dict
    if is_keyed:
        annotation = get_args(annotation)[1]
    is_group = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return (annotation if is_group else None), is_keyed


def is_group(path: Sequence[str], model: type[BaseModel]) -> bool:
    """Whether `path` names a group of settings, or the group of the ids that such groups stand under."""
    field = model.model_fields.get(path[0]) if path else None
    if field is None:
        return False
    group, is_keyed = group_of(field)
    if group is None:
        return False
    below = path[1 + is_keyed :]
    return not below or is_group(below, group)


def entry_of(path: Sequence[str], model: type[BaseModel]) -> tuple[str, ...]:
    """The part of `path` up to its last id of the operator's choice; empty when it has none."""
    field = model.model_fields.get(path[0]) if path else None
    group, is_keyed = (None, False) if field is None else group_of(field)
    above = 1 + is_keyed
    if group is None or len(path) < above:
        return ()
    below = entry_of(path[above:], group)
    return (*path[:above], *below) if is_keyed or below else ()


def place(values: dict[str, Any], path: Sequence[str], value: object, model: type[BaseModel]) -> bool:
    """Put `value` where `path` points; False, with `values` as they were, when there is no such setting."""
    if depth_of(path, model) != len(path):
        return False
    *above, last = path
    for name in above:
        values = values.setdefault(name, {})
    values[last] = value
    return True


def depth_of(path: Sequence[str], model: type[BaseModel]) -> int:
    """How much of `path` names a setting, with the groups and ids that it stands below; 0 when there is none.

    What is left of a longer path is inside the setting.
    """
    field = model.model_fields.get(path[0]) if path else None
    if field is None:
        return 0
    group, is_keyed = group_of(field)
    if group is None:
        return 1
    above = 1 + is_keyed
    below = depth_of(path[above:], group)
    return above + below if below else 0
