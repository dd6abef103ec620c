"""Fixtures of tests about rights: who decides is the built-in evaluator, and callers go by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz import port
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.securables import Ref
from tenancy.identity import Identity
from tests.authz.trees import make_tree
from tests.management.asking import use_settings
from tests.named_callers import CallerClient, NamedCallers


@pytest.fixture
def builtin(monkeypatch: pytest.MonkeyPatch, storage_root: object) -> Iterator[BuiltinAuthorizer]:
    """The built-in evaluator decides."""
    use_settings(monkeypatch, authz_backend="builtin")
    port.authorizer.cache_clear()
    chosen = port.authorizer()
    assert isinstance(chosen, BuiltinAuthorizer)
    yield chosen
    port.authorizer.cache_clear()


def person(name: str, *roles: str) -> Actor:
    """Somebody as their token says who they are."""
    identity = Identity(f"oidc~{name}", "oidc", "human", name.title(), f"{name}@example.com", roles)
    return Actor(user_id=identity.user_id, identity=identity)


@pytest.fixture
def tree(warehouse: Warehouse) -> dict[str, Ref]:
    """What `tests.authz.trees.make_tree` makes."""
    return make_tree(warehouse)


@pytest.fixture
def client(callers: NamedCallers, warehouse: Warehouse) -> Callable[[str], CallerClient]:
    """What the person of that name calls the catalog with, below the warehouse's address."""

    def of(name: str) -> CallerClient:
        callers.person(name)
        return CallerClient(f"/catalog/v1/{warehouse.pk}", name)

    return of
