"""Changes of grants reach OpenFGA before the response; outages and crashes before the delivery allow nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections, transaction
from pydantic import AnyHttpUrl

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import NotFound
from tenancy.actor import INTERNAL, Actor, Grantee
from tenancy.authz.actions import Can
from tenancy.authz.openfga import delivery, outbox
from tenancy.authz.openfga.backend import OpenFgaAuthorizer
from tenancy.authz.openfga.client import OpenFgaUnavailable
from tenancy.authz.openfga.outbox import enqueue
from tenancy.authz.openfga.store import OpenFgaStore, openfga_store
from tenancy.authz.openfga.tuples import (
    FOREVER,
    Condition,
    TupleKey,
    as_time,
    desired_tuples_on,
    managed_access_key,
    member_key,
)
from tenancy.authz.permissions import is_allowed
from tenancy.models import Grant, Securable, UndeliveredTuple, User
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.projects import get_project
from tenancy.services.grants import Difference, GrantSpec, apply_grants, set_managed_access
from tenancy.services.projects import create_project, delete_project
from tenancy.services.role_members import Members, add_role_members, remove_role_members
from tenancy.services.roles import create_role, delete_role
from tenancy.services.users import delete_user
from tests.authz.conftest import user
from tests.authz.tree_fixtures import create_tree
from tests.catalog_fixtures import SCHEMA
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.management.warehouse_request_fixtures import use_settings
from tests.openfga_fixtures import all_tuples
from tests.parts.openfga import OpenFga

pytestmark = [
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.usefixtures("by_openfga"),
]

ALICE = user("alice")
BOB = user("bob")


@pytest.fixture
def tree(by_openfga: OpenFgaAuthorizer, warehouse: Any) -> dict[str, ObjectRef]:
    with transaction.atomic():
        return create_tree(warehouse)


@pytest.fixture
def maker(callers: NamedCallers, tree: dict[str, ObjectRef]) -> CallerClient:
    """A client of the warehouse's owner for the catalog API."""
    callers.user("maker")
    change(tree["wh"], writes=[to(user("maker"), "ownership")])
    return CallerClient(f"/catalog/v1/{tree['wh'][1]}", "maker")


def change(ref: ObjectRef, *, writes: list[GrantSpec] | None = None, deletes: list[GrantSpec] | None = None) -> None:
    for spec in [*(writes or []), *(deletes or [])]:
        if spec.grantee.user_id is not None:
            User.objects.get_or_create(id=spec.grantee.user_id, defaults={"name": "n"})
    difference = Difference(writes=writes or [], deletes=deletes or [])
    apply_grants(actor=INTERNAL, ref=ref, difference=difference, missing=NotFound("not found"))


def to(who: Actor, privilege: str = "select", expires_at: Any = None) -> GrantSpec:
    return GrantSpec(privilege, Grantee(user_id=who.user_id), expires_at)


def require_delivered() -> None:
    """OpenFGA has exactly the tuples of the rows, and the outbox is empty."""
    assert not UndeliveredTuple.objects.exists()
    recorded = desired_tuples_on(list(Securable.objects.values_list("pk", flat=True)))
    wanted = {
        key: None if condition is None else FOREVER if condition.expires_at is None else as_time(condition.expires_at)
        for key, condition in recorded.items()
    }
    assert dict(all_tuples(openfga_store())) == wanted


def undone(work: Callable[[], object]) -> None:
    """Roll back the transaction, or the savepoint."""
    with transaction.atomic():
        work()
        transaction.set_rollback(True)


def let_go() -> None:
    """Expire the leases of the deliveries that died."""
    UndeliveredTuple.objects.update(held_until=now() - timedelta(seconds=1))


def may_read(tree: dict[str, ObjectRef], who: Actor = ALICE) -> bool:
    return is_allowed(who, Can.READ_DATA, *tree["table"])


