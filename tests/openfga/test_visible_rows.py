"""`visible_to` with a real OpenFGA: rows that both our grants and OpenFGA allow, in few requests."""

from __future__ import annotations

import math
from typing import Any

import pytest

from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Actor
from tenancy.authz.actions import SEEN_BY, Can, reads_grants
from tenancy.authz.openfga.backend import OpenFgaAuthorizer
from tenancy.authz.openfga.client import OpenFgaUnavailable
from tenancy.authz.openfga.store import openfga_store
from tenancy.authz.openfga.tuples import Condition, grant_key
from tenancy.authz.permissions import check_permissions
from tenancy.models import Grant, Project, Role, RoleMember, Securable, TagDefinition, User
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.projects import get_project
from tenancy.services.tags import create_tag_definition
from tests.authz.parity.pair_fixtures import another_user, grant, member
from tests.authz.tree_fixtures import T, role
from tests.openfga_fixtures import choose_openfga, deliver_as_recorded

pytestmark = pytest.mark.django_db

ALICE = Actor(user_id="oidc~alice")
MODELS: dict[T, Any] = {T.PROJECT: Project, T.WAREHOUSE: Warehouse, T.ROLE: Role, T.TAG: TagDefinition}
GRANTS = [
    ("server", "admin"),
    ("project", "describe"),
    ("project", "security_admin"),
    ("wh", "ownership"),
    ("outer", "manage_grants"),
    ("inner", "modify"),
    ("table", "select"),
    ("rows_role", "ownership"),
    ("rows_tag", "apply"),
]


@pytest.fixture
def objects(tree: dict[str, ObjectRef]) -> dict[str, ObjectRef]:
    """The tree, with a row each for the role and the tag definition."""
    another_user("oidc~alice")
    Grant.objects.filter(user_id=ALICE.user_id).delete()
    project = get_project(None)
    tag = create_tag_definition(actor=INTERNAL, project=project, name="pii", scope=["table"], value_kind="marker")
    return {**tree, "rows_role": ObjectRef(T.ROLE, role("team").pk), "rows_tag": ObjectRef(T.TAG, tag.pk)}


def deliver(backend: OpenFgaAuthorizer) -> None:
    deliver_as_recorded(openfga_store())
    backend.clear_caches()


def allowed(refs: list[ObjectRef], action: Can | None = None) -> set[ObjectRef]:
    """Return the objects on which OpenFGA allows an action, with one check each."""
    checks = [(action or SEEN_BY.get(ref.type, Can.GET_METADATA), ref) for ref in refs]
    return {ref for ref, is_seen in zip(refs, check_permissions(ALICE, checks), strict=True) if is_seen}


@pytest.mark.parametrize("through_role", [False, True])
@pytest.mark.parametrize(("name", "privilege"), GRANTS)
def test_rows_are_those_that_openfga_allows(
    by_openfga: OpenFgaAuthorizer, objects: dict[str, ObjectRef], name: str, privilege: str, through_role: bool
) -> None:
    if through_role:
        readers = role("readers")
        member(readers.pk, user_id=ALICE.user_id)
        grant(objects[name], privilege, role_id=readers.pk)
    else:
        grant(objects[name], privilege, user_id=ALICE.user_id)
    deliver(by_openfga)
    for kind, model in MODELS.items():
        rows = model.objects
        refs = [ObjectRef(kind, pk) for pk in rows.values_list("pk", flat=True)]
        assert {ObjectRef(kind, row.pk) for row in rows.visible_to(ALICE)} == allowed(refs), kind
    refs = [ObjectRef(Securable.Type(each.type), each.object_id) for each in Securable.objects.exclude(type=T.SERVER)]
    seen = Securable.objects.exclude(type=T.SERVER).visible_to(ALICE)
    assert {each.pk for each in seen} == {securable_id(*ref) for ref in allowed(refs)}
    granted = {
        ObjectRef(Securable.Type(kind), own_id)
        for kind, _, own_id in (each.partition(":") for each in Grant.objects.values_list("securable_id", flat=True))
    }
    read = {ref for ref in granted if check_permissions(ALICE, [(reads_grants(ref), ref)])[0]}
    assert {each.securable_id for each in Grant.objects.visible_to(ALICE)} == {securable_id(*ref) for ref in read}
    roles = [ObjectRef(T.ROLE, each) for each in RoleMember.objects.values_list("role_id", flat=True)]
    shown = {ObjectRef(T.ROLE, each.role_id) for each in RoleMember.objects.visible_to(ALICE)}
    assert shown == allowed(roles, Can.READ_ROLE_ASSIGNMENTS)
    sees_users = check_permissions(ALICE, [(Can.LIST_USERS, objects["server"])])[0]
    assert set(User.objects.visible_to(ALICE)) == set(
        User.objects.all() if sees_users else User.objects.filter(pk=ALICE.user_id)
    )


