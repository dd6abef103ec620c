"""Fixtures of tests about rights: who decides is the built-in evaluator, and callers go by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from catalog.models import Namespace, Tabular
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz import port
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.securables import Ref
from tenancy.identity import Identity
from tenancy.models import Securable
from tenancy.selectors.projects import get_project
from tests.authz.permissions import Things
from tests.authz.trees import give, make_tree
from tests.authz.view_owners import Lake, engine, trust
from tests.catalog_fixtures import SCHEMA
from tests.management.asking import use_settings
from tests.named_callers import CallerClient, NamedCallers
from tests.wsgi_client import Answer


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


@pytest.fixture
def root(client: Callable[[str], CallerClient], builtin: BuiltinAuthorizer) -> CallerClient:
    """Who may do everything in the default project, and so makes what the others are judged by."""
    made = client("root")
    give("project_admin", (Securable.Type.PROJECT, get_project(None).pk), person("root"))
    return made


@pytest.fixture
def lake(root: CallerClient) -> dict[str, Ref]:
    """The namespaces `open`, `closed` and `closed.deep`, each with tables `a` and `b`, a view and a generic table."""
    for levels in (["open"], ["closed"], ["closed", "deep"]):
        good(root.post("/namespaces", {"namespace": levels}))
        at = f"/namespaces/{'%1F'.join(levels)}"
        for name in ("a", "b"):
            good(root.post(f"{at}/tables", {"name": name, "schema": SCHEMA}))
        good(root.post(f"{at}/views", {"name": "v", **VIEW}))
        generic = CallerClient(root.base.replace("/catalog", "/lakekeeper"), "root")
        good(generic.post(f"{at}/generic-tables", {"name": "g", "format": "lance"}))
    found: dict[str, Ref] = {
        ".".join(each.levels): (Securable.Type.NAMESPACE, each.pk) for each in Namespace.objects.all()
    }
    for row in Tabular.objects.select_related("namespace"):
        found[".".join((*row.namespace.levels, row.name))] = (Securable.Type(row.kind), row.pk)
    return found


@pytest.fixture
def things(warehouse: Warehouse, lake: dict[str, Ref], callers: NamedCallers) -> Things:
    """One object of each type that rights are granted on, and who calls about them."""
    return Things(warehouse, lake, callers)


def good(answer: Answer) -> Answer:
    assert answer.status in {200, 201, 204}, answer.body
    return answer


VIEW = {
    "schema": SCHEMA | {"schema-id": 0},
    "view-version": {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {"engine-name": "spark"},
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
        "default-namespace": [],
    },
    "properties": {},
}


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch, warehouse: Warehouse, callers: NamedCallers, lake: dict[str, Ref]) -> Lake:
    """`lake` with an engine that is trusted with views."""
    trust(monkeypatch, trino=engine())
    return Lake(warehouse, callers, lake)
