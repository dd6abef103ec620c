"""`storage-layout`: how the folders of namespaces and tables are named: see `storage.profiles.default_locations`."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from storage.documents import StorageDocument

MAX_TEMPLATE_LENGTH = 256
_PLACEHOLDERS = ("{uuid}", "{name}")


def _template(text: str) -> str:
    """One path segment with at least one of the placeholders `{uuid}` and `{name}`."""
    if not any(placeholder in text for placeholder in _PLACEHOLDERS):
        raise ValueError("must hold {uuid} or {name}")
    literal = text.replace("{uuid}", "").replace("{name}", "")
    if not re.fullmatch(r"[A-Za-z0-9_.~=+@ -]*", literal):
        raise ValueError("may hold letters, digits, -_.~=+@ and spaces around {uuid} and {name}")
    return text


def _with_uuid(text: str) -> str:
    if "{uuid}" not in text:
        raise ValueError("must hold {uuid}: without namespaces in the path only that keeps tables apart")
    return text


Template = Annotated[str, Field(max_length=MAX_TEMPLATE_LENGTH), AfterValidator(_template)]


class DefaultLayout(StorageDocument):
    """A folder for each table, right below the base of the warehouse, named by its UUID."""

    type: Literal["default"]


class TabularOnlyLayout(StorageDocument):
    """A folder for each table, right below the base of the warehouse."""

    type: Literal["tabular-only"]
    tabular: Annotated[Template, AfterValidator(_with_uuid)] = Field(
        description="Name of a table's folder; {uuid} must be in it, {name} may"
    )


class FullHierarchyLayout(StorageDocument):
    """A folder for each level of a namespace, and one for the table in it."""

    type: Literal["full-hierarchy"]
    namespace: Template = Field(description="Name of the folder of one level; {uuid} or {name} must be in it")
    tabular: Template = Field(description="Name of a table's folder; {uuid} or {name} must be in it")


StorageLayout = Annotated[DefaultLayout | TabularOnlyLayout | FullHierarchyLayout, Field(discriminator="type")]
