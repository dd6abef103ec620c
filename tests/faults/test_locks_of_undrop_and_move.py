"""Undrop and namespace moves with every conflicting request, stopped in the middle on PostgreSQL."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from django.db import close_old_connections, connection, connections

from catalog.models import Namespace, Tabular
from catalog.services.namespaces import drop
from catalog.services.namespaces import move as namespace_moves
from catalog.services.tables import drop as retirement
from catalog.services.tables import rename
from catalog.services.tables import undrop as undrops
from catalog.services.tables.drop import expire_tabular
from icekeeper.kernel.errors.types import NotFound
from storage.models import Warehouse
from tasks.models import Task
from tasks.queue.leases import Lease, LeaseLost, lease_task
from tenancy.actor import INTERNAL, Grantee
from tenancy.changes import transaction as change_transaction
from tenancy.models import Grant, Securable, User
from tenancy.models.securable import ObjectRef
from tenancy.services.grants import Difference, GrantSpec, apply_grants
from tests.catalog_fixtures import SCHEMA
from tests.harness.tree_invariants import check_trees
from tests.harness.wsgi_client import ApiClient, Response

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.timeout(300)]

TIMEOUT_SECONDS = 30
CreateTable = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def several_connections(db: None) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this: on SQLite writers wait for each other as a whole")


@pytest.fixture
def api(warehouse: Warehouse) -> ApiClient:
    return ApiClient(f"/management/v1/warehouse/{warehouse.pk}")


@pytest.fixture
def in_thread() -> Iterator[Callable[..., Future[Any]]]:
    """Start a function in a thread with its own connection."""
    with ThreadPoolExecutor(4) as pool:

        def start(act: Callable[..., Any], *args: Any) -> Future[Any]:
            def acting() -> Any:
                try:
                    return act(*args)
                finally:
                    connections.close_all()

            return pool.submit(acting)

        yield start


class Held:
    """A thread that stops in the middle of a transaction until it is released."""

    def __init__(self) -> None:
        self.is_there, self.may_go = threading.Event(), threading.Event()

    def stand_still(self) -> None:
        self.is_there.set()
        assert self.may_go.wait(TIMEOUT_SECONDS)

    def wait(self) -> None:
        assert self.is_there.wait(TIMEOUT_SECONDS)


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Held]]:
    """Stop the next call of this function of a module, before or after it runs."""
    all_held: list[Held] = []

    def arm(module: Any, name: str, *, after: bool = False) -> Held:
        held = Held()
        all_held.append(held)
        original = getattr(module, name)

        def holding(*args: Any, **options: Any) -> Any:
            if held.is_there.is_set():
                return original(*args, **options)
            if not after:
                held.stand_still()
            result = original(*args, **options)
            if after:
                held.stand_still()
            return result

        monkeypatch.setattr(module, name, holding)
        return held

    yield arm
    for held in all_held:
        held.may_go.set()


def wait_until_one_waits(count: int = 1) -> None:
    until = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < until:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            row = cursor.fetchone()
        if row is not None and row[0] >= count:
            return
        time.sleep(0.01)
    raise AssertionError("no transaction waits for a lock")


@contextmanager
def standing(held: Held, *others: Callable[[], Future[Any]]) -> Iterator[list[Future[Any]]]:
    """While one thread is stopped, start the others and wait until they wait for its locks."""
    held.wait()
    started = []
    for number, other in enumerate(others, start=1):
        started.append(other())
        wait_until_one_waits(number)
    assert not any(each.done() for each in started)
    yield started
    held.may_go.set()


def undrop(api: ApiClient, uuid: str) -> Response:
    return api.post("/deleted-tabulars/undrop", {"targets": [{"type": "table", "id": uuid}]})


def move(api: ApiClient, path: str, *destination: str) -> Response:
    namespace_id = Namespace.objects.get(path=path.replace("/", "\x1f")).pk
    return api.post(f"/namespace/{namespace_id}/move", {"destination": list(destination)})


@pytest.fixture
def dropped(catalog: ApiClient, create_table: CreateTable, soft_delete: int) -> str:
    """The UUID of a dropped table."""
    uuid = str(create_table()["metadata"]["table-uuid"])
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    return uuid


def lease_of_expiration() -> Lease:
    lease = lease_task(Task.objects.live().get(queue="soft_deletion").pk)
    assert lease is not None
    return lease


def expires(lease: Lease) -> bool:
    try:
        expire_tabular(actor=INTERNAL, lease=lease)
    except LeaseLost:
        return False
    return True


def test_an_expiration_that_starts_during_a_restore_does_nothing(
    api: ApiClient, catalog: ApiClient, dropped: str, hold: Any, in_thread: Any
) -> None:
    """The worker takes the task between the check and the cancellation."""
    held = hold(retirement, "cancel_tasks_of")
    restored = in_thread(undrop, api, dropped)
    with standing(held, lambda: in_thread(expires, lease_of_expiration())) as [expired]:
        pass
    assert restored.result(TIMEOUT_SECONDS).status == 204
    assert expired.result(TIMEOUT_SECONDS) is False
    assert catalog.get("/namespaces/ns/tables/t").status == 200
    assert not Task.objects.live().exists()
    check_trees()


def test_a_table_that_is_just_expiring_is_not_restored(api: ApiClient, dropped: str, hold: Any, in_thread: Any) -> None:
    held = hold(retirement, "retire")
    expired = in_thread(expires, lease_of_expiration())
    with standing(held, lambda: in_thread(undrop, api, dropped)) as [restored]:
        pass
    assert expired.result(TIMEOUT_SECONDS) is True
    assert restored.result(TIMEOUT_SECONDS).refused(404, "NoSuchTableException", dropped)
    assert not Tabular.objects.exists()
    assert Task.objects.live().get().queue == "tabular_purge"
    check_trees()


def test_two_restores_of_one_table(api: ApiClient, dropped: str, hold: Any, in_thread: Any) -> None:
    held = hold(undrops, "cancel_expirations", after=True)
    first = in_thread(undrop, api, dropped)
    with standing(held, lambda: in_thread(undrop, api, dropped)) as [second]:
        pass
    assert (first.result(TIMEOUT_SECONDS).status, second.result(TIMEOUT_SECONDS).status) == (204, 204)


def test_a_create_under_the_name_that_is_restored(
    api: ApiClient, catalog: ApiClient, dropped: str, hold: Any, in_thread: Any, files: Any
) -> None:
    held = hold(undrops, "cancel_expirations", after=True)
    written = files()
    restored = in_thread(undrop, api, dropped)
    body = {"name": "t", "schema": SCHEMA}
    with standing(held, lambda: in_thread(catalog.post, "/namespaces/ns/tables", body)) as [created]:
        pass
    assert restored.result(TIMEOUT_SECONDS).status == 204
    assert created.result(TIMEOUT_SECONDS).refused(409, "AlreadyExistsException")
    assert files() == written


def test_a_rename_to_the_name_that_is_restored(
    api: ApiClient, catalog: ApiClient, create_table: CreateTable, dropped: str, hold: Any, in_thread: Any
) -> None:
    """A rename does not lock the warehouse: the constraint of the database decides."""
    create_table("other")
    held = hold(rename, "_request")
    names = [{"namespace": ["ns"], "name": name} for name in ("other", "t")]
    renamed = in_thread(catalog.post, "/tables/rename", {"source": names[0], "destination": names[1]})
    with standing(held, lambda: in_thread(undrop, api, dropped)) as [restored]:
        pass
    assert renamed.result(TIMEOUT_SECONDS).status == 204
    assert restored.result(TIMEOUT_SECONDS).refused(409, "AlreadyExistsException", "already taken")
    assert Task.objects.live().get().status == "scheduled", "it can still be restored, and still expires"
    assert Tabular.objects.filter(deleted_at=None).count() == 1


@pytest.fixture
def tree(catalog: ApiClient) -> ApiClient:
    for path in ("a", "a%1Fb", "a%1Fb%1Fc", "z"):
        assert catalog.post("/namespaces", {"namespace": path.split("%1F")}).status == 200
        assert catalog.post(f"/namespaces/{path}/tables", {"name": "t", "schema": SCHEMA}).status == 200
    return catalog


@pytest.fixture
def moving(api: ApiClient, tree: ApiClient, hold: Any, in_thread: Any) -> tuple[Held, Future[Response]]:
    """The move of `a` to `z.a` is written and not committed."""
    held: Held = hold(namespace_moves, "_rewrite", after=True)
    going: Future[Response] = in_thread(move, api, "a", "z", "a")
    held.wait()
    return held, going


def arrived(moving: tuple[Held, Future[Response]]) -> bool:
    assert moving[1].result(TIMEOUT_SECONDS).status == 200
    check_trees()
    return Namespace.objects.filter(path__startswith="z\x1fa").count() == 3


def test_a_commit_does_not_wait_for_a_move(tree: ApiClient, moving: Any) -> None:
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": "v"}}]}
    assert tree.post("/namespaces/a%1Fb/tables/t", body).status == 200
    assert tree.get("/namespaces/a%1Fb/tables/t").json()["metadata"]["properties"]["k"] == "v"
    moving[0].may_go.set()
    assert arrived(moving)
    assert tree.get("/namespaces/z%1Fa%1Fb/tables/t").json()["metadata"]["properties"]["k"] == "v"


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("post", "/namespaces", {"namespace": ["a", "b", "n"]}),
        ("post", "/namespaces/a%1Fb/tables", {"name": "n", "schema": SCHEMA}),
        ("delete", "/namespaces/a%1Fb%1Fc", None),
        ("delete", "/namespaces/a%1Fb?recursive=true", None),
        ("post", "/namespaces/a%1Fb/properties", {"updates": {"k": "v"}}),
        ("post", "/tables/rename", {
            "source": {"namespace": ["z"], "name": "t"}, "destination": {"namespace": ["a", "b"], "name": "n"},
        }),
    ],
)  # fmt: skip
def test_writes_during_a_namespace_move_fail_with_not_found(
    tree: ApiClient, moving: Any, in_thread: Any, files: Any, method: str, target: str, body: Any
) -> None:
    tables, written = Tabular.objects.count(), files()
    call = tree.post if method == "post" else tree.delete
    with standing(moving[0], lambda: in_thread(call, target, *([body] if body else []))) as [other]:
        pass
    assert other.result(TIMEOUT_SECONDS).refused(404, "NoSuchNamespaceException", "a.b")
    assert arrived(moving)
    assert Tabular.objects.count() == tables
    assert files() == written


def test_a_table_that_leaves_while_its_namespace_moves(
    api: ApiClient, tree: ApiClient, hold: Any, in_thread: Any
) -> None:
    """Its grants follow the table, not its former namespace."""
    assert tree.post("/namespaces", {"namespace": ["q"]}).status == 200
    names = [{"namespace": ["a", "b"], "name": "t"}, {"namespace": ["q"], "name": "t"}]
    body = {"source": names[0], "destination": names[1]}
    held = hold(namespace_moves, "_rewrite", after=True)
    going = in_thread(move, api, "a", "z", "a")
    with standing(held, lambda: in_thread(tree.post, "/tables/rename", body)) as [left]:
        pass
    assert left.result(TIMEOUT_SECONDS).status == 204
    assert arrived((held, going))
    assert tree.get("/namespaces/q/tables/t").status == 200


@pytest.mark.parametrize(
    ("source", "destination", "left"),
    [(["a", "b"], ["q"], "a%1Fb"), (["q"], ["a", "b"], "q"), (["a", "b"], ["a"], "a%1Fb")],
)
def test_a_table_that_left_first(
    api: ApiClient, tree: ApiClient, hold: Any, in_thread: Any, source: list[str], destination: list[str], left: str
) -> None:
    assert tree.post("/namespaces", {"namespace": ["q"]}).status == 200
    assert tree.post("/namespaces/q/tables", {"name": "t", "schema": SCHEMA}).status == 200
    body = {"source": {"namespace": source, "name": "t"}, "destination": {"namespace": destination, "name": "u"}}
    held = hold(change_transaction, "bump_permission_epoch")
    renamed = in_thread(tree.post, "/tables/rename", body)
    with standing(held, lambda: in_thread(move, api, "a", "z", "a")) as [going]:
        pass
    assert renamed.result(TIMEOUT_SECONDS).status == 204
    assert arrived((held, going))
    assert Tabular.objects.get(name="u").namespace.levels == tuple(
        destination if destination == ["q"] else ["z", *destination]
    )


@pytest.mark.parametrize(("dropped_first", "missing"), [("z", "z"), ("a%1Fb%1Fc", None)])
def test_a_move_after_a_drop_of_another_namespace(
    api: ApiClient, tree: ApiClient, hold: Any, in_thread: Any, dropped_first: str, missing: str | None
) -> None:
    """The new parent, or a child that would have moved too. A drop does not lock the warehouse."""
    assert tree.delete(f"/namespaces/{dropped_first}/tables/t").status == 204
    held = hold(drop, "remove_securable")
    deleted = in_thread(tree.delete, f"/namespaces/{dropped_first}")
    with standing(held, lambda: in_thread(move, api, "a", "z", "a")) as [going]:
        pass
    assert deleted.result(TIMEOUT_SECONDS).status == 204
    if missing is None:
        assert going.result(TIMEOUT_SECONDS).status == 200
    else:
        assert going.result(TIMEOUT_SECONDS).refused(404, "NoSuchNamespaceException", missing)
    check_trees()
    assert Namespace.objects.count() == 3


def granting(path: str) -> None:
    """Allow bob to read the table `t` in the namespace."""
    User.objects.get_or_create(pk="oidc~bob", defaults={"name": "Bob"})
    table = Tabular.objects.get(namespace__path=path.replace("/", "\x1f"))
    ref = ObjectRef(Securable.Type.TABLE, table.pk)
    difference = Difference(writes=[GrantSpec("select", Grantee(user_id="oidc~bob"))])
    apply_grants(actor=INTERNAL, ref=ref, difference=difference, missing=NotFound("not found"))


def test_who_grants_while_a_namespace_moves_grants_where_the_table_went(
    tree: ApiClient, moving: Any, in_thread: Any
) -> None:
    held, going = moving
    with standing(held, lambda: in_thread(granting, "a/b")) as [granted]:
        pass
    assert going.result(TIMEOUT_SECONDS).status == 200
    granted.result(TIMEOUT_SECONDS)
    assert Grant.objects.get(user_id="oidc~bob").path.count("namespace:") == 3
    check_trees()


def test_a_grant_before_a_namespace_move_follows_it(api: ApiClient, tree: ApiClient, hold: Any, in_thread: Any) -> None:
    held = hold(change_transaction, "bump_permission_epoch")
    granted = in_thread(granting, "a/b")
    with standing(held, lambda: in_thread(move, api, "a", "z", "a")) as [moved]:
        pass
    granted.result(TIMEOUT_SECONDS)
    assert moved.result(TIMEOUT_SECONDS).status == 200
    assert Grant.objects.get(user_id="oidc~bob").path.count("namespace:") == 3
    check_trees()


def test_a_namespace_that_was_dropped_first_is_not_moved(
    api: ApiClient, tree: ApiClient, hold: Any, in_thread: Any
) -> None:
    assert tree.delete("/namespaces/z/tables/t").status == 204
    held = hold(drop, "remove_securable")
    deleted = in_thread(tree.delete, "/namespaces/z")
    with standing(held, lambda: in_thread(move, api, "z", "y")) as [going]:
        pass
    assert deleted.result(TIMEOUT_SECONDS).status == 204
    assert going.result(TIMEOUT_SECONDS).refused(404, "NoSuchNamespaceException")
    check_trees()


def test_two_moves_into_each_other(api: ApiClient, tree: ApiClient, moving: Any, in_thread: Any) -> None:
    with standing(moving[0], lambda: in_thread(move, api, "z", "a", "z")) as [other]:
        pass
    assert arrived(moving)
    assert other.result(TIMEOUT_SECONDS).refused(404, "NoSuchNamespaceException", "a")
    check_trees()


def some_request(api: ApiClient, catalog: ApiClient, chooses: random.Random) -> Response:
    here, there = (chooses.choices("abc", k=chooses.randint(1, 3)) for _ in range(2))
    location = "%1F".join(here)
    spaces = list(Namespace.objects.order_by("pk").values_list("pk", flat=True)) or [None]
    hidden = Tabular.objects.exclude(deleted_at=None).order_by("pk").values_list("uuid", flat=True)[:2]
    ends = {"source": {"namespace": here, "name": "t"}, "destination": {"namespace": there, "name": "t"}}
    targets = [{"type": "table", "id": str(each)} for each in hidden]
    flags = f"force={chooses.choice(['true', 'false'])}"
    requests = [
        partial(catalog.post, "/namespaces", {"namespace": here}),
        partial(catalog.post, f"/namespaces/{location}/tables", {"name": "t", "schema": SCHEMA}),
        partial(catalog.delete, f"/namespaces/{location}/tables/t?{flags}"),
        partial(catalog.delete, f"/namespaces/{location}?recursive={chooses.choice(['true', 'false'])}&force=true"),
        partial(catalog.post, "/tables/rename", ends),
        partial(api.post, "/deleted-tabulars/undrop", {"targets": targets}),
        partial(api.post, f"/namespace/{chooses.choice(spaces)}/move", {"destination": there}),
    ]
    return chooses.choice([*requests, requests[-1]])()


def test_a_storm(api: ApiClient, catalog: ApiClient, soft_delete: int, in_thread: Any) -> None:
    """Random operations in random order: no deadlock, no error, and every path is correct at the end."""
    for name in "abc":
        catalog.post("/namespaces", {"namespace": [name]})

    def work(seed: int) -> list[tuple[int, str]]:
        chooses, wrong = random.Random(seed), []
        for _ in range(80):
            response = some_request(api, catalog, chooses)
            if response.status not in {200, 204, 400, 404, 409}:
                wrong.append((response.status, response.body.decode()))
            close_old_connections()
        return wrong

    storms = [in_thread(work, seed) for seed in range(4)]
    assert [storm.result(200) for storm in storms] == [[]] * 4
    check_trees()
    expiring = set(Task.objects.live().filter(queue="soft_deletion").values_list("entity_id", flat=True))
    assert set(Tabular.objects.exclude(deleted_at=None).values_list("pk", flat=True)) == expiring
