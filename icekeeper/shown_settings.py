"""The settings of a deployment as an operator may see them: every value but those of secrets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from icekeeper.env import Settings, variable_name

MASK = "********"


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """One setting: the variable that sets it, its value (JSON's own types), whether the environment sets it."""

    variable: str
    value: Any
    is_set: bool
    is_secret: bool


def show_settings(settings: Settings) -> list[ShownSetting]:
    """Every setting, in the order of their definitions."""
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
    """Whether a setting holds groups of settings under names of the operator's own, as identity providers are."""
    held = get_args(annotation)[-1:]
    return any(isinstance(each, type) and issubclass(each, BaseModel) for each in held)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, SecretStr):  # in a list, or of a type that does not say so
        return MASK
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    return _without_password(str(value))


def _without_password(text: str) -> str:
    """Addresses may carry a password of their own."""
    try:
        parts = urlsplit(text)
        password = parts.password
    except ValueError:
        return text
    return text if password is None else text.replace(parts.netloc, f"{MASK}@{parts.netloc.rpartition('@')[2]}", 1)
