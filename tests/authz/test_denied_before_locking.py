"""Denied changes lock no rows: authorization comes before the write transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from unittest import mock
from uuid import UUID

import pytest

from catalog.models import LocationClaim
from catalog.services.tables.staging import list_staged_locations_for, release_staged_location
from icekeeper.kernel import request_context
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import Forbidden, NoSuchWarehouse
from storage.models import Warehouse
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tests.authz.conftest import user
from tests.authz.tree_fixtures import give
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient
from tests.harness.wsgi_client import Response

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

Client = Callable[[str], CallerClient]
Everything = Callable[[], Fingerprint]
Act = Callable[[CallerClient, str], Response]
ALICE = user("alice")
NOWHERE = UUID(int=7)

OF_WAREHOUSES: dict[str, Act] = {
    "rename": lambda at, warehouse: at.post(f"{warehouse}/rename", {"new-name": "other"}),
    "activate": lambda at, warehouse: at.post(f"{warehouse}/activate"),
    "deactivate": lambda at, warehouse: at.post(f"{warehouse}/deactivate"),
    "delete profile": lambda at, warehouse: at.post(
        f"{warehouse}/delete-profile", {"delete-profile": {"type": "soft", "expiration-seconds": 60}}
    ),
    "format versions": lambda at, warehouse: at.post(
        f"{warehouse}/format-version-policy", {"allowed-format-versions": [2]}
    ),
    "protection": lambda at, warehouse: at.post(f"{warehouse}/protection", {"protected": True}),
    "deletion": lambda at, warehouse: at.delete(warehouse),
    "credential": lambda at, warehouse: at.post(f"{warehouse}/storage-credential", {"new-storage-credential": None}),
}
OF_PROJECTS: dict[str, Act] = {
    "rename": lambda at, project: at.post("/project/rename", {"new-name": "other"}, **{"x-project-id": project}),
    "rename by id": lambda at, project: at.post(f"/project/{project}/rename", {"new-name": "other"}),
    "deletion": lambda at, project: at.delete("/project", **{"x-project-id": project}),
    "deletion by id": lambda at, project: at.delete(f"/project/{project}"),
}
OF_NAMESPACES: dict[str, Act] = {
    "properties": lambda at, _: at.post("/namespaces/open/properties", {"updates": {"k": "v"}}),
    "drop": lambda at, _: at.delete("/namespaces/open"),
    "drop of everything": lambda at, _: at.delete("/namespaces/open?recursive=true"),
    "one below": lambda at, _: at.post("/namespaces", {"namespace": ["open", "n"]}),
    "rename": lambda at, _: at.post(
        "/tables/rename",
        {"source": {"namespace": ["open"], "name": "a"}, "destination": {"namespace": ["open"], "name": "b"}},
    ),
}


@contextmanager
def nothing_begins() -> Iterator[None]:
    """On SQLite a write transaction locks the whole database."""
    with mock.patch.object(request_context, "begin_write") as begun:
        yield
    begun.assert_not_called()


@pytest.mark.parametrize("what", OF_WAREHOUSES)
def test_on_a_warehouse(
    what: str, manage: Client, lake: dict[str, ObjectRef], warehouse: Warehouse, everything: Everything
) -> None:
    act, alice = OF_WAREHOUSES[what], manage("alice")
    ref = ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk)
    before = everything()
    for each in (warehouse.pk, NOWHERE):
        with nothing_begins():
            assert act(alice, f"/warehouse/{each}").refused(404, "NoSuchWarehouseException", str(each))
    assert everything() == before
    give("select", ref, ALICE)
    before = everything()
    with nothing_begins():
        assert act(alice, f"/warehouse/{warehouse.pk}").refused(403, "WarehouseActionForbidden")
    assert everything() == before


@pytest.mark.parametrize("what", OF_PROJECTS)
def test_on_a_project(what: str, manage: Client, lake: dict[str, ObjectRef], everything: Everything) -> None:
    act, alice = OF_PROJECTS[what], manage("alice")
    give("select", ObjectRef(Securable.Type.PROJECT, get_project(None).pk), ALICE)
    before = everything()
    with nothing_begins():
        assert act(alice, get_project(None).pk).refused(403, "ProjectActionForbidden")
        assert act(alice, "nowhere").refused(404, "ProjectNotFound", "nowhere")
    assert everything() == before


@pytest.mark.parametrize("what", OF_NAMESPACES)
def test_in_the_catalog(what: str, client: Client, lake: dict[str, ObjectRef], everything: Everything) -> None:
    act, alice = OF_NAMESPACES[what], client("alice")
    give("select", lake["open"], ALICE)
    before = everything()
    with nothing_begins():
        response = act(alice, "")
    assert response.status == 403, response.body
    assert everything() == before


def test_on_protected_objects(
    manage: Client, lake: dict[str, ObjectRef], warehouse: Warehouse, everything: Everything
) -> None:
    alice = manage("alice")
    give("select", lake["open"], ALICE)
    before = everything()
    with nothing_begins():
        response = alice.post(f"/warehouse/{warehouse.pk}/namespace/{lake['open'][1]}/protection", {"protected": True})
    assert response.refused(403, "NamespaceActionForbidden")
    assert everything() == before


def test_on_what_others_staged(lake: dict[str, ObjectRef], warehouse: Warehouse, everything: Everything) -> None:
    """Services that only commands call so far."""
    path = f"{warehouse.location}/staged"
    LocationClaim.objects.create(
        warehouse=warehouse, staged_by="oidc~bob", location=path, expires_at=now() + timedelta(days=1)
    )
    before = everything()
    for each in (warehouse.pk, NOWHERE):
        for ask in (list_staged_locations_for, partial(release_staged_location, location=path)):
            with nothing_begins(), pytest.raises(NoSuchWarehouse):
                ask(actor=ALICE, warehouse_id=each)
    assert everything() == before
    give("create", ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk), ALICE)
    before = everything()
    for ask in (list_staged_locations_for, partial(release_staged_location, location=path)):
        with nothing_begins(), pytest.raises(Forbidden):
            ask(actor=ALICE, warehouse_id=warehouse.pk)
    assert everything() == before
    give("modify", ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk), ALICE)
    assert [each.staged_by for each in list_staged_locations_for(actor=ALICE, warehouse_id=warehouse.pk)] == [
        "oidc~bob"
    ]
    assert len(release_staged_location(actor=ALICE, warehouse_id=warehouse.pk, location=path)) == 1
    assert not LocationClaim.objects.exists()
