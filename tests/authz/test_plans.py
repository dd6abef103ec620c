"""Query plans of the built-in evaluator for principals with many grants: only rows of checked objects are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.objects import list_grants_of_for
from icekeeper.kernel.db import sql
from icekeeper.kernel.http.paging import Page
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Grantee
from tenancy.authz import explanation
from tenancy.authz.access_review import read_path
from tenancy.authz.builtin import queries
from tenancy.authz.explanation import Rows
from tenancy.authz.port import Subject
from tenancy.authz.role_paths import Entry, Membership, RolePath
from tenancy.models import Grant, Role, Securable, User
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.principal_reviews import PrincipalReview
from tenancy.selectors.projects import get_project
from tests.authz.tree_fixtures import create_tree, role
from tests.iceberg_rest.test_listing_plans import rows_read

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("bootstrapped", "builtin"), pytest.mark.both_databases]

MANY, LIMIT = 3_000, 11
WHO = Subject("oidc~busy", None, "", ())
FIRST = UUID(int=0)


def grant_many(child_type: str, ref: ObjectRef, **grant: Any) -> None:
    """Create a grant on each of many new children, on SQLite of a few: its plans do not depend on the rows."""
    parent = Securable.objects.get(pk=securable_id(*ref))
    ids = [f"{child_type}:{new_id()}" for _ in range(MANY if connection.vendor == "postgresql" else LIMIT)]
    shared = {"type": child_type, "parent": parent}
    children = [
        Securable(id=each, object_id=each.partition(":")[2], path=f"{parent.path}{each}/", **shared) for each in ids
    ]
    Securable.objects.bulk_create(children, batch_size=500)
    Grant.objects.bulk_create([Grant(securable=each, path=each.path, **grant) for each in children], batch_size=500)


@pytest.fixture
def tree(warehouse: Warehouse) -> dict[str, ObjectRef]:
    """In the namespace `inner` a user owns many tables, and one of the user's roles may read as many others."""
    created = create_tree(warehouse)
    User.objects.create(id=WHO.user_id, name="Busy")
    for grantee in ({"user_id": WHO.user_id}, {"role": role("readers")}):
        grant_many("table", created["inner"], privilege="ownership", **grantee)
    return created


Ask = Callable[[list[UUID], dict[str, ObjectRef]], object]

ASKED: dict[str, tuple[Ask, int]] = {
    "all that shows where nothing does": (
        lambda roles, tree: queries.read_all_shown_children(WHO, roles, tree["other"], "table", after=FIRST),
        LIMIT,
    ),
    "what shows in several namespaces": (
        lambda roles, tree: queries.read_shown_leaves(WHO, roles, [tree["inner"], tree["other"]], "table"),
        3 * MANY,
    ),
    "what shows in several namespaces where nothing does": (
        lambda roles, tree: queries.read_shown_leaves(WHO, roles, [tree["other"]] * 2, "table"),
        LIMIT,
    ),
    "the namespaces in which something shows, where nothing does": (
        lambda roles, tree: queries.read_shown_children(
            WHO, roles, tree["other"], "namespace", after=FIRST, limit=LIMIT
        ),
        LIMIT,
    ),
    "the namespaces in which something shows, all in one": (
        lambda roles, tree: queries.read_shown_children(WHO, roles, tree["wh"], "namespace", after=FIRST, limit=LIMIT),
        LIMIT,
    ),
    "a page of one's own": (
        lambda _, tree: queries.read_shown_children(WHO, [], tree["inner"], "table", after=FIRST, limit=LIMIT),
        LIMIT,
    ),
    "a page of one's own and of roles": (
        lambda roles, tree: queries.read_shown_children(WHO, roles, tree["inner"], "table", after=FIRST, limit=LIMIT),
        MANY + LIMIT,
    ),
    "whether anything shows below": (
        lambda roles, tree: queries.read_shows_below(WHO, roles, [securable_id(*tree["wh"])]),
        MANY,  # at most so many index entries, of which one row is read
    ),
    "whether anything shows below where nothing does": (
        lambda roles, tree: queries.read_shows_below(WHO, roles, [securable_id(*tree["other"])]),
        LIMIT,
    ),
    "what is held on one": (
        lambda roles, tree: queries.read_grants_on_paths(
            WHO, roles, [securable_id(*tree["inner"])], below=[securable_id(*tree["inner"])]
        ),
        MANY,
    ),
    "why something shows below where nothing does": (lambda roles, tree: shown_below(roles, tree["other"]), LIMIT),
    "the first of many namespaces that were granted one by one": (lambda _, tree: first_namespaces(tree), 2 * LIMIT),
}
"""What is asked, and how many rows of each step are read at most. The last one grants more."""


def first_namespaces(tree: dict[str, ObjectRef]) -> object:
    """Each is read from the index: a sort of all of them for each would take PostgreSQL a second for a thousand."""
    grant_many("namespace", tree["wh"], privilege="select", user_id=WHO.user_id)
    return queries.read_shown_children(WHO, [], tree["wh"], "namespace", after=FIRST, limit=LIMIT)


def shown_below(roles: list[UUID], ref: ObjectRef) -> object:
    path = read_path(securable_id(*ref))
    ways = {each: RolePath((Membership(each, Entry.MEMBER),)) for each in roles}
    return Rows(WHO, path, ways, {}).shown_below(len(path) - 1)


def test_rows_that_are_read(
    tree: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    sent: list[tuple[str, Any]] = []

    def fetch_all(alias: str, statement: str, params: list[Any]) -> list[Any]:
        sent.append((statement, params))
        return sql.fetch_all(alias, statement, params)

    for module in (queries, explanation):
        monkeypatch.setattr(module, "fetch_all", fetch_all)
    for what, (ask, most) in ASKED.items():
        with subtests.test(what=what):
            sent.clear()
            ask([Role.objects.get().pk], tree)
            ((statement, params),) = sent
            if connection.vendor == "postgresql":
                assert rows_read(statement, params) <= most
            else:
                steps = sqlite_steps(statement, params)
                by_path = {each.split("INDEX ")[1].split(" ")[0] for each in steps if "path>? AND path<?" in each}
                assert [each for each in steps if re.match(r"SCAN g\b", each)] == []
                assert by_path == {"grant_of_user", "grant_of_role"}, steps


def sqlite_steps(statement: str, params: list[Any]) -> list[str]:
    """Return the steps of a plan. SQLite plans without rows or statistics about the size of the tables."""
    with connection.cursor() as cursor:
        converted = [sql._as_sqlite(connection, each) for each in params]
        cursor.execute(f"EXPLAIN QUERY PLAN {sql._for_sqlite(statement)}", converted)
        return [row[3] for row in cursor.fetchall()]


def test_lists_of_a_users_grants_use_the_paths_of_the_grants(tree: dict[str, ObjectRef]) -> None:
    """Object rows are not looked up for each grant, because most grants are not on the page."""
    project, grantee = get_project(None), Grantee(user_id=WHO.user_id)
    page = Page("grants", token=None, limit=5)
    with CaptureQueriesContext(connection) as sent:
        held, _ = list_grants_of_for(actor=INTERNAL, project=project, grantee=grantee, page=page)
        locations = PrincipalReview(WHO).sources(project, after=FIRST, limit=5)
    assert (len(held), len(locations)) == (0, 5)
    of_grants = [each["sql"] for each in sent.captured_queries if 'FROM "tenancy_grant"' in each["sql"]]
    assert len(of_grants) == 2
    assert [each for each in of_grants if "tenancy_securable" in each] == []