def test_every_change_is_committed_before_the_response(tree: dict[str, ObjectRef], maker: CallerClient) -> None:
    require_delivered()
    project = get_project(None)
    for body in ({"namespace": ["a"]}, {"namespace": ["a", "b"]}, {"namespace": ["c"]}):
        assert maker.post("/namespaces", body).status == 200
    assert maker.post("/namespaces/a/tables", {"name": "t", "schema": SCHEMA}).status == 200
    require_delivered()
    moved = {"source": {"namespace": ["a"], "name": "t"}, "destination": {"namespace": ["c"], "name": "u"}}
    assert maker.post("/tables/rename", moved).status == 204
    require_delivered()
    change(tree["table"], writes=[to(ALICE), to(BOB, "modify", now() + timedelta(hours=1))])
    require_delivered()
    change(tree["table"], writes=[to(BOB, "modify", now() + timedelta(hours=2))], deletes=[to(ALICE)])
    require_delivered()
    roles = [create_role(actor=INTERNAL, project=project, name=name).pk for name in ("r", "s")]
    add_role_members(actor=INTERNAL, project=project, role_id=roles[0], members=Members([ALICE.user_id], [roles[1]]))
    change(tree["wh"], writes=[GrantSpec("modify", Grantee(role_id=roles[0]))])
    change(ObjectRef(Securable.Type.ROLE, roles[1]), writes=[to(BOB, "ownership"), to(ALICE, "assignee")])
    require_delivered()
    remove_role_members(actor=INTERNAL, project=project, role_id=roles[0], members=Members([], [roles[1]]))
    require_delivered()
    for is_managed in (True, False, True):
        set_managed_access(actor=INTERNAL, ref=tree["outer"], is_managed=is_managed, missing=NotFound("not found"))
        require_delivered()
    assert managed_access_key(securable_id(*tree["outer"])) in dict(all_tuples(openfga_store()))
    delete_user(actor=INTERNAL, user_id=BOB.user_id)
    delete_role(actor=INTERNAL, project=project, role_id=roles[0])
    assert maker.delete("/namespaces/c/tables/u").status == 204
    assert maker.delete("/namespaces/a?recursive=true").status == 204
    other = create_project(actor=Actor(user_id="oidc~founder", is_internal=True), name="other")
    require_delivered()
    delete_project(actor=INTERNAL, project_id=other.pk)
    require_delivered()


