"""Every setting as `docs/configuration.md` shows it, from its definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AnyHttpUrl, BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from icekeeper.env import Settings, variable_name
from icekeeper.setting_fields import group_of
from icekeeper.setting_values import DAY


@dataclass(frozen=True)
class Description:
    """One setting as people read it: the variable, what it takes, its default, what it does."""

    variable: str
    takes: str
    default: str
    effect: str


def describe_settings() -> list[Description]:
    """In the order of their definitions."""
    return list(_descriptions(Settings, ()))


def _descriptions(model: type[BaseModel], above: tuple[str, ...]) -> Iterator[Description]:
    for name, field in model.model_fields.items():
        path = (*above, name)
        group, is_keyed = group_of(field)
        if group is not None:
            yield from _descriptions(group, (*path, "<id>") if is_keyed else path)
        else:
            yield Description(variable_name(path), _takes(field), _default(field), field.description or "")


_TAKES: dict[Any, str] = {
    bool: "`true`, `false`",
    int: "number",
    str: "text",
    Path: "path",
    float: "duration",
    SecretStr: "secret text",
    list[str]: "list",
    AnyHttpUrl: "address",
}


def _takes(field: FieldInfo) -> str:
    annotation: Any = field.annotation
    if get_origin(annotation) in {Union, UnionType}:
        annotation = next(each for each in get_args(annotation) if each is not type(None))
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    if get_origin(annotation) is list:
        annotation = list[str]
    # A setting of a new type must be given a name here.
    return str(_TAKES[annotation])


def _default(field: FieldInfo) -> str:
    value = field.default
    if field.default_factory is not None:
        return "number of cores"
    if value is None or value == [] or value is PydanticUndefined:
        return ""
    if isinstance(value, list):
        return f"`{','.join(value)}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value / DAY:g}d`" if value % DAY == 0 else f"`{value:g}s`"
    return f"`{value}`"
