"""What the built-in evaluator reads for who holds much: what is asked about, and not all that they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from icekeeper.kernel import sql
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.authz.builtin import records
from tenancy.authz.builtin.records import Asker
from tenancy.authz.securables import Ref, securable_id
from tenancy.models import Grant, Role, Securable, User
from tests.authz.trees import make_tree, role
from tests.iceberg_rest.test_listing_plans import rows_read

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("bootstrapped", "builtin")]

MANY, LIMIT = 3_000, 11
WHO = Asker("oidc~busy", None, "", ())
FIRST = UUID(int=0)


@pytest.fixture
def tree(warehouse: Warehouse) -> dict[str, Ref]:
    """In the namespace `inner` somebody owns many tables, and a role they are in may read as many others."""
    made = make_tree(warehouse)
    User.objects.create(id=WHO.user_id, name="Busy")
    parent = Securable.objects.get(pk=securable_id(*made["inner"]))
    for grantee in ({"user_id": WHO.user_id}, {"role": role("readers")}):
        tables = [
            Securable(id=own_id, type="table", object_id=own_id[6:], parent=parent, path=f"{parent.path}{own_id}/")
            for own_id in (f"table:{new_id()}" for _ in range(MANY))
        ]
        Securable.objects.bulk_create(tables, batch_size=500)
        Grant.objects.bulk_create(
            [Grant(securable=each, path=each.path, privilege="ownership", **grantee) for each in tables], batch_size=500
        )
    return made


Ask = Callable[[list[UUID], dict[str, Ref]], object]

ASKED: dict[str, tuple[Ask, int]] = {
    "all that shows where nothing does": (
        lambda roles, tree: records.read_all_shown_children(WHO, roles, tree["other"], "table", after=FIRST),
        LIMIT,
    ),
    "the namespaces in which something shows, where nothing does": (
        lambda roles, tree: records.read_shown_children(
            WHO, roles, tree["other"], "namespace", after=FIRST, limit=LIMIT
        ),
        LIMIT,
    ),
    "a page of one's own": (
        lambda _, tree: records.read_shown_children(WHO, [], tree["inner"], "table", after=FIRST, limit=LIMIT),
        LIMIT,
    ),
    "a page of one's own and of roles": (
        lambda roles, tree: records.read_shown_children(WHO, roles, tree["inner"], "table", after=FIRST, limit=LIMIT),
        MANY + LIMIT,
    ),
    "whether anything shows below": (
        lambda roles, tree: records.read_shows_below(WHO, roles, [securable_id(*tree["wh"])]),
        MANY,  # entries of an index at most, of which one row is read
    ),
    "whether anything shows below where nothing does": (
        lambda roles, tree: records.read_shows_below(WHO, roles, [securable_id(*tree["other"])]),
        LIMIT,
    ),
    "what is held on one": (
        lambda roles, tree: records.read_held(
            WHO, roles, [securable_id(*tree["inner"])], below=[securable_id(*tree["inner"])]
        ),
        MANY,
    ),
}


@pytest.mark.parametrize("what", ASKED)
def test_rows_that_are_read(what: str, tree: dict[str, Ref], monkeypatch: pytest.MonkeyPatch) -> None:
    ask, most = ASKED[what]
    sent: list[tuple[str, Any]] = []

    def fetch_all(alias: str, statement: str, params: list[Any]) -> list[Any]:
        sent.append((statement, params))
        return sql.fetch_all(alias, statement, params)

    monkeypatch.setattr(records, "fetch_all", fetch_all)
    ask([Role.objects.get().pk], tree)
    ((statement, params),) = sent
    if connection.vendor == "postgresql":
        assert rows_read(statement, params) <= most
        return
    with connection.cursor() as cursor:  # which tells no rows, and has never been told what the tables hold
        converted = [sql._as_sqlite(connection, each) for each in params]
        cursor.execute(f"EXPLAIN QUERY PLAN {sql._for_sqlite(statement)}", converted)
        steps = [row[3] for row in cursor.fetchall()]
    by_path = {each.split("INDEX ")[1].split(" ")[0] for each in steps if "path>? AND path<?" in each}
    assert [each for each in steps if each.startswith("SCAN g")] == []
    assert by_path == {"grant_of_user", "grant_of_role"}, steps
