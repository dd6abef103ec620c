"""Grants of an earlier version: where they lie is read from what they are on, by a migration."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.state import StateApps

from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.authz.refs import Ref, securable_id
from tenancy.models import Grant, Securable, User
from tests.authz.trees import make_tree, role

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.both_databases]

FORMER = "0010_undelivered_tuples"
INDEXES = {"grant_of_user", "grant_of_role"}


def migrate(number: str | None) -> StateApps:
    """Bring `tenancy` to a migration, or everything to the newest; returns the models of then."""
    executor = MigrationExecutor(connection)
    targets: Any = executor.loader.graph.leaf_nodes() if number is None else [("tenancy", number)]
    return executor.migrate(targets).apps


@pytest.fixture
def tree(warehouse: Warehouse) -> dict[str, Ref]:
    User.objects.create(id="oidc~ann", name="Ann")
    made = make_tree(warehouse) | {"role": (Securable.Type.ROLE, role("staff").pk)}
    assert {ref[0] for ref in made.values()} == set(Securable.Type) - {Securable.Type.USER}
    return made


@pytest.fixture
def former(tree: dict[str, Ref]) -> Iterator[StateApps]:
    """The models of the version before, whose tables there are while the test has them."""
    yield migrate(FORMER)
    migrate(None)


def grant_everything(models: StateApps, tree: dict[str, Ref]) -> dict[UUID, str]:
    """By the former version, on every kind of object: to a user, to a role, and one that has ended. By id, on what."""
    old = models.get_model("tenancy", "Grant")
    made: dict[UUID, str] = {}
    for ref in tree.values():
        for given in (
            {"privilege": "ownership", "user_id": "oidc~ann", "owned_role_id": _owned(ref)},
            {"privilege": "select", "role_id": tree["role"][1]},
            {"privilege": "modify", "user_id": "oidc~ann", "expires_at": now() - timedelta(days=1)},
        ):
            row = old.objects.create(id=new_id(), securable_id=securable_id(*ref), **given)
            made[row.pk] = row.securable_id
    return made


def _owned(ref: Ref) -> object:
    return ref[1] if ref[0] is Securable.Type.ROLE else None


def indexes() -> set[str]:
    with connection.cursor() as cursor:
        return set(connection.introspection.get_constraints(cursor, Grant._meta.db_table)) & INDEXES


def test_grants_know_where_they_lie_after_the_upgrade(former: StateApps, tree: dict[str, Ref]) -> None:
    made = grant_everything(former, tree)
    before = list(former.get_model("tenancy", "Grant").objects.order_by("id").values())
    assert (len(made), indexes()) == (3 * len(tree), set())
    migrate(None)
    paths = dict(Securable.objects.values_list("pk", "path"))
    assert dict(Grant.objects.values_list("pk", "path")) == {pk: paths[on] for pk, on in made.items()}
    assert paths[securable_id(*tree["table"])].startswith(paths[securable_id(*tree["outer"])])
    assert indexes() == INDEXES
    after = list(Grant.objects.order_by("id").values())
    assert [{name: value for name, value in row.items() if name != "path"} for row in after] == before
    with pytest.raises(IntegrityError, match="grant_has_a_place"), transaction.atomic():
        Grant.objects.update(path="")


def test_without_grants_there_is_nothing_to_fill(former: StateApps) -> None:
    migrate(None)
    assert (Grant.objects.count(), indexes()) == (0, INDEXES)


def test_the_way_back_keeps_the_grants(tree: dict[str, Ref]) -> None:
    on = Securable.objects.get(pk=securable_id(*tree["table"]))
    made = Grant.objects.create(securable=on, user_id="oidc~ann", privilege="select")
    try:
        (row,) = migrate(FORMER).get_model("tenancy", "Grant").objects.values()
    finally:
        migrate(None)
    assert (row["id"], row["securable_id"], row["user_id"], row["privilege"]) == (made.pk, on.pk, "oidc~ann", "select")
    assert Grant.objects.get().path == on.path