def test_users_who_never_called_are_in_openfga(
    tree: dict[str, ObjectRef], maker: CallerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings(monkeypatch, openid_provider_uri=AnyHttpUrl("https://idp.example.com/realms/lake"))
    newcomer, member = user("newcomer"), user("member@example.com")
    apply_grants(
        actor=INTERNAL, ref=tree["table"], difference=Difference([to(newcomer)]), missing=NotFound("not found")
    )
    role = create_role(actor=INTERNAL, project=get_project(None), name="readers")
    change(tree["table"], writes=[GrantSpec("modify", Grantee(role_id=role.pk))])
    members = Members([str(member.user_id)])
    add_role_members(actor=INTERNAL, project=get_project(None), role_id=role.pk, members=members)
    require_delivered()
    assert may_read(tree, newcomer)
    assert is_allowed(member, Can.WRITE_DATA, *tree["table"])
    assert not is_allowed(newcomer, Can.WRITE_DATA, *tree["table"])
    assert not User.objects.get(pk=newcomer.user_id).has_called


def test_a_rolled_back_change_is_not_delivered(tree: dict[str, ObjectRef], requests_sent: list[str]) -> None:
    before = all_tuples(openfga_store())
    requests_sent.clear()
    undone(lambda: change(tree["table"], writes=[to(ALICE)]))
    assert requests_sent == []
    assert all_tuples(openfga_store()) == before
    with transaction.atomic():
        undone(lambda: change(tree["table"], writes=[to(ALICE)]))
        change(tree["view"], writes=[to(BOB)])
    require_delivered()
    assert not may_read(tree)


def test_one_transaction_is_one_write(maker: CallerClient, requests_sent: list[str]) -> None:
    assert maker.post("/namespaces", {"namespace": ["a"]}).status == 200
    requests_sent.clear()
    assert maker.post("/namespaces/a/tables", {"name": "t", "schema": SCHEMA}).status == 200
    assert requests_sent.count("write") == 1


def test_while_openfga_is_down_new_and_revoked_grants_are_denied(tree: dict[str, ObjectRef], openfga: OpenFga) -> None:
    change(tree["table"], writes=[to(ALICE)])
    assert (may_read(tree), may_read(tree, BOB)) == (True, False)
    with openfga.relay.refusing():
        change(tree["table"], writes=[to(BOB)], deletes=[to(ALICE)])
        assert Grant.objects.filter(securable_id=securable_id(*tree["table"])).get().user_id == BOB.user_id
        assert UndeliveredTuple.objects.count() == 2
        with pytest.raises(OpenFgaUnavailable):
            may_read(tree)
    wait_until_asked_again()
    assert "user:oidc~alice" in {key.subject for key, _ in all_tuples(openfga_store())}
    assert (may_read(tree), may_read(tree, BOB)) == (False, False)
    assert delivery.deliver_all_pending() == 2
    require_delivered()
    assert (may_read(tree), may_read(tree, BOB)) == (False, True)


def test_a_crash_between_commit_and_delivery_denies_until_others_deliver(
    tree: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    change(tree["table"], writes=[to(ALICE)])
    with monkeypatch.context() as dead:
        dead.setattr(outbox, "deliver_before_response", lambda _: None)
        change(tree["table"], writes=[to(BOB)], deletes=[to(ALICE)])
    assert (may_read(tree), may_read(tree, BOB)) == (False, False)
    assert delivery.deliver_all_pending() == 0  # it may still be writing
    let_go()
    assert delivery.deliver_pending(actor=INTERNAL) == 2
    require_delivered()
    assert (may_read(tree), may_read(tree, BOB)) == (False, True)


def test_a_write_of_unknown_result_is_not_repeated_before_its_lease_expires(
    tree: dict[str, ObjectRef], openfga: OpenFga, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "MAX_WAIT_SECONDS", 0.1)
    with openfga.relay.silent():
        change(tree["table"], writes=[to(ALICE)])
    assert UndeliveredTuple.objects.get().held_until > now() + timedelta(seconds=delivery.LEASE_SECONDS / 3)
    wait_until_asked_again()
    change(tree["table"], deletes=[to(ALICE)])
    assert UndeliveredTuple.objects.count() == 1  # the second change waits for the lease of the first one
    openfga_store().write(
        {TupleKey(securable_id(*tree["table"]), "select", "user:oidc~alice"): Condition(None)}, []
    )  # late
    assert not may_read(tree)
    let_go()
    assert delivery.deliver_all_pending() == 1
    require_delivered()
    assert not may_read(tree)


def test_a_change_during_a_delivery_is_delivered_after_it(
    tree: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first delivery has read the grant, and writes it after the revocation."""
    has_read, may_continue = threading.Event(), threading.Event()
    original = OpenFgaStore.write
    writers: list[int] = []

    def slow(self: OpenFgaStore, written: Any, deleted: Any) -> bool:
        writers.append(threading.get_ident())
        if len(writers) == 1:
            has_read.set()
            assert may_continue.wait(20)
        return original(self, written, deleted)

    monkeypatch.setattr(OpenFgaStore, "write", slow)
    User.objects.get_or_create(id=ALICE.user_id, defaults={"name": "n"})
    first = in_thread(lambda: change(tree["table"], writes=[to(ALICE)]))
    assert has_read.wait(20)
    second = in_thread(lambda: change(tree["table"], deletes=[to(ALICE)]))
    deadline = threading.Event()
    while Grant.objects.filter(securable_id=securable_id(*tree["table"])).exists():
        assert not deadline.wait(0.02)
    assert not may_read(tree)
    may_continue.set()
    first.join()
    second.join()
    require_delivered()
    assert len(writers) == 2
    assert not may_read(tree)


@pytest.mark.parametrize("writes_before", [1, 2])
def test_rows_are_not_written_after_their_lease(
    tree: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch, writes_before: int
) -> None:
    """A page takes several writes; between them so much time passes that another process delivers a revocation."""
    users = [user(f"p{number}") for number in range(6)]
    soon, late = now() + timedelta(hours=1), now() + timedelta(hours=2)
    change(tree["table"], writes=[to(users[0], "select", soon)])
    waits, may_continue = threading.Event(), threading.Event()
    original = OpenFgaStore.write
    slow_ones: list[int] = []
    written: list[int] = []

    def slow(self: OpenFgaStore, *args: Any) -> bool:
        try:
            return original(self, *args)
        finally:
            if threading.get_ident() in slow_ones:
                written.append(1)
                if len(written) == writes_before:
                    waits.set()
                    assert may_continue.wait(20)

    def prolong() -> None:
        slow_ones.append(threading.get_ident())
        change(tree["table"], writes=[to(users[0], "select", late), *[to(each) for each in users[1:]]])

    monkeypatch.setattr(OpenFgaStore, "write", slow)
    first = in_thread(prolong)
    assert waits.wait(20)
    let_go()
    change(tree["table"], deletes=[to(users[5])])
    assert not may_read(tree, users[5])
    may_continue.set()
    first.join()
    delivery.deliver_all_pending()
    require_delivered()
    assert [may_read(tree, each) for each in users] == [True, True, True, True, True, False]


def test_a_write_that_comes_too_late_is_not_sent(tree: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the process was suspended between read and write."""
    monkeypatch.setattr(delivery, "MAX_WAIT_SECONDS", 0.1)
    with monkeypatch.context() as slow:
        slow.setattr(delivery, "MAX_WRITE_SECONDS", -1.0)
        change(tree["table"], writes=[to(ALICE)])
    assert UndeliveredTuple.objects.get().held_until > now()
    assert [key for key, _ in all_tuples(openfga_store()) if key.subject == "user:oidc~alice"] == []
    let_go()
    assert delivery.deliver_all_pending() == 1
    require_delivered()


def test_prolonging_many_takes_few_requests(tree: dict[str, ObjectRef], requests_sent: list[str]) -> None:
    users = [user(f"p{number}") for number in range(50)]
    soon, late = now() + timedelta(hours=1), now() + timedelta(hours=2)
    change(tree["table"], writes=[to(each, "select", soon) for each in users])
    requests_sent.clear()
    change(tree["table"], writes=[to(each, "select", late) for each in users])
    assert requests_sent == ["write", "read", "write", "write"]
    require_delivered()


def test_a_response_does_not_wait_for_a_conflict_to_be_resolved(
    tree: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch, requests_sent: list[str]
) -> None:
    users = [user(f"p{number}") for number in range(5)]
    soon, late = now() + timedelta(hours=1), now() + timedelta(hours=2)
    change(tree["table"], writes=[to(each, "select", soon) for each in users])
    original = OpenFgaStore.write

    def slow(self: OpenFgaStore, *args: Any) -> bool:
        time.sleep(0.5)
        return original(self, *args)

    monkeypatch.setattr(delivery, "MAX_WAIT_SECONDS", 0.4)
    requests_sent.clear()
    with monkeypatch.context() as timeout_ends:
        timeout_ends.setattr(OpenFgaStore, "write", slow)
        change(tree["table"], writes=[to(each, "select", late) for each in users])
    assert requests_sent == ["write"]
    assert all(may_read(tree, each) for each in users)  # at least until the former lease expires
    assert delivery.deliver_all_pending() == 5
    require_delivered()


def test_a_write_that_was_sent_twice_is_delivered_once_more(
    tree: dict[str, ObjectRef], openfga: OpenFga, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection ends without a response, the retry succeeds, and the first copy is executed after a revocation."""
    monkeypatch.setattr(delivery, "MAX_WAIT_SECONDS", 0.1)
    with openfga.relay.late(b"/write ") as first_copy:
        change(tree["table"], writes=[to(ALICE)])
    assert b'"user:oidc~alice"' in first_copy.request
    assert UndeliveredTuple.objects.get().held_until > now() + timedelta(seconds=delivery.LEASE_SECONDS / 2)
    assert may_read(tree)
    assert delivery.deliver_all_pending() == 0
    change(tree["table"], deletes=[to(ALICE)])
    assert not may_read(tree)
    assert first_copy.send_on().startswith(b"HTTP/1.1 200 ")
    assert not may_read(tree)
    let_go()
    assert delivery.deliver_all_pending() == 1
    require_delivered()
    assert not may_read(tree)


def test_several_tuples_that_openfga_refuses_are_found_among_many(tree: dict[str, ObjectRef]) -> None:
    hostile = [TupleKey(f"table:with a space {number}", "select", "user:oidc~alice") for number in range(3)]
    users = [user(f"p{number}") for number in range(20)]
    change(tree["table"], writes=[to(users[7], "select", now() + timedelta(hours=1))])
    with transaction.atomic():
        enqueue(hostile)
        change(tree["table"], writes=[to(each) for each in users])
    assert sorted(row.object for row in UndeliveredTuple.objects.all()) == [key.object for key in hostile]
    assert all(may_read(tree, each) for each in users)
    UndeliveredTuple.objects.all().delete()
    require_delivered()


def test_two_concurrent_deliveries_share_the_outbox(tree: dict[str, ObjectRef], openfga: OpenFga) -> None:
    refs = [tree[name] for name in ("table", "view", "generic", "inner")]
    with openfga.relay.refusing():
        for ref in refs:
            change(ref, writes=[to(ALICE), to(BOB)])
    wait_until_asked_again()
    let_go()
    done: list[int] = []
    threads = [in_thread(lambda: done.append(delivery.deliver_all_pending())) for _ in range(2)]
    for thread in threads:
        thread.join()
    assert sum(done) == 8
    require_delivered()


def test_a_tuple_that_openfga_refuses_holds_up_no_other(
    tree: dict[str, ObjectRef], caplog: pytest.LogCaptureFixture
) -> None:
    hostile = TupleKey("table:with a space", "select", "user:oidc~alice")
    with transaction.atomic():
        enqueue([hostile])
        change(tree["table"], writes=[to(ALICE)])
    assert [(row.object, row.subject) for row in UndeliveredTuple.objects.all()] == [(hostile.object, hostile.subject)]
    assert "rejects a tuple" in caplog.text
    assert may_read(tree)
    UndeliveredTuple.objects.all().delete()
    require_delivered()


def test_an_owner_and_member_of_a_role_is_a_member_until_the_later_expiry(tree: dict[str, ObjectRef]) -> None:
    role_id = create_role(actor=INTERNAL, project=get_project(None), name="r").pk
    ref, soon, late = ObjectRef(Securable.Type.ROLE, role_id), now() + timedelta(hours=1), now() + timedelta(hours=2)
    key = member_key(role_id, user_id=ALICE.user_id, member_role_id=None)
    for writes, deletes, end in (
        ([to(ALICE, "assignee", soon)], [], as_time(soon)),
        ([to(ALICE, "ownership", late)], [], as_time(late)),
        ([to(ALICE, "ownership")], [], FOREVER),
        ([], [to(ALICE, "ownership")], as_time(soon)),
        ([to(ALICE, "ownership", soon)], [to(ALICE, "assignee")], as_time(soon)),
    ):
        change(ref, writes=writes, deletes=deletes)
        require_delivered()
        assert dict(all_tuples(openfga_store()))[key] == end
    change(ref, deletes=[to(ALICE, "ownership")])
    require_delivered()
    assert key not in dict(all_tuples(openfga_store()))


def test_where_openfga_does_not_decide_nothing_is_noted(
    tree: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch, requests_sent: list[str]
) -> None:
    from django.conf import settings

    chosen = settings.ICEKEEPER.model_copy(update={"authz_backend": "builtin"})
    monkeypatch.setattr(settings, "ICEKEEPER", chosen)
    change(tree["table"], writes=[to(ALICE)])
    assert not UndeliveredTuple.objects.exists()
    assert delivery.deliver_pending(actor=INTERNAL) == 0
    assert requests_sent == []


def wait_until_asked_again() -> None:
    """Wait until the breaker lets a request through again, which finds OpenFGA available."""
    store = openfga_store()
    store._breaker._failures = 0


def in_thread(work: Callable[[], Any]) -> threading.Thread:
    def run() -> None:
        try:
            work()
        finally:
            for connection in connections.all(initialized_only=True):
                connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread
