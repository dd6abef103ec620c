"""Lists all settings for `docs/configuration.md` and `show_config`, from their definitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import AnyHttpUrl, BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from icekeeper.conf.environment import group_of
from icekeeper.conf.settings import Settings
from icekeeper.conf.values import DAY
from icekeeper.conf.variables import variable_name


@dataclass(frozen=True)
class Description:
    """One setting in the documentation: variable, accepted values, default and effect."""

    variable: str
    takes: str
    default: str
    effect: str


def describe_settings() -> list[Description]:
    """Return all settings in the order of their definitions."""
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
    dict[str, SecretStr]: "`{name=value,...}`",
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


MASK = "********"


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """One setting: its variable, its value (JSON types), and whether the environment sets it."""

    variable: str
    value: Any
    is_set: bool
    is_secret: bool


def show_settings(settings: Settings) -> list[ShownSetting]:
    """Return all settings in the order of their definitions."""
    return list(_shown(settings, ()))


def _shown(model: BaseModel, path: tuple[str, ...]) -> Iterator[ShownSetting]:
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _shown(value, (*path, name))
            continue
        if isinstance(value, dict) and _is_of_groups(field.annotation):
            for key, group in value.items():
                yield from _shown(group, (*path, name, key))
            continue
        is_secret = "SecretStr" in str(field.annotation)
        shown = (None if value is None else MASK) if is_secret else _plain(value)
        yield ShownSetting(variable_name((*path, name)), shown, name in model.model_fields_set, is_secret)


def _is_of_groups(annotation: Any) -> bool:
    """Return whether a setting has one group for each id, as identity providers do."""
    held = get_args(annotation)[-1:]
    return any(isinstance(each, type) and issubclass(each, BaseModel) for each in held)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, SecretStr):  # an element of a list
        return MASK
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    return _without_password(str(value))


def _without_password(text: str) -> str:
    """Mask the password in a URL."""
    try:
        parts = urlsplit(text)
        password = parts.password
    except ValueError:
        return text
    return text if password is None else text.replace(parts.netloc, f"{MASK}@{parts.netloc.rpartition('@')[2]}", 1)
