"""`visible_to` returns the rows that permission checks of the objects allow, in a constant number of statements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db.models import QuerySet

from catalog.models import Namespace, Tabular
from catalog.selectors.candidates import candidate_namespaces, candidate_tabulars
from icekeeper.kernel.clock import now
from storage.models import Warehouse
from storage.selectors import candidate_warehouses
from tenancy.actor import ANONYMOUS, INTERNAL, Actor
from tenancy.authz import port
from tenancy.authz.actions import SEEN_BY, Can
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.builtin.queries import read_roles, visible_securables
from tenancy.authz.model import rights_model
from tenancy.authz.permissions import check_permissions, visible_objects
from tenancy.authz.port import Subject, VisibleObjects
from tenancy.models import AuditRecord, Grant, Project, Role, RoleMember, Securable, User
from tenancy.models.securable import ObjectRef, parse_securable_id, securable_id
from tests.authz.tree_fixtures import T, create_tree, give, role
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.usefixtures("builtin")]

ALICE = Actor(user_id="oidc~alice")
CATALOG_TYPES = (T.WAREHOUSE, T.NAMESPACE, T.TABLE, T.VIEW, T.GENERIC_TABLE)
TYPES = (T.PROJECT, *CATALOG_TYPES, T.ROLE, T.TAG)


@pytest.fixture
def tree(warehouse: Warehouse) -> dict[str, ObjectRef]:
    User.objects.get_or_create(id=ALICE.user_id, defaults={"name": "Alice"})
    created = create_tree(warehouse)
    _create_rows(warehouse, created)
    return created


def _create_rows(warehouse: Warehouse, created: dict[str, ObjectRef]) -> None:
    """Create the rows of the namespaces and tabulars of the tree."""
    for name, above in (("outer", None), ("inner", "outer"), ("other", None)):
        parent_id = None if above is None else created[above].id
        Namespace.objects.create(
            pk=created[name].id, warehouse=warehouse, parent_id=parent_id, path=name, path_key=name
        )  # fmt: skip
    for name, above in (("table", "inner"), ("generic", "inner"), ("view", "other")):
        kind, own_id = created[name]
        Tabular.objects.create(
            pk=own_id, uuid=own_id, warehouse=warehouse, namespace_id=created[above].id, kind=kind.value, name=name,
            name_key=name, location=name,
        )  # fmt: skip


def allowed_by_checks(securable_type: Securable.Type) -> set[str]:
    action = SEEN_BY.get(securable_type, Can.GET_METADATA)
    rows = list(Securable.objects.of_type(securable_type))
    decisions = check_permissions(ALICE, [(action, ObjectRef(securable_type, row.object_id)) for row in rows])
    return {row.pk for row, is_allowed in zip(rows, decisions, strict=True) if is_allowed}


def seen_at_once(securable_type: Securable.Type) -> set[str]:
    action = SEEN_BY.get(securable_type, Can.GET_METADATA)
    subject = Subject.of(ALICE)
    roles = read_roles(subject).ids
    rows = visible_securables(subject, roles, securable_type.value, f"can_{action.value}", at=now())
    return set(rows.values_list("pk", flat=True))


def among(visible: VisibleObjects | None, securable_type: Securable.Type) -> set[str]:
    rows: QuerySet[Any] = Tabular.objects.filter(candidate_tabulars(visible), kind=securable_type.value)
    if securable_type is T.WAREHOUSE:
        rows = Warehouse.objects.filter(candidate_warehouses(visible))
    elif securable_type is T.NAMESPACE:
        rows = Namespace.objects.filter(candidate_namespaces(visible))
    ids = rows.values_list("pk", flat=True)
    return {securable_id(securable_type, each) for each in ids}


def require_exact_children(warehouse: ObjectRef, allowed: set[str]) -> None:
    """Require that nothing hidden is among the visible children, and nothing missing where Alice sees only a part."""
    found = port.authorizer().visible_children(ALICE, warehouse_id=UUID(str(warehouse.id)))
    assert found is not None
    assert found.is_exact
    children = {str(each) for ids in found.ids.values() for each in ids}
    rows = list(Securable.objects.filter(type__in=CATALOG_TYPES[1:]))
    assert {row.pk for row in rows if row.object_id in children} <= allowed
    parents = [parse_securable_id(str(row.parent_id)) for row in rows]
    seen_whole = check_permissions(ALICE, [(Can.LIST_EVERYTHING, parent) for parent in parents])
    partly = {row.pk for row, is_whole in zip(rows, seen_whole, strict=True) if not is_whole}
    assert {row.pk for row in rows if row.object_id in children} >= allowed & partly


def grants() -> Iterator[tuple[Securable.Type, str]]:
    for securable_type in (T.SERVER, *TYPES):
        for privilege in rights_model().privileges(securable_type.value):
            if privilege != "assignee":
                yield securable_type, privilege


@pytest.mark.parametrize(("securable_type", "privilege"), list(grants()))
@pytest.mark.parametrize("through_role", [False, True])
def test_each_privilege_shows_what_it_allows(
    builtin: BuiltinAuthorizer,
    tree: dict[str, ObjectRef],
    securable_type: Securable.Type,
    privilege: str,
    through_role: bool,
) -> None:
    locations = [ref for ref in tree.values() if ref.type is securable_type]
    group = role("readers")
    RoleMember.objects.create(role=group, user_id=ALICE.user_id)
    for ref in locations:
        grantee = {"role_id": group.pk} if through_role else {"user_id": ALICE.user_id}
        grant = Grant.objects.create_on(securable_id=securable_id(*ref), privilege=privilege, **grantee)
        builtin.clear_caches()
        visible = visible_objects(ALICE)
        in_catalog: set[str] = set()
        for each in TYPES:
            allowed = allowed_by_checks(each)
            assert seen_at_once(each) == allowed, (ref, each)
            if each in CATALOG_TYPES:
                assert among(visible, each) == allowed, (ref, each)
                in_catalog |= allowed
        require_exact_children(tree["wh"], in_catalog)
        grant.delete()


def test_rows_of_models(tree: dict[str, ObjectRef], warehouse: Warehouse) -> None:
    other = role("other")
    assert list(Role.objects.visible_to(ALICE)) == []
    assert list(Warehouse.objects.visible_to(ALICE)) == []
    give("select", tree["table"], ALICE)
    assert list(Warehouse.objects.visible_to(ALICE)) == [warehouse]
    assert list(Project.objects.visible_to(ALICE)) == [warehouse.project]
    assert set(Role.objects.visible_to(ALICE)) == {other}
    assert set(Role.objects.visible_to(ANONYMOUS)) == set()
    assert set(Role.objects.visible_to(INTERNAL)) == set(Role.objects.all())
    assert [each.pk for each in User.objects.visible_to(ALICE)] == [ALICE.user_id]
    assert list(Grant.objects.visible_to(ALICE)) == []
    assert Grant.objects.visible_to(INTERNAL).count() == Grant.objects.count()


def test_a_page_keeps_its_order(tree: dict[str, ObjectRef]) -> None:
    roles = [role(f"role-{number}") for number in range(4)]
    give("describe", tree["project"], ALICE)
    rows: QuerySet[Role] = Role.objects.filter(pk__in=[each.pk for each in roles])
    for page in (rows.order_by("-name")[:3], rows.order_by("name").reverse()[:3]):
        assert [each.name for each in page.visible_to(ALICE)] == ["role-3", "role-2", "role-1"]  # type: ignore[attr-defined]


def test_a_page_keeps_its_joins(tree: dict[str, ObjectRef], django_assert_num_queries: Any) -> None:
    role("reader")
    give("describe", tree["project"], ALICE)
    rows = list(Role.objects.select_related("project")[:5].visible_to(ALICE))
    with django_assert_num_queries(0):
        assert [row.project.pk for row in rows] == [tree["project"].id]


def test_auditors_of_projects_see_their_records_since_the_creation(tree: dict[str, ObjectRef]) -> None:
    project = Project.objects.get(pk=tree["project"].id)
    give("project_admin", tree["project"], ALICE)
    AuditRecord.objects.all().delete()
    for event, project_id, at in (
        ("seen", project.pk, project.created_at),
        ("of an earlier project of this id", project.pk, project.created_at - timedelta(seconds=1)),
        ("of another project", "other", project.created_at),
        ("of the server", "", project.created_at),
    ):
        AuditRecord.objects.create(event=event, project_id=project_id, at=at)
    assert set(AuditRecord.objects.visible_to(ALICE).values_list("event", flat=True)) == {"seen"}


@pytest.mark.parametrize("number", [1, 30])
def test_the_number_of_statements_is_constant(
    tree: dict[str, ObjectRef], number: int, django_assert_max_num_queries: object
) -> None:
    for each in range(number):
        role(f"role-{each}")
    give("describe", tree["project"], ALICE)
    with django_assert_max_num_queries(2):  # type: ignore[operator]  # roles, rows
        assert Role.objects.visible_to(ALICE).count() == number


def test_everything_is_visible_while_everything_is_allowed(
    tree: dict[str, ObjectRef], warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings(monkeypatch, authz_backend="allowall")
    port.authorizer.cache_clear()
    role("other")
    give("describe", tree["project"], Actor(user_id="oidc~bob"))
    for model in (Project, Role, Warehouse, User, Grant, RoleMember, Securable):
        rows = model.objects.all()
        for actor in (ALICE, ANONYMOUS, INTERNAL):
            assert set(rows.visible_to(actor)) == set(rows), (model, actor)
        assert list(rows.visible_to(replace(ALICE, is_blocked=True))) == [], model
