"""Fixtures: the built-in evaluator, and users of the console with different grants."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz import port
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tests.authz.tree_fixtures import give
from tests.console.visitor import Visitor
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.management.warehouse_request_fixtures import keep_secrets, use_settings

Visit = Callable[..., Visitor]


@pytest.fixture
def builtin(monkeypatch: pytest.MonkeyPatch, storage_root: object) -> Iterator[BuiltinAuthorizer]:
    use_settings(monkeypatch, authz_backend="builtin", skip_storage_validation=False)
    keep_secrets(monkeypatch)
    port.authorizer.cache_clear()
    chosen = port.authorizer()
    assert isinstance(chosen, BuiltinAuthorizer)
    yield chosen
    port.authorizer.cache_clear()


@pytest.fixture
def catalog(warehouse: Warehouse, builtin: BuiltinAuthorizer, callers: NamedCallers) -> CallerClient:
    """An engine that may do everything in the default project."""
    engine = Actor(user_id=callers.user("engine"))
    give("project_admin", ObjectRef(Securable.Type.PROJECT, get_project(None).pk), engine)
    builtin.clear_caches()
    return CallerClient(f"/catalog/v1/{warehouse.pk}", "engine")


@pytest.fixture
def visit(warehouse: Warehouse, builtin: BuiltinAuthorizer) -> Visit:
    """Sign a user in, with a privilege on the default project, or on the warehouse with `on="warehouse"`."""

    def sign_in(name: str, privilege: str | None = None, *, on: str = "project") -> Visitor:
        visitor = Visitor(name)
        if privilege is not None:
            ref: ObjectRef = (
                ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk)
                if on == "warehouse"
                else ObjectRef(Securable.Type.PROJECT, get_project(None).pk)
            )
            give(privilege, ref, Actor(user_id=visitor.user_id))
            builtin.clear_caches()
        return visitor

    return sign_in
