"""A permission that is revoked between the check and the write denies the request, and nothing is written."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import pytest
from django.db import connection, connections

from catalog.models import Tabular
from catalog.services.tables.drop import retire
from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import NotFound
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Actor, Grantee
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.permission_epoch import bump_permission_epoch, permission_epoch
from tenancy.authz.permissions import ProjectActionForbidden
from tenancy.changes import transaction as change_transaction
from tenancy.models import AuditRecord, Grant, Role, Securable, Server, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tenancy.services import grants
from tenancy.services.grants import Difference, GrantSpec, apply_grants
from tenancy.services.projects import create_project
from tenancy.services.roles import create_role
from tests.authz.conftest import VIEW, user
from tests.authz.test_hiding import COMMIT
from tests.authz.tree_fixtures import give, role
from tests.catalog_fixtures import SCHEMA
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient
from tests.harness.wsgi_client import Response

pytestmark = pytest.mark.both_databases

ALICE = user("alice")
EARLIER = datetime(2026, 1, 1, tzinfo=UTC)
Act = Callable[[CallerClient, dict[str, ObjectRef]], Response]
Everything = Callable[[], Fingerprint]


@contextmanager
def losing_everything() -> Iterator[None]:
    """Revoke every grant of Alice when a write of a request begins, and restore them afterwards."""
    begin_write, hers = request_context.begin_write, Grant.objects.filter(user_id=ALICE.user_id)

    def lose() -> None:
        hers.update(expires_at=EARLIER)
        permission_epoch.bump()
        begin_write()

    with mock.patch.object(request_context, "begin_write", lose):
        yield
    assert hers.update(expires_at=None)
    permission_epoch.bump()


_RENAME = {
    "source": {"namespace": ["closed"], "name": "a"},
    "destination": {"namespace": ["open"], "name": "mine"},
}
_TRANSACTION = {"table-changes": [{"identifier": {"namespace": ["closed"], "name": "a"}, **COMMIT}]}

IN_THE_CATALOG: dict[str, Act] = {
    "rename": lambda alice, _: alice.post("/tables/rename", _RENAME),
    "commit": lambda alice, _: alice.post("/namespaces/closed/tables/b", COMMIT),
    "transaction": lambda alice, _: alice.post("/transactions/commit", _TRANSACTION),
    "table": lambda alice, _: alice.post("/namespaces/closed/tables", {"name": "n", "schema": SCHEMA}),
    "staged table": lambda alice, _: alice.post(
        "/namespaces/closed/tables", {"name": "n", "schema": SCHEMA, "stage-create": True}
    ),
    "view": lambda alice, _: alice.post("/namespaces/closed/views", {"name": "n", **VIEW}),
    "namespace": lambda alice, _: alice.post("/namespaces", {"namespace": ["closed", "n"]}),
    "properties": lambda alice, _: alice.post("/namespaces/closed/properties", {"updates": {"k": "v"}}),
    "drop of a table": lambda alice, _: alice.delete("/namespaces/closed/tables/b"),
    "drop of a view": lambda alice, _: alice.delete("/namespaces/closed/views/v"),
    "drop of everything": lambda alice, _: alice.delete("/namespaces/closed?recursive=true"),
}


@pytest.mark.django_db
@pytest.mark.parametrize("what", IN_THE_CATALOG)
def test_in_the_catalog(what: str, client: Any, lake: dict[str, ObjectRef], everything: Everything) -> None:
    for location in ("closed", "open"):
        give("ownership", lake[location], ALICE)
    alice = client("alice")
    refused_without_a_trace(lambda: IN_THE_CATALOG[what](alice, lake), everything)


IN_MANAGEMENT: dict[str, Act] = {
    "members": lambda alice, _: alice.post(f"{_role()}/members", {"members": [_ALICE]}),
    "role": lambda alice, _: alice.post("/role", {"name": "other"}),
    "name of a role": lambda alice, _: alice.post(_role(), {"name": "other"}),
    "end of a role": lambda alice, _: alice.delete(_role()),
    "managed access": lambda alice, lake: alice.post(
        f"/permissions/namespace/{lake['closed'][1]}/managed-access", {"managed-access": True}
    ),
    "grant": lambda alice, lake: alice.post(
        f"/permissions/namespace/{lake['closed'][1]}/assignments", {"writes": [{"type": "select", "user": "oidc~bob"}]}
    ),
    "protection": lambda alice, lake: alice.post(
        f"/warehouse/{Warehouse.objects.get().pk}/namespace/{lake['closed'][1]}/protection", {"protected": True}
    ),
    "user": lambda alice, _: alice.delete("/user/oidc~bob"),
    "project": lambda alice, _: alice.post("/project", {"project-name": "other"}),
    "name of a warehouse": lambda alice, _: alice.post(
        f"/warehouse/{Warehouse.objects.get().pk}/rename", {"new-name": "other"}
    ),
}
_ALICE: dict[str, Any] = {"type": "user", "id": ALICE.user_id}


def _role() -> str:
    return f"/role/{Role.objects.get().pk}"


@pytest.mark.django_db
@pytest.mark.parametrize("what", IN_MANAGEMENT)
def test_in_management(what: str, manage: Any, lake: dict[str, ObjectRef], everything: Everything) -> None:
    role("team")
    User.objects.create(id="oidc~bob", name="Bob")
    give("project_admin", ObjectRef(Securable.Type.PROJECT, get_project(None).pk), ALICE)
    give("operator", ObjectRef(Securable.Type.SERVER, Server.objects.get().server_id), ALICE)
    alice = manage("alice")
    refused_without_a_trace(lambda: IN_MANAGEMENT[what](alice, lake), everything)


def refused_without_a_trace(act: Callable[[], Response], everything: Everything) -> None:
    before = everything()
    with losing_everything():
        response = act()
    assert response.status in {403, 404}, response.body
    assert everything() == before
    response = act()
    assert response.status < 300, response.body


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("post", "/namespaces/closed/tables/b", COMMIT),
        ("delete", "/namespaces/closed/tables/b", None),
        ("post", "/tables/rename", {**_RENAME, "source": {"namespace": ["closed"], "name": "b"}}),
    ],
)
def test_what_others_drop_meanwhile_is_missing_and_not_denied(
    client: Any, lake: dict[str, ObjectRef], method: str, target: str, body: Any
) -> None:
    for location in ("closed", "open"):
        give("ownership", lake[location], ALICE)
    alice, begin_write, dropped = (
        client("alice"),
        request_context.begin_write,
        Tabular.objects.filter(pk=lake["closed.b"][1]),
    )

    def drop() -> None:
        retire(list(dropped))
        permission_epoch.bump()
        begin_write()

    with mock.patch.object(request_context, "begin_write", drop):
        response = getattr(alice, method)(target, *([] if body is None else [body]))
    assert response.refused(404, "NoSuchTableException", "closed.b")
    assert not AuditRecord.objects.filter(event="access.denied").exists()


@pytest.mark.django_db
def test_nothing_of_a_request_is_left_for_what_comes_after_it(client: Any, lake: dict[str, ObjectRef]) -> None:
    give("describe", lake["closed.a"], ALICE)
    assert client("alice").get("/namespaces/closed/tables/a").status == 200
    Grant.objects.filter(user_id=ALICE.user_id).delete()
    permission_epoch.bump()
    give("select", lake["open.a"], user("bob"))  # by the server, in the same thread


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_request_that_waits_for_a_revocation_is_denied(
    bootstrapped: None, builtin: BuiltinAuthorizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ada's request waits for a lock of her administrator's transaction, which revokes her permission."""
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this: on SQLite nothing waits between the check and the write")
    location: ObjectRef = ObjectRef(Securable.Type.PROJECT, get_project(None).pk)
    for name in ("ada", "friend"):
        User.objects.create(id=f"oidc~{name}", name=name)
    ada, friend = (Grantee(user_id=f"oidc~{name}") for name in ("ada", "friend"))

    def change(actor: Actor, difference: Difference) -> None:
        try:
            with no_recorded_permissions():
                apply_grants(actor=actor, ref=location, difference=difference, missing=NotFound("no"))
        finally:
            connections.close_all()

    right = [GrantSpec("security_admin", ada)]
    change(INTERNAL, Difference(writes=right))
    has_lock, asked, require_grantees = threading.Event(), threading.Event(), grants._require_grantees_in_project

    def hold(*args: Any) -> None:
        require_grantees(*args)
        if not has_lock.is_set():  # the administrator
            has_lock.set()
            assert asked.wait(30)
            wait_until_one_waits()

    monkeypatch.setattr(grants, "_require_grantees_in_project", hold)
    require_valid = grants._require_valid

    def ask(*args: Any) -> None:
        require_valid(*args)
        if has_lock.is_set():
            asked.set()

    monkeypatch.setattr(grants, "_require_valid", ask)
    with ThreadPoolExecutor(2) as pool:
        revoked = pool.submit(change, INTERNAL, Difference(deletes=right))
        assert has_lock.wait(30)
        granted = pool.submit(change, Actor(user_id="oidc~ada"), Difference(writes=[GrantSpec("data_admin", friend)]))
        revoked.result(60)
        with pytest.raises(ProjectActionForbidden):
            granted.result(60)
    assert not Grant.objects.filter(user_id__in=["oidc~ada", "oidc~friend"]).exists()


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
@pytest.mark.parametrize("in_a_transaction", [False, True], ids=["commit", "transaction"])
def test_a_commit_that_waits_for_a_rename_does_not_go_where_the_table_went(
    in_a_transaction: bool, client: Any, lake: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alice may write in one namespace; the table moves to another one, where she has no permissions."""
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this: on SQLite nothing waits between the check and the write")
    give("modify", lake["open"], ALICE)
    alice, root, table = client("alice"), client("root"), Tabular.objects.get(pk=lake["open.b"][1])
    is_renamed, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        bump_permission_epoch()
        is_renamed.set()
        assert may_go.wait(30)

    def done(act: Callable[[], Response]) -> Response:
        try:
            return act()
        finally:
            connections.close_all()

    def commit() -> Response:
        if in_a_transaction:
            other = {"identifier": {"namespace": ["open"], "name": "a"}, **COMMIT}
            change = {"identifier": {"namespace": ["open"], "name": "b"}, **COMMIT}
            return alice.post("/transactions/commit", {"table-changes": [change, other]})
        return alice.post("/namespaces/open/tables/b", COMMIT)

    monkeypatch.setattr(change_transaction, "bump_permission_epoch", hold)
    away = {
        "source": {"namespace": ["open"], "name": "b"},
        "destination": {"namespace": ["closed"], "name": "secret"},
    }
    with ThreadPoolExecutor(2) as pool:
        renamed = pool.submit(done, lambda: root.post("/tables/rename", away))
        assert is_renamed.wait(30)
        committed = pool.submit(done, commit)
        wait_until_one_waits()
        may_go.set()
        assert renamed.result(60).status == 204
        assert committed.result(60).refused(404, "NoSuchTableException", "open.b")
    there = Tabular.objects.get(pk=table.pk)
    assert (there.namespace_id, there.name) == (lake["closed"][1], "secret")
    assert there.metadata_location == table.metadata_location


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
@pytest.mark.parametrize(
    ("target", "error"),
    [("/role", "ProjectActionForbidden"), ("/role/{}", "RoleActionForbidden")],
    ids=["new", "renamed"],
)
def test_a_request_that_waits_for_a_role_name_in_a_role_of_another_project(
    target: str, error: str, manage: Any, lake: dict[str, ObjectRef]
) -> None:
    """Ada acts as a role that loses its permission during the wait; only her own project is locked."""
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this: on SQLite nothing waits between the check and the write")
    own, project, server = (
        role("own"),
        get_project(None),
        ObjectRef(Securable.Type.SERVER, Server.objects.get().server_id),
    )
    far = create_project(actor=INTERNAL, name="far", project_id="far")
    acting = create_role(actor=INTERNAL, project=far, name="acting")
    ada, chief = user("ada"), user("chief")
    give("operator", server, chief)
    give("operator", server, ada, through=acting, to=acting)
    at, assumed = manage("ada"), {"x-assume-role": str(acting.pk)}
    assert at.post("/role", {"name": "first"}, **assumed).status == 201

    def done(act: Callable[[], Any]) -> Any:
        try:
            return act()
        finally:
            connections.close_all()

    revoked = Difference(deletes=[GrantSpec("operator", Grantee(role_id=acting.pk))])
    with ThreadPoolExecutor(2) as pool, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        Role.objects.create(project=project, name="wanted", name_key="wanted", provider_id="oidc", source_id="x")
        created = pool.submit(done, lambda: at.post(target.format(own.pk), {"name": "wanted"}, **assumed))
        wait_until_one_waits()
        change = pool.submit(
            done, lambda: apply_grants(actor=INTERNAL, ref=server, difference=revoked, missing=NotFound("no"))
        )
        assert change.result(60) is None
        cursor.execute("ROLLBACK")
        assert created.result(60).refused(403, error)
    assert sorted(Role.objects.values_list("name", flat=True)) == ["acting", "first", "own"]


@contextmanager
def no_recorded_permissions() -> Iterator[None]:
    """Run the block as another request, with no recorded permissions."""
    context = request_context.current_context()
    outer, context.rechecks = context.rechecks, {}
    try:
        yield
    finally:
        context.rechecks = outer


def wait_until_one_waits() -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")  # else a transaction sees the same each time
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            if cursor.fetchone() != (0,):
                return
        time.sleep(0.01)
    raise AssertionError("no transaction waits for a lock")
