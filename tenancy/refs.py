"""What rights are granted on, as it is spoken of: the type and the object's own id, or both in one text."""

from __future__ import annotations

from tenancy.models import Securable

Ref = tuple[Securable.Type, object]


def securable_id(securable_type: Securable.Type, object_id: object) -> str:
    return f"{securable_type.value}:{object_id}"
