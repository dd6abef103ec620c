"""Shapes that say which table, view or generic table is meant."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from catalog.models import Tabular
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.serializers import KebabSerializer, Text
from icekeeper.kernel.ids import parse_id

KINDS = Tabular.Kind.values
NO_TABULAR = "`NoSuchTableException`, `NoSuchViewException`, `NoSuchGenericTableException`"


@extend_schema_field(OpenApiTypes.UUID)
class IdText(Text):
    """A UUID in its canonical form."""


class TabularIdentUuid(KebabSerializer):
    """A table, view or generic table."""

    type = serializers.ChoiceField(KINDS)
    id = IdText(help_text="As clients know it: of a table its `table-uuid`")


def named(given: dict[str, Any], where: str) -> tuple[Tabular.Kind, UUID]:
    """What a checked `TabularIdentUuid` names."""
    return Tabular.Kind(given["type"]), required_id(given["id"], f"{where}.id")


def required_id(text: str, where: str) -> UUID:
    """Raises `BadRequest` for what is no UUID."""
    parsed = parse_id(text)
    if parsed is None:
        raise BadRequest(f"{where}: {text[:100]!r} is not a UUID")
    return parsed
