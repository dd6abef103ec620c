"""`visible_to` of namespaces, tables and views agrees with a permission check per object."""

from __future__ import annotations

import pytest

from catalog.models import Namespace, Tabular
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Actor
from tenancy.authz.actions import Can
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.model import rights_model
from tenancy.authz.permissions import is_allowed
from tenancy.authz.securables import add_securable
from tenancy.models import Grant, User
from tenancy.models.securable import ObjectRef, securable_id
from tests.authz.tree_fixtures import T, create_tree, give

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.usefixtures("builtin")]

ALICE = Actor(user_id="oidc~alice")
KINDS = {T.TABLE: Tabular.Kind.TABLE, T.VIEW: Tabular.Kind.VIEW, T.GENERIC_TABLE: Tabular.Kind.GENERIC_TABLE}


@pytest.fixture
def tree(warehouse: Warehouse) -> dict[str, ObjectRef]:
    """The tree of `create_tree`, with the rows of its namespaces, table, view and generic table."""
    User.objects.get_or_create(id=ALICE.user_id, defaults={"name": "Alice"})
    tree = create_tree(warehouse)
    for name, ref in tree.items():
        if ref.type is T.NAMESPACE:
            Namespace.objects.create(pk=ref.id, warehouse=warehouse, path=name, path_key=name)
    for name, parent in (("table", "inner"), ("generic", "inner"), ("view", "other")):
        add_tabular(warehouse, tree[name], tree[parent], name)
    return tree


def add_tabular(warehouse: Warehouse, ref: ObjectRef, parent: ObjectRef, name: str) -> None:
    Tabular.objects.create(
        pk=ref.id,
        warehouse=warehouse,
        namespace_id=parent.id,
        kind=KINDS[ref.type],
        uuid=new_id(),
        name=name,
        name_key=name,
        location=f"{warehouse.location}/{name}",
    )


def visible_one_by_one() -> tuple[set[Namespace], set[Tabular]]:
    namespaces = {row for row in Namespace.objects.all() if is_allowed(ALICE, Can.GET_METADATA, T.NAMESPACE, row.pk)}
    tabulars = {row for row in Tabular.objects.all() if is_allowed(ALICE, Can.GET_METADATA, T(row.kind), row.pk)}
    return namespaces, tabulars


@pytest.mark.parametrize("privilege", ["describe", "select", "modify", "create", "ownership"])
def test_each_grant_shows_what_it_allows(
    builtin: BuiltinAuthorizer, tree: dict[str, ObjectRef], privilege: str
) -> None:
    for ref in tree.values():
        if privilege not in rights_model().privileges(ref.type.value):
            continue
        grant = Grant.objects.create_on(securable_id=securable_id(*ref), privilege=privilege, user_id=ALICE.user_id)
        builtin.clear_caches()
        seen = set(Namespace.objects.visible_to(ALICE)), set(Tabular.objects.visible_to(ALICE))
        assert seen == visible_one_by_one(), ref
        grant.delete()


def test_without_grants_nothing_is_visible_and_the_server_itself_sees_all(tree: dict[str, ObjectRef]) -> None:
    assert list(Namespace.objects.visible_to(ALICE)) == []
    assert list(Tabular.objects.visible_to(ALICE)) == []
    assert Namespace.objects.visible_to(INTERNAL).count() == 3
    assert Tabular.objects.visible_to(INTERNAL).count() == 3


def test_filters_and_pages(tree: dict[str, ObjectRef], warehouse: Warehouse) -> None:
    give("select", tree["inner"], ALICE)
    tables = Tabular.objects.in_warehouse(warehouse.pk).live().of_kind("table")
    assert [row.name for row in tables.visible_to(ALICE)] == ["table"]
    page = Tabular.objects.filter(namespace__path="inner").select_related("namespace").order_by("-name")[:2]
    assert [(row.name, row.namespace.path) for row in page.visible_to(ALICE)] == [
        ("table", "inner"),
        ("generic", "inner"),
    ]
    assert list(Tabular.objects.dropped().visible_to(ALICE)) == []
    subtree = Namespace.objects.in_warehouse(warehouse.pk).in_subtree("inner")
    assert [row.path for row in subtree.visible_to(ALICE)] == ["inner"]


@pytest.mark.parametrize("number", [1, 30])
def test_the_number_of_statements_is_constant(
    tree: dict[str, ObjectRef], warehouse: Warehouse, number: int, django_assert_max_num_queries: object
) -> None:
    for each in range(number):
        ref = ObjectRef(T.TABLE, new_id())
        add_securable(*ref, parent=tree["other"])
        add_tabular(warehouse, ref, tree["other"], f"t{each}")
    give("select", tree["other"], ALICE)
    # The rows, after the roles of the user for each kind, which are not cached while a grant is uncommitted.
    with django_assert_max_num_queries(4):  # type: ignore[operator]
        assert Tabular.objects.visible_to(ALICE).count() == number + 1
