"""Fixtures of authorization tests: the built-in evaluator decides, and callers are identified by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from catalog.models import Namespace, Tabular
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL, Actor, Identity
from tenancy.authz import port
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.models import Grant, Securable, Server, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tenancy.services.projects import create_project
from tests.authz.batch_check_fixtures import WITH_ERRORS, Ask
from tests.authz.permission_fixtures import Things
from tests.authz.tree_fixtures import T, create_tree, give, role
from tests.authz.view_owner_fixtures import Lake, engine, trust
from tests.catalog_fixtures import SCHEMA
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.prepared import Prepared
from tests.harness.wsgi_client import Response
from tests.management.warehouse_request_fixtures import use_settings


@pytest.fixture
def builtin(monkeypatch: pytest.MonkeyPatch, storage_root: object) -> Iterator[BuiltinAuthorizer]:
    """Select the built-in evaluator."""
    use_settings(monkeypatch, authz_backend="builtin")
    port.authorizer.cache_clear()
    chosen = port.authorizer()
    assert isinstance(chosen, BuiltinAuthorizer)
    yield chosen
    port.authorizer.cache_clear()


def user(name: str, *roles: str) -> Actor:
    """Return the user as identified by the token."""
    identity = Identity(f"oidc~{name}", "oidc", "human", name.title(), f"{name}@example.com", roles)
    return Actor(user_id=identity.user_id, identity=identity)


@pytest.fixture
def tree(warehouse: Warehouse) -> dict[str, ObjectRef]:
    """The tree of `tests.authz.tree_fixtures.create_tree`."""
    return create_tree(warehouse)


@pytest.fixture
def client(callers: NamedCallers, warehouse: Warehouse) -> Callable[[str], CallerClient]:
    """Return a client of the catalog API for the user of that name, with paths relative to the warehouse."""

    def of(name: str) -> CallerClient:
        callers.user(name)
        return CallerClient(f"/catalog/v1/{warehouse.pk}", name)

    return of


@pytest.fixture
def root(client: Callable[[str], CallerClient], builtin: BuiltinAuthorizer, prepared: Prepared) -> CallerClient:
    """A user with every permission in the default project, who creates the objects that the tests check access to."""
    created = client("root")
    project = ObjectRef(Securable.Type.PROJECT, get_project(None).pk)
    prepared.create_or_copy("root", lambda: give("project_admin", project, user("root")))
    return created


@pytest.fixture
def lake(root: CallerClient, prepared: Prepared) -> dict[str, ObjectRef]:
    """The namespaces `open`, `closed` and `closed.deep`, each with tables `a` and `b`, a view and a generic table."""
    prepared.create_or_copy("lake", lambda: create_lake(root))
    found: dict[str, ObjectRef] = {
        ".".join(each.levels): ObjectRef(Securable.Type.NAMESPACE, each.pk) for each in Namespace.objects.all()
    }
    for row in Tabular.objects.select_related("namespace"):
        found[".".join((*row.namespace.levels, row.name))] = ObjectRef(Securable.Type(row.kind), row.pk)
    return found


def create_lake(root: CallerClient) -> None:
    for levels in (["open"], ["closed"], ["closed", "deep"]):
        good(root.post("/namespaces", {"namespace": levels}))
        at = f"/namespaces/{'%1F'.join(levels)}"
        for name in ("a", "b"):
            good(root.post(f"{at}/tables", {"name": name, "schema": SCHEMA}))
        good(root.post(f"{at}/views", {"name": "v", **VIEW}))
        generic = CallerClient(root.base.replace("/catalog", "/lakekeeper"), "root")
        good(generic.post(f"{at}/generic-tables", {"name": "g", "format": "lance"}))


@pytest.fixture
def things(warehouse: Warehouse, lake: dict[str, ObjectRef], callers: NamedCallers) -> Things:
    """One object of each type with privileges, and clients for its users."""
    return Things(warehouse, lake, callers)


@pytest.fixture
def table(root: CallerClient, builtin: BuiltinAuthorizer) -> Tabular:
    """The table `t` in the namespace `ns`, both without grants."""
    good(root.post("/namespaces", {"namespace": ["ns"]}))
    good(root.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}))
    Grant.objects.filter(securable__type__in=["namespace", "table"]).delete()
    builtin.clear_caches()
    return Tabular.objects.get()


@pytest.fixture
def refs(lake: dict[str, ObjectRef], root: CallerClient) -> dict[Securable.Type, ObjectRef]:
    """One object of each type in the namespace `open`, without the grants of its creator.

    Ann and Bob are registered.
    """
    User.objects.bulk_create(User(id=f"oidc~{name}", name=name) for name in ("ann", "bob"))
    tag = CallerClient("/management/v1/tag-definition", "root").post(
        "", {"name": "pii", "scope": ["table"], "value-kind": "marker"}
    )
    assert tag.status == 201, tag.body
    Grant.objects.exclude(privilege="project_admin").delete()
    return {
        T.SERVER: ObjectRef(T.SERVER, Server.objects.get().server_id),
        T.PROJECT: ObjectRef(T.PROJECT, get_project(None).pk),
        T.WAREHOUSE: ObjectRef(T.WAREHOUSE, Warehouse.objects.get().pk),
        T.NAMESPACE: lake["open"],
        T.TABLE: lake["open.a"],
        T.VIEW: lake["open.v"],
        T.GENERIC_TABLE: lake["open.g"],
        T.ROLE: ObjectRef(T.ROLE, role("team").pk),
        T.TAG: ObjectRef(T.TAG, UUID(tag.json()["id"])),
    }


@pytest.fixture
def manage(callers: NamedCallers) -> Callable[[str], CallerClient]:
    """Return a client of the management API for the user of that name."""

    def of(name: str) -> CallerClient:
        callers.user(name)
        return CallerClient("/management/v1", name)

    return of


@pytest.fixture
def ask(manage: Callable[[str], CallerClient]) -> Ask:
    """Send batch checks."""

    def ask(name: str, *checks: Any, **more: Any) -> Response:
        return manage(name).post("/action/batch-check", {"checks": list(checks), **more}, **WITH_ERRORS)

    return ask


@pytest.fixture
def chief(refs: dict[Securable.Type, ObjectRef], manage: Callable[[str], CallerClient]) -> CallerClient:
    """An instance administrator with every permission in every project."""
    give("operator", refs[T.SERVER], user("chief"))
    return manage("chief")


@pytest.fixture
def elsewhere(storage_root: Path, bootstrapped: None) -> Warehouse:
    """A warehouse of the project `other`."""
    project = create_project(actor=INTERNAL, name="other", project_id="other")
    profile = {"type": "local", "path": str(storage_root / "far")}
    return create_warehouse(actor=INTERNAL, project=project, name="far", storage_profile=profile)


def good(response: Response) -> Response:
    assert response.status in {200, 201, 204}, response.body
    return response


VIEW: dict[str, Any] = {
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
def world(
    monkeypatch: pytest.MonkeyPatch, warehouse: Warehouse, callers: NamedCallers, lake: dict[str, ObjectRef]
) -> Lake:
    """`lake` with an engine that is trusted to read through views."""
    trust(monkeypatch, trino=engine())
    return Lake(warehouse, callers, lake)
