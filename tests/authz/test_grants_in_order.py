"""Requests that move or end many grants lock their rows in one order, without a deadlock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.models import Grant, Role, RoleMember, Securable, User
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.models.user import SERVICE_ACCOUNT_PREFIX
from tenancy.selectors.projects import get_project
from tenancy.services.roles import delete_role
from tenancy.services.users import create_service_account, delete_service_account, delete_user
from tests.authz.conftest import good
from tests.authz.test_drops_during_grants import call
from tests.authz.test_rights_revoked_concurrently import wait_until_one_waits
from tests.authz.tree_fixtures import role
from tests.harness.named_callers import CallerClient

pytestmark = [
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.timeout(120),
    pytest.mark.both_databases,
]

ON = ["closed.deep", "closed.deep.a", "closed.deep.b"]
PRIVILEGES = ["describe", "modify", "select"]


@pytest.fixture(autouse=True)
def only_postgres(lake: dict[str, ObjectRef]) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this: on SQLite writers wait for each other as a whole")


def grant_all(lake: dict[str, ObjectRef], names: list[str], *, step: int = -1, **grantee: Any) -> list[UUID]:
    """Create grants to one principal, with ids against or in the order of every other column; return the sorted ids."""
    objects = sorted(
        (Securable.objects.get(pk=securable_id(*lake[name])) for name in names), key=lambda each: each.path
    )
    number = 1_000
    for on in objects:
        for privilege in PRIVILEGES:
            number += step
            Grant.objects.create_on(id=UUID(int=number), securable_id=on.pk, privilege=privilege, **grantee)
    return sorted(Grant.objects.filter(**grantee).values_list("pk", flat=True))


def require_in_order(ids: list[UUID], act: Callable[[], Any]) -> None:
    """Assert that `act` waits for the first of the grants before it has locked any other."""
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            Grant.objects.select_for_update().get(pk=ids[0])
            done = pool.submit(call, act)
            wait_until_one_waits()
            free = Grant.objects.filter(pk__in=ids).order_by("pk").select_for_update(skip_locked=True)
            assert list(free.values_list("pk", flat=True)) == ids
        assert not isinstance(done.result(60), Exception)


def test_a_user_who_is_deleted(lake: dict[str, ObjectRef]) -> None:
    User.objects.create(id="oidc~bob", name="Bob")
    ids = grant_all(lake, ON, user_id="oidc~bob")
    require_in_order(ids, lambda: delete_user(actor=INTERNAL, user_id="oidc~bob"))
    assert not Grant.objects.filter(pk__in=ids).exists()


def test_a_service_account_that_is_deleted(lake: dict[str, ObjectRef]) -> None:
    account = create_service_account(actor=INTERNAL, name="robot")
    ids = grant_all(lake, ON, user_id=f"{SERVICE_ACCOUNT_PREFIX}{account.pk}")
    require_in_order(ids, lambda: delete_service_account(actor=INTERNAL, account_id=account.pk))
    assert not Grant.objects.filter(pk__in=ids).exists()


def test_a_role_that_is_deleted(lake: dict[str, ObjectRef]) -> None:
    team = role("team")
    ids = grant_all(lake, ON, role_id=team.pk)
    require_in_order(ids, lambda: delete_role(actor=INTERNAL, project=get_project(None), role_id=team.pk))
    assert not Grant.objects.filter(pk__in=ids).exists()
    assert not Role.objects.exists()
    assert not RoleMember.objects.exists()


MOVES: dict[str, tuple[list[str], Callable[[CallerClient, CallerClient, str, dict[str, ObjectRef]], Any]]] = {
    "a namespace moves": (ON, lambda catalog, manage, base, lake: manage.post(
        f"{base}/namespace/{lake['closed.deep'][1]}/move", {"destination": ["open", "deep"]}
    )),
    "a table moves": (["closed.deep.a"], lambda catalog, manage, base, lake: catalog.post("/tables/rename", {
        "source": {"namespace": ["closed", "deep"], "name": "a"}, "destination": {"namespace": ["open"], "name": "c"},
    })),
    "a table goes": (["closed.deep.a"], lambda catalog, manage, base, lake: catalog.delete(
        "/namespaces/closed%1Fdeep/tables/a"
    )),
    "a namespace goes with what is in it": (ON, lambda catalog, manage, base, lake: catalog.delete(
        "/namespaces/closed%1Fdeep?recursive=true&force=true"
    )),
}  # fmt: skip


@pytest.mark.parametrize("step", [-1, 1])
@pytest.mark.parametrize("what", MOVES)
def test_objects(
    what: str,
    step: int,
    lake: dict[str, ObjectRef],
    warehouse: Warehouse,
    client: Callable[[str], CallerClient],
    manage: Callable[[str], CallerClient],
) -> None:
    User.objects.create(id="oidc~bob", name="Bob")
    names, act = MOVES[what]
    ids = grant_all(lake, names, step=step, user_id="oidc~bob")
    catalog, management = client("root"), manage("root")
    require_in_order(ids, lambda: good(act(catalog, management, f"/warehouse/{warehouse.pk}", lake)))
    for grant in Grant.objects.select_related("securable").filter(pk__in=ids):
        assert grant.path == grant.securable.path
