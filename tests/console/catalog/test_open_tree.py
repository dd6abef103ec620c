"""The levels of an open tree are those of the lists of each level, in a number of statements that its depth does not
change."""

from __future__ import annotations

from uuid import UUID

import pytest

from catalog.models import Tabular
from catalog.selectors.children import Child, list_children_for
from catalog.selectors.open_levels import read_open_levels_for
from icekeeper.kernel.errors.types import NotFound
from icekeeper.kernel.http.paging import Page
from tenancy.actor import Actor
from tenancy.authz.port import VisibleChildren, authorizer
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import user
from tests.authz.tree_fixtures import give
from tests.console.test_rights import Ids, grants, ids  # noqa: F401 - fixtures
from tests.harness.statement_counts import counting

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.both_databases]

NAMESPACES = (("open",), ("closed",), ("closed", "deep"))


def rest_of(actor: Actor, warehouse_id: UUID, namespace_id: UUID | None, token: str | None) -> list[Child]:
    found: list[Child] = []
    while token is not None:
        page = Page("tree", token, 2)
        children, token = list_children_for(
            actor=actor, warehouse_id=warehouse_id, namespace_id=namespace_id, page=page
        )
        found += children
    return found


@pytest.mark.parametrize("is_exact", [True, False])
def test_levels_are_those_of_the_lists(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    lake: dict[str, ObjectRef],
    monkeypatch: pytest.MonkeyPatch,
    is_exact: bool,
) -> None:
    for name in ("closed.deep.v", "closed.b"):
        give("select", lake[name], user("engineer"))
    give("describe", lake["closed.a"], user("guest"))
    Tabular.objects.filter(pk=lake["closed.a"].id).update(deleted_at=Tabular.objects.values("created_at")[:1])
    own_visible_children = authorizer().visible_children

    def with_hidden_ones(actor: Actor, *, warehouse_id: UUID) -> VisibleChildren | None:
        found = own_visible_children(actor, warehouse_id=warehouse_id)
        assert found is not None
        of_each = {above: [*below, *(ref.id for ref in lake.values())] for above, below in found.ids.items()}
        return VisibleChildren(of_each, is_exact=False)

    if not is_exact:
        monkeypatch.setattr(authorizer(), "visible_children", with_hidden_ones)
    warehouse_id = UUID(ids.warehouse)
    namespace_ids = [UUID(str(lake[".".join(each)].id)) for each in NAMESPACES]
    for name in ("lead", "engineer", "guest", "instance"):
        actor = user(name)
        for size in (1, 2, 3, 100):
            with counting() as counted:
                levels = read_open_levels_for(
                    actor=actor, warehouse_id=warehouse_id, namespace_ids=namespace_ids, page=Page("tree", None, size)
                )
            assert counted["statements"] <= 8
            assert levels is not None
            for (children, token), namespace_id in zip(levels, (None, *namespace_ids), strict=True):
                assert len(children) <= size
                found = children + rest_of(actor, warehouse_id, namespace_id, token)
                try:
                    page = Page("tree", None, 100)
                    expected, _ = list_children_for(
                        actor=actor, warehouse_id=warehouse_id, namespace_id=namespace_id, page=page
                    )
                except NotFound:  # the namespace is hidden
                    expected = []
                assert found == expected, (name, size, namespace_id)
