"""The number of requests to OpenFGA per page: none for items if the caller may list everything, else as few as
possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from catalog.models import Namespace, Tabular
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.authz.openfga.store import openfga_store
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tenancy.services.roles import create_role
from tests.authz.conftest import VIEW, user
from tests.authz.parity.pair_fixtures import another_user, grant
from tests.catalog_fixtures import SCHEMA
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.openfga_fixtures import choose_openfga, deliver_as_recorded

pytestmark = pytest.mark.django_db

T = Securable.Type
MANY = 10
MAX_BATCH = 3
"""Questions in one request."""

BOB = user("bob")
KINDS = {
    T.TABLE: ("/catalog", "tables"),
    T.VIEW: ("/catalog", "views"),
    T.GENERIC_TABLE: ("/lakekeeper", "generic-tables"),
}
BODIES: dict[Securable.Type, dict[str, Any]] = {
    T.TABLE: {"schema": SCHEMA},
    T.VIEW: VIEW,
    T.GENERIC_TABLE: {"format": "lance"},
}


@pytest.fixture(autouse=True)
def small_batches(by_openfga: object, monkeypatch: pytest.MonkeyPatch, callers: NamedCallers) -> None:
    """OpenFGA as the authorizer, with at most `MAX_BATCH` checks per request; alice and bob are registered."""
    choose_openfga(monkeypatch, max_batch_check_size=MAX_BATCH)
    for name in ("maker", "bob", "alice"):
        callers.user(name)
        another_user(f"oidc~{name}")


@pytest.fixture
def maker(warehouse: Warehouse) -> CallerClient:
    """The owner of the warehouse, which contains the namespace `n`."""
    allow("maker", "ownership", ObjectRef(T.WAREHOUSE, warehouse.pk))
    created = CallerClient(f"/catalog/v1/{warehouse.pk}", "maker")
    assert created.post("/namespaces", {"namespace": ["n"]}).status == 200
    deliver_as_recorded(openfga_store())
    return created


def allow(name: str, privilege: str, *refs: ObjectRef) -> None:
    for ref in refs:
        grant(ref, privilege, user_id=f"oidc~{name}")
    deliver_as_recorded(openfga_store())


def requests_for(requests_sent: list[str], ask: Callable[[], Sequence[Any]], shown: int) -> int:
    """Return the number of requests to OpenFGA of the second call, when store and model are cached."""
    ask()
    requests_sent.clear()
    assert len(ask()) == shown
    assert set(requests_sent) <= {"batch-check"}
    return len(requests_sent)


def batches(items: int) -> int:
    return math.ceil(items / MAX_BATCH)


def listing(base: str, target: str, member: str) -> Callable[[str], Callable[[], Sequence[Any]]]:
    """Return what the caller lists: nothing without permission."""

    def of(name: str) -> Callable[[], Sequence[Any]]:
        def ask() -> Sequence[Any]:
            response = CallerClient(base, name).get(target)
            assert response.status in {200, 404}, response.body
            found: Sequence[Any] = response.json()[member] if response.status == 200 else []
            return found

        return ask

    return of


def require_costs(
    requests_sent: list[str],
    asks: Callable[[str], Callable[[], Sequence[Any]]],
    refs: Sequence[ObjectRef],
    *,
    before: int,
    everything: int,
) -> None:
    """`maker` sees every item; bob first only the last one, then all but the first.

    `before` requests check the list itself.
    """
    assert requests_for(requests_sent, asks("maker"), len(refs)) == everything
    allow("bob", "describe", refs[-1])
    assert requests_for(requests_sent, asks("bob"), 1) == before + 1
    allow("bob", "describe", *refs[1:-1])
    assert requests_for(requests_sent, asks("bob"), len(refs) - 1) == before + batches(len(refs) - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_contents_of_a_namespace(
    maker: CallerClient, warehouse: Warehouse, requests_sent: list[str], kind: Securable.Type
) -> None:
    base, route = KINDS[kind]
    at = f"{base}/v1/{warehouse.pk}"
    for number in range(MANY):
        response = CallerClient(at, "maker").post(f"/namespaces/n/{route}", {"name": f"x{number}", **BODIES[kind]})
        assert response.status == 200, response.body
    deliver_as_recorded(openfga_store())
    refs: list[ObjectRef] = [
        ObjectRef(kind, each) for each in Tabular.objects.order_by("pk").values_list("pk", flat=True)
    ]
    asks = listing(at, f"/namespaces/n/{route}", "identifiers")
    require_costs(requests_sent, asks, refs, before=1, everything=1)


@pytest.mark.parametrize("parent", ["", "n"], ids=["of a warehouse", "below another"])
def test_namespaces(maker: CallerClient, requests_sent: list[str], parent: str) -> None:
    for number in range(MANY):
        assert maker.post("/namespaces", {"namespace": [*filter(None, [parent]), f"x{number}"]}).status == 200
    deliver_as_recorded(openfga_store())
    created = Namespace.objects.exclude(path_key="n").order_by("pk").values_list("pk", flat=True)
    refs = [ObjectRef(T.NAMESPACE, each) for each in created]
    if not parent:
        refs.insert(0, ObjectRef(T.NAMESPACE, Namespace.objects.get(path_key="n").pk))
    asks = listing(maker.base, f"/namespaces?parent={parent}" if parent else "/namespaces", "namespaces")
    require_costs(requests_sent, asks, refs, before=1, everything=1)


def test_deleted_tabulars(
    maker: CallerClient, warehouse: Warehouse, soft_delete: int, requests_sent: list[str]
) -> None:
    for number in range(MANY):
        assert maker.post("/namespaces/n/tables", {"name": f"x{number}", "schema": SCHEMA}).status == 200
    deliver_as_recorded(openfga_store())
    for number in range(MANY):
        assert maker.delete(f"/namespaces/n/tables/x{number}").status == 204
    deliver_as_recorded(openfga_store())
    refs: list[ObjectRef] = [
        ObjectRef(T.TABLE, each) for each in Tabular.objects.order_by("pk").values_list("pk", flat=True)
    ]
    asks = listing(f"/management/v1/warehouse/{warehouse.pk}", "/deleted-tabulars", "tabulars")
    require_costs(requests_sent, asks, refs, before=1, everything=1)


def test_warehouses(warehouse: Warehouse, storage_root: Any, requests_sent: list[str]) -> None:
    """Each is checked for every caller: no privilege on a project shows all of its warehouses."""
    project = get_project(None)
    for number in range(MANY):
        profile = {"type": "local", "path": str(storage_root / f"x{number}")}
        create_warehouse(actor=INTERNAL, project=project, name=f"x{number}", storage_profile=profile)
    allow("maker", "project_admin", ObjectRef(T.PROJECT, project.pk))
    refs: list[ObjectRef] = [
        ObjectRef(T.WAREHOUSE, each) for each in Warehouse.objects.order_by("pk").values_list("pk", flat=True)
    ]
    asks = listing("/management/v1", "/warehouse", "warehouses")
    require_costs(requests_sent, asks, refs, before=1, everything=1 + batches(len(refs)))


def test_roles(warehouse: Warehouse, requests_sent: list[str]) -> None:
    """With permission to list roles, a caller sees all of them."""
    project = get_project(None)
    for number in range(MANY):
        create_role(actor=INTERNAL, project=project, name=f"x{number}")
    allow("maker", "project_admin", ObjectRef(T.PROJECT, project.pk))
    asks = listing("/management/v1", "/role", "roles")
    assert requests_for(requests_sent, asks("maker"), MANY) == 1
