"""Concurrent drops and grant changes on one object run one after the other, without a deadlock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, connections

from catalog.identifiers import Identifier
from catalog.services.namespaces.move import move_namespace
from catalog.services.tables.drop import unregister_table
from icekeeper.kernel.db.deletion import delete_rows_returning
from icekeeper.kernel.db.sql import execute
from icekeeper.kernel.errors.types import CatalogError, NotFound
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Grantee
from tenancy.authz import securables
from tenancy.models import Grant, Securable, User
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.services import grants
from tenancy.services.grants import Difference, GrantSpec, apply_grants
from tests.authz.conftest import user
from tests.authz.test_rights_revoked_concurrently import wait_until_one_waits
from tests.authz.tree_fixtures import give
from tests.harness.tree_invariants import check_trees

pytestmark = [
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.timeout(120),
    pytest.mark.both_databases,
]

CHANGES = {
    "revoke": Difference(deletes=[GrantSpec("select", Grantee(user_id="oidc~bob"))]),
    "grant": Difference(writes=[GrantSpec("select", Grantee(user_id="oidc~carl"))]),
}


@pytest.fixture(autouse=True)
def granted(lake: dict[str, ObjectRef]) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this: on SQLite writers wait for each other as a whole")
    User.objects.create(id="oidc~carl", name="Carl")
    for table in ("closed.a", "closed.deep.a"):
        give("select", lake[table], user("bob"))


def change(ref: ObjectRef, what: str) -> None:
    apply_grants(actor=INTERNAL, ref=ref, difference=CHANGES[what], missing=NotFound("not found"))


def call(act: Callable[..., Any], *args: Any) -> Any:
    try:
        return act(*args)
    except CatalogError as error:
        return error
    finally:
        connections.close_all()


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("target", ["/namespaces/closed/tables/a", "/namespaces/closed?recursive=true"])
def test_a_drop_waits_for_a_grant_change(
    what: str, target: str, client: Any, lake: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, has_lock, require_grantees = client("root"), threading.Event(), grants._require_grantees_in_project

    def hold(*args: Any) -> None:
        require_grantees(*args)
        has_lock.set()
        wait_until_one_waits()

    monkeypatch.setattr(grants, "_require_grantees_in_project", hold)
    with ThreadPoolExecutor(2) as pool:
        changed = pool.submit(call, change, lake["closed.a"], what)
        assert has_lock.wait(30)
        dropped = pool.submit(call, root.delete, target)
        assert changed.result(60) is None
        assert dropped.result(60).status == 204
    assert_deleted(lake["closed.a"])


def test_a_grant_during_a_drop_is_not_found(
    client: Any, lake: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, is_going = client("root"), threading.Event()

    def hold(*args: Any, **more: Any) -> Any:
        is_going.set()
        wait_until_one_waits()
        return delete_rows_returning(*args, **more)

    monkeypatch.setattr(securables, "delete_rows_returning", hold)
    with ThreadPoolExecutor(2) as pool:
        dropped = pool.submit(call, root.delete, "/namespaces/closed/tables/a")
        assert is_going.wait(30)
        changed = pool.submit(call, change, lake["closed.a"], "grant")
        assert dropped.result(60).status == 204
        assert changed.result(60).message == "not found"
    assert_deleted(lake["closed.a"])


def test_a_table_that_goes_while_its_namespace_moves(
    lake: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse_id, has_moved = Warehouse.objects.get().pk, threading.Event()

    def hold(statement: str, params: Any) -> int:
        count = execute(statement, params)
        if statement is securables._MOVE_TREE:
            has_moved.set()
            wait_until_one_waits()
        return count

    def move() -> Any:
        namespace_id = lake["closed.deep"][1]
        assert isinstance(namespace_id, UUID)
        return move_namespace(
            actor=INTERNAL, warehouse_id=warehouse_id, namespace_id=namespace_id, destination=["open", "deep"]
        )

    def unregister() -> Any:
        return unregister_table(actor=INTERNAL, warehouse_id=warehouse_id, table=Identifier(("closed", "deep"), "a"))

    monkeypatch.setattr(securables, "execute", hold)
    with ThreadPoolExecutor(2) as pool:
        moved = pool.submit(call, move)
        assert has_moved.wait(30)
        unregistered = pool.submit(call, unregister)
        assert list(moved.result(60).levels) == ["open", "deep"]
        assert unregistered.result(60).id == lake["closed.deep.a"][1]
    assert_deleted(lake["closed.deep.a"])


def assert_deleted(ref: ObjectRef) -> None:
    own_id = securable_id(*ref)
    assert not Securable.objects.filter(pk=own_id).exists()
    assert not Grant.objects.filter(securable_id=own_id).exists()
    check_trees()
