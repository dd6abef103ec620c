"""Fixtures of change rules: rules of the warehouse, and clients of both APIs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from catalog.models import ChangeRule
from catalog.selectors.change_rules import RuleScope
from catalog.services.change_rules import RuleContent, create_change_rule
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.models import Securable
from tests.harness.wsgi_client import ApiClient

CreateRule = Callable[..., ChangeRule]


@pytest.fixture
def create_rule(warehouse: Warehouse) -> CreateRule:
    """Create a rule, by default of the warehouse."""

    def create(kind: str, configuration: dict[str, Any], *, scope: RuleScope | None = None, **more: Any) -> ChangeRule:
        content = RuleContent(**({"name": f"the {kind} rule", "configuration": configuration} | more))
        where = scope or RuleScope(Securable.Type.WAREHOUSE, str(warehouse.pk))
        return create_change_rule(actor=INTERNAL, scope=where, kind=kind, content=content)

    return create


@pytest.fixture
def rules() -> ApiClient:
    return ApiClient("/management/v1/change-rules")


@pytest.fixture
def manage(warehouse: Warehouse) -> ApiClient:
    return ApiClient(f"/management/v1/warehouse/{warehouse.pk}")


@pytest.fixture
def generic(warehouse: Warehouse) -> ApiClient:
    return ApiClient(f"/lakekeeper/v1/{warehouse.pk}")


@pytest.fixture
def table_scope(warehouse: Warehouse) -> Callable[[str], RuleScope]:
    """Return the scope of a table with this UUID."""
    return lambda uuid: RuleScope(Securable.Type.TABLE, uuid, UUID(str(warehouse.pk)))