def test_rows_that_only_one_of_both_shows_are_hidden(
    by_openfga: OpenFgaAuthorizer, objects: dict[str, ObjectRef]
) -> None:
    assert list(TagDefinition.objects.visible_to(ALICE)) == []
    grant(objects["rows_tag"], "apply", user_id=ALICE.user_id)
    by_openfga.clear_caches()
    assert list(TagDefinition.objects.visible_to(ALICE)) == []
    deliver(by_openfga)
    assert [each.pk for each in TagDefinition.objects.visible_to(ALICE)] == [objects["rows_tag"].id]
    Grant.objects.filter(user_id=ALICE.user_id).delete()
    key = grant_key(securable_id(*objects["rows_tag"]), "apply", user_id=ALICE.user_id, role_id=None)
    openfga_store().write({key: Condition(None)}, [])
    by_openfga.clear_caches()
    assert list(TagDefinition.objects.visible_to(ALICE)) == []


def test_only_rows_that_our_grants_show_are_checked(
    by_openfga: OpenFgaAuthorizer,
    objects: dict[str, ObjectRef],
    requests_sent: list[str],
    monkeypatch: pytest.MonkeyPatch,
    django_assert_max_num_queries: Any,
) -> None:
    project, number, size = get_project(None), 10, 3
    tags = [
        create_tag_definition(actor=INTERNAL, project=project, name=f"t{each}", scope=["table"], value_kind="marker")
        for each in range(2 * number)
    ]
    for each in tags[:number]:
        grant(ObjectRef(T.TAG, each.pk), "apply", user_id=ALICE.user_id)
    choose_openfga(monkeypatch, max_batch_check_size=size)
    deliver_as_recorded(openfga_store())
    assert TagDefinition.objects.visible_to(ALICE).count() == number  # store, model and roles are cached from here on
    requests_sent.clear()
    with django_assert_max_num_queries(6):  # roles (twice, nothing is cached here), candidates, pending, below, rows
        assert set(TagDefinition.objects.visible_to(ALICE)) == set(tags[:number])
    assert requests_sent == ["batch-check"] * math.ceil(number / size)
    requests_sent.clear()
    page: Any = TagDefinition.objects.order_by("-pk").filter(pk__in=[each.pk for each in tags[:number]])[:size]
    assert list(page.visible_to(ALICE)) == list(reversed(tags[:number]))[:size]
    assert requests_sent == ["batch-check"]


def test_rows_without_candidates_need_no_request(
    by_openfga: OpenFgaAuthorizer, objects: dict[str, ObjectRef], requests_sent: list[str]
) -> None:
    assert list(TagDefinition.objects.visible_to(ALICE)) == []
    assert list(TagDefinition.objects.visible_to(INTERNAL)) == list(TagDefinition.objects.all())
    assert requests_sent == []


def test_an_unavailable_openfga_shows_no_rows(objects: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch) -> None:
    grant(objects["rows_tag"], "apply", user_id=ALICE.user_id)
    choose_openfga(monkeypatch, endpoint="http://127.0.0.1:1", store_name=f"test-{new_id()}")
    with pytest.raises(OpenFgaUnavailable):
        list(TagDefinition.objects.visible_to(ALICE))
