"""Names of the types of objects in requests, responses and exports."""

from __future__ import annotations

from tenancy.models import Securable


def resource_type(securable_type: Securable.Type) -> str:
    """Return the name of a type of objects in requests and responses."""
    return "tag-definition" if securable_type is Securable.Type.TAG else securable_type.value
