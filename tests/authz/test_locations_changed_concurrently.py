"""Changes of a location during a concurrent request, and the errors that they cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from django.db import connection, connections, transaction

from catalog.models import Namespace, Tabular
from catalog.services.tables.drop import retire
from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import NotFound
from icekeeper.kernel.names import LEVEL_SEPARATOR
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.authz.permission_epoch import bump_permission_epoch
from tenancy.models import Grant
from tenancy.models.securable import ObjectRef
from tenancy.services.grants import set_managed_access
from tests.authz.conftest import good, user
from tests.authz.test_rights_revoked_concurrently import EARLIER, no_recorded_permissions, wait_until_one_waits
from tests.authz.tree_fixtures import give
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient
from tests.harness.wsgi_client import Response

pytestmark = pytest.mark.both_databases

Client = Callable[[str], CallerClient]
Everything = Callable[[], Fingerprint]
ALICE, BOB = user("alice"), user("bob")
OUT = {"source": {"namespace": ["closed"], "name": "a"}, "destination": {"namespace": ["open"], "name": "mine"}}


@contextmanager
def meanwhile(change: Callable[[], object]) -> Iterator[None]:
    """Run a concurrent change at the first write of a request."""
    begin_write, left = request_context.begin_write, [change]

    def begin() -> None:
        if left:
            with no_recorded_permissions():
                left.pop()()
        begin_write()

    with mock.patch.object(request_context, "begin_write", begin):
        yield
    assert not left


def manage_access(*locations: ObjectRef, is_managed: bool = True) -> None:
    for location in locations:
        set_managed_access(actor=INTERNAL, ref=location, is_managed=is_managed, missing=NotFound("no"))


# --- what a rename gains -------------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("privilege", "change"),
    [
        pytest.param("ownership", lambda lake: manage_access(lake["closed"]), id="managed access of where it lies"),
        pytest.param("modify", lambda lake: give("manage_grants", lake["open"], ALICE), id="grants of where it goes"),
    ],
)
def test_a_rename_gains_nothing_by_what_others_change_meanwhile(
    client: Client, lake: dict[str, ObjectRef], everything: Everything, privilege: str, change: Callable[[Any], object]
) -> None:
    give(privilege, lake["closed.a"], ALICE)
    give("create", lake["open"], ALICE)
    alice, seen = client("alice"), []

    def change_and_look() -> None:
        change(lake)
        seen.append(everything())

    with meanwhile(change_and_look):
        assert alice.post("/tables/rename", OUT).refused(403, "TableActionForbidden")
    assert [everything()] == seen
    assert alice.post("/tables/rename", OUT).refused(403, "TableActionForbidden")
    give("manage_grants", lake["closed.a"], ALICE)
    good(alice.post("/tables/rename", OUT))


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change",
    [
        lambda lake: give("manage_grants", lake["open"], BOB),
        lambda lake: manage_access(lake["closed"], lake["open"]),
        lambda lake: manage_access(lake["closed.deep"]),
    ],
)
def test_a_rename_is_not_refused_for_what_gives_the_mover_nothing(
    client: Client, lake: dict[str, ObjectRef], change: Callable[[Any], object]
) -> None:
    give("ownership", lake["closed.a"], ALICE)
    give("create", lake["open"], ALICE)
    alice = client("alice")
    with meanwhile(lambda: change(lake)):
        good(alice.post("/tables/rename", OUT))
    assert Tabular.objects.get(pk=lake["closed.a"][1]).name == "mine"


@pytest.mark.django_db
def test_a_table_that_is_dropped_meanwhile_is_missing_whatever_would_be_gained(
    client: Client, lake: dict[str, ObjectRef]
) -> None:
    give("modify", lake["closed.a"], ALICE)
    give("create", lake["open"], ALICE)
    alice = client("alice")

    def change() -> None:
        give("manage_grants", lake["open"], ALICE)
        retire(list(Tabular.objects.filter(pk=lake["closed.a"][1])))

    with meanwhile(change):
        assert alice.post("/tables/rename", OUT).refused(404, "NoSuchTableException", "closed.a")


# --- what is lost while a lock is waited for -----------------------------------------------------------------------


def manage(alice: CallerClient, target: str, body: object) -> Response:
    return CallerClient(f"/management/v1/warehouse/{Warehouse.objects.get().pk}", alice.token).post(target, body)


def move(alice: CallerClient) -> Response:
    moved = Namespace.objects.get(path="closed.deep".replace(".", LEVEL_SEPARATOR))
    return manage(alice, f"/namespace/{moved.pk}/move", {"destination": ["open", "deep"]})


def protect(alice: CallerClient) -> Response:
    location = Namespace.objects.get(path="closed")
    return manage(alice, f"/namespace/{location.pk}/protection", {"protected": True})


def undrop(alice: CallerClient) -> Response:
    dropped = Tabular.objects.get(deleted_at__isnull=False)
    return manage(alice, "/deleted-tabulars/undrop", {"targets": [{"type": "table", "id": str(dropped.uuid)}]})


EVERYTHING = "recursive=true&force=true"
WAITING: dict[str, tuple[str, Callable[[CallerClient], Response]]] = {
    "rename at the table": ("closed.a", lambda alice: alice.post("/tables/rename", OUT)),
    "rename at where it goes": ("open", lambda alice: alice.post("/tables/rename", OUT)),
    "properties": ("closed", lambda alice: alice.post("/namespaces/closed/properties", {"updates": {"k": "v"}})),
    "drop of a namespace": ("closed.deep", lambda alice: alice.delete("/namespaces/closed%1Fdeep")),
    "namespace below": ("closed", lambda alice: alice.post("/namespaces", {"namespace": ["closed", "n"]})),
    "move of a namespace": ("closed.deep", move),
    "drop of everything": ("closed.deep.a", lambda alice: alice.delete("/namespaces/closed%1Fdeep?" + EVERYTHING)),
    "undrop": ("closed.b", undrop),
    "protection": ("closed", protect),
}


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
@pytest.mark.parametrize("what", WAITING)
def test_a_right_revoked_while_waiting_for_a_row_changes_nothing(
    what: str, client: Client, lake: dict[str, ObjectRef], everything: Everything
) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this: on SQLite nothing waits between the check and the write")
    held, act = WAITING[what]
    for location in ("closed", "open"):
        give("ownership", lake[location], ALICE)
    Warehouse.objects.update(delete_profile={"type": "soft", "expiration-seconds": 3600})
    good(client("root").delete("/namespaces/closed/tables/b"))
    alice, hers = client("alice"), Grant.objects.filter(user_id=ALICE.user_id)
    model = Tabular if lake[held][0].value == "table" else Namespace

    def ask() -> Response:
        try:
            return act(alice)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            assert list(model.objects.select_for_update().filter(pk=lake[held][1]))
            response = pool.submit(ask)
            wait_until_one_waits()
            assert hers.update(expires_at=EARLIER)
            bump_permission_epoch()
            before = everything()
        refused = response.result(60)
    assert refused.status == 403, refused.body
    assert refused.error["type"].endswith("ActionForbidden")
    assert everything() == before
