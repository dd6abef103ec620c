"""Builders of grant changes in the format of the grants API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tests.authz.tree_fixtures import T

Refs = dict[Securable.Type, ObjectRef]
KINDS = [T.SERVER, T.PROJECT, T.WAREHOUSE, T.NAMESPACE, T.TABLE, T.VIEW, T.GENERIC_TABLE, T.TAG]
LEAST = {T.SERVER: "admin", T.PROJECT: "describe", T.TAG: "apply"}
"""A privilege of each type that shows its objects; `describe` of the others."""

MOST = {T.SERVER: "operator", T.PROJECT: "project_admin", T.TAG: "ownership"}
LATER = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
ANN: dict[str, Any] = {"user": "oidc~ann"}


def least(kind: Securable.Type) -> str:
    return LEAST.get(kind, "describe")


def entry(privilege: str, principal: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"privilege": privilege, "principal": ANN if principal is None else principal, **more}
