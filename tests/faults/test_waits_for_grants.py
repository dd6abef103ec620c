"""A change of grants on an object that another transaction has locked fails after a bounded wait, without changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from django.db import connection, connections, transaction

from icekeeper.kernel.db import transactions
from icekeeper.kernel.db.sql import lock_row
from storage.models import Warehouse
from tenancy.models import Grant, Securable, User
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.services.grants import grant_lock_timeout
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient, Response

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.timeout(120)]

TIMEOUT_SECONDS = 30
SHORT = 0.2
WRITES = {"writes": [{"privilege": "select", "principal": {"user": "oidc~bob"}}]}

CHANGES: dict[str, Callable[[ApiClient, str], Response]] = {
    "grants": lambda api, location: api.post(f"{location}/grants", WRITES),
    "managed access": lambda api, location: api.post(
        f"/permissions{location}/managed-access", {"managed-access": True}
    ),
    "assignments": lambda api, location: api.post(
        f"/permissions{location}/assignments", {"writes": [{"type": "select", "user": "oidc~bob"}]}
    ),
}


@pytest.fixture
def location(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> str:
    """A warehouse path below `/management/v1`; bob is a known user without grants on it."""
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this: SQLite has no row to lock")
    monkeypatch.setattr(transactions, "MAX_LOCK_WAIT_SECONDS", SHORT)
    User.objects.create(id="oidc~bob", name="bob")
    return f"/warehouse/{warehouse.pk}"


@contextmanager
def held(ref: ObjectRef) -> Iterator[None]:
    """Lock the row of the object from another session for the duration of the context."""
    is_held, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                lock_row(Securable, "id = %s", [securable_id(*ref)])
                is_held.set()
                assert may_go.wait(TIMEOUT_SECONDS)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        try:
            assert is_held.wait(TIMEOUT_SECONDS)
            yield
        finally:
            may_go.set()
            holding.result(TIMEOUT_SECONDS)


def test_three_seconds_are_waited() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this: SQLite has no row to lock")
    with (
        transaction.atomic(),
        transactions.limited_lock_wait(grant_lock_timeout()),
        connection.cursor() as cursor,
    ):
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("3s",)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_gives_up_and_works_later(
    location: str, warehouse: Warehouse, everything: Callable[[], Fingerprint], change: str
) -> None:
    api, before = ApiClient("/management/v1"), everything()
    with held(ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk)):
        response = CHANGES[change](api, location)
        assert response.refused(409, "GrantLockTimeout")
        assert response.error["message"] == "Others are changing the same grants; try again"
        assert everything() == before
    assert CHANGES[change](api, location).status in {200, 204}
    assert everything() != before


def test_who_reads_or_changes_something_else_does_not_wait(location: str, warehouse: Warehouse) -> None:
    api = ApiClient("/management/v1")
    describe = {"writes": [{"privilege": "describe", "principal": {"user": "oidc~bob"}}]}
    with held(ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk)):
        assert api.get(f"{location}/grants").status == 200
        assert api.post("/project/grants", describe).status in {200, 204}
    granted = Grant.objects.filter(user_id="oidc~bob").values_list("privilege", "securable__type").get()
    assert granted == ("describe", "project")
