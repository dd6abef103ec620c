"""Lists check with OpenFGA only the rows that our grants show, as many as a page needs; what only one of both allows
is hidden.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from catalog.models import Tabular
from tenancy.actor import INTERNAL
from tenancy.authz.openfga.store import openfga_store
from tenancy.authz.openfga.tuples import Condition, grant_key
from tenancy.models import Grant, Securable
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.projects import get_project
from tenancy.services.projects import create_project
from tenancy.services.tags import create_tag_definition
from tests.authz.conftest import user
from tests.authz.parity.pair_fixtures import another_user, grant
from tests.catalog_fixtures import SCHEMA
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.openfga_fixtures import choose_openfga, deliver_as_recorded

pytestmark = pytest.mark.django_db

MANY = 20
MAX_BATCH = 3
"""Questions in one request."""

BOB = user("bob")


@pytest.fixture
def bob(by_openfga: object, callers: NamedCallers, monkeypatch: pytest.MonkeyPatch, warehouse: Any) -> CallerClient:
    choose_openfga(monkeypatch, max_batch_check_size=MAX_BATCH)
    callers.user("bob")
    another_user(BOB.user_id)
    return CallerClient("/management/v1", "bob")


def create_tags() -> tuple[list[ObjectRef], str]:
    created = [
        create_tag_definition(
            actor=INTERNAL, project=get_project(None), name=f"t{number}", scope=["table"], value_kind="marker"
        )
        for number in range(MANY)
    ]
    return [ObjectRef(Securable.Type.TAG, each.pk) for each in created], "apply"


def create_projects() -> tuple[list[ObjectRef], str]:
    created = [create_project(actor=INTERNAL, name=f"p{number}") for number in range(MANY)]
    return [ObjectRef(Securable.Type.PROJECT, each.pk) for each in created], "describe"


def create_tables(callers: NamedCallers, warehouse: Any) -> tuple[list[ObjectRef], str]:
    callers.user("maker")
    grant(ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk), "ownership", user_id=another_user("oidc~maker"))
    deliver_as_recorded(openfga_store())
    maker = CallerClient(f"/catalog/v1/{warehouse.pk}", "maker")
    assert maker.post("/namespaces", {"namespace": ["n"]}).status == 200
    deliver_as_recorded(openfga_store())
    for number in range(MANY):
        assert maker.post("/namespaces/n/tables", {"name": f"orders{number:02}", "schema": SCHEMA}).status == 200
    ids = Tabular.objects.order_by("pk").values_list("pk", flat=True)
    return [ObjectRef(Securable.Type.TABLE, each) for each in ids], "describe"


def show(refs: list[ObjectRef], privilege: str) -> None:
    for ref in refs:
        grant(ref, privilege, user_id=BOB.user_id)
    deliver_as_recorded(openfga_store())


def checks_of(requests_sent: list[str], ask: Callable[[], Any]) -> int:
    """Return the number of requests to OpenFGA of the second call, when store and model are cached."""
    ask()
    requests_sent.clear()
    ask()
    assert set(requests_sent) == {"batch-check"}
    return len(requests_sent)


def require_costs(
    ask: Callable[[], list[Any]],
    created: tuple[list[ObjectRef], str],
    requests_sent: list[str],
    *,
    before: int,
    page: int,
) -> None:
    """One visible item of many costs one request, and a page as many as it needs, with one item more.

    `before` is the number of requests for the list itself.
    """
    refs, privilege = created
    show(refs[-1:], privilege)
    assert len(ask()) == 1
    assert checks_of(requests_sent, ask) == before + 1
    show(refs[:-1], privilege)
    assert len(ask()) == page
    assert checks_of(requests_sent, ask) == before + math.ceil((page + 1) / MAX_BATCH)


def test_tags(bob: CallerClient, requests_sent: list[str]) -> None:
    def ask() -> list[Any]:
        response = bob.get(f"/tag-definition?pageSize={MAX_BATCH}")
        return response.json()["tag-definitions"] if response.status == 200 else []

    require_costs(ask, create_tags(), requests_sent, before=1, page=MAX_BATCH)


def test_search(bob: CallerClient, callers: NamedCallers, warehouse: Any, requests_sent: list[str]) -> None:
    def ask() -> list[Any]:
        response = bob.post(f"/warehouse/{warehouse.pk}/search-tabular", {"search": "orders"})
        return response.json()["tabulars"] if response.status == 200 else []

    require_costs(ask, create_tables(callers, warehouse), requests_sent, before=1, page=10)


def test_projects(bob: CallerClient, requests_sent: list[str]) -> None:
    """Without pages: only the projects that can be visible are checked."""

    def ask() -> list[Any]:
        found: list[Any] = bob.get("/project-list").json()["projects"]
        return found

    refs, privilege = create_projects()
    assert ask() == []
    assert checks_of(requests_sent, ask) == 1
    show(refs[-1:], privilege)
    assert [each["project-id"] for each in ask()] == [refs[-1][1]]
    assert checks_of(requests_sent, ask) == 2
    show(refs[:-1], privilege)
    assert len(ask()) == MANY
    assert checks_of(requests_sent, ask) == 1 + math.ceil(MANY / MAX_BATCH)


def test_what_only_one_of_both_shows_is_hidden(bob: CallerClient) -> None:
    refs, privilege = create_projects()
    show(refs[:2], privilege)
    only_there = grant_key(securable_id(*refs[2]), privilege, user_id=BOB.user_id, role_id=None)
    only_in_rows = grant_key(securable_id(*refs[1]), privilege, user_id=BOB.user_id, role_id=None)
    openfga_store().write({only_there: Condition(None)}, [only_in_rows])
    assert Grant.objects.filter(user_id=BOB.user_id).count() == 2
    assert [each["project-id"] for each in bob.get("/project-list").json()["projects"]] == [refs[0][1]]
