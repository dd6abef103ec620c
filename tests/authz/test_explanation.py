"""Explanations of allowed and denied permissions, verified against the decision itself."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.actor import ANONYMOUS, INTERNAL, Actor
from tenancy.authz import port
from tenancy.authz.access_review import Source
from tenancy.authz.actions import Can
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.explanation import Cure, Explanation, GrantRow, explain
from tenancy.authz.permissions import is_allowed
from tenancy.authz.port import Subject
from tenancy.authz.role_paths import Entry, Membership
from tenancy.authz.securables import add_securable
from tenancy.models import Grant, Project, Role, RoleMember, Securable
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.object_reviews import ObjectReview
from tenancy.selectors.principal_reviews import PrincipalReview
from tests.authz.conftest import user
from tests.authz.parity.pair_fixtures import another_user, grant, member, questions_about
from tests.authz.parity.test_random import create_world, plans
from tests.authz.tree_fixtures import give, role
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("builtin")]

T = Securable.Type
ALICE = user("alice")


def test_the_chain_leads_from_the_grant_to_the_action(tree: dict[str, ObjectRef]) -> None:
    give("ownership", tree["outer"], ALICE)
    found = explain(ALICE, Can.READ_DATA, tree["table"])
    assert found.is_allowed
    assert (found.standing, found.cures) == (None, ())
    reported = [(step.relation, step.securable_id) for step in found.chain]
    assert reported == [
        ("ownership", securable_id(*tree["outer"])),
        ("select", securable_id(*tree["outer"])),
        ("select", securable_id(*tree["inner"])),
        ("select", securable_id(*tree["table"])),
        ("can_read_data", securable_id(*tree["table"])),
    ]
    assert [step.grant is not None for step in found.chain] == [True, False, False, False, False]


def test_the_shortest_chain_is_shown_with_its_roles(tree: dict[str, ObjectRef]) -> None:
    inner, outer = role("inner"), role("outer")
    RoleMember.objects.create(role=outer, member_role=inner)
    give("modify", tree["project"], ALICE, through=inner, to=outer)
    give("select", tree["table"], ALICE, through=inner, to=outer)
    found = explain(ALICE, Can.READ_DATA, tree["table"])
    assert [step.relation for step in found.chain] == ["select", "can_read_data"]
    grant = found.chain[0].grant
    assert grant is not None
    assert grant.through == (Membership(inner.pk, Entry.MEMBER), Membership(outer.pk, Entry.MEMBER))


def test_objects_visible_because_of_a_child(tree: dict[str, ObjectRef]) -> None:
    give("select", tree["table"], ALICE)
    found = explain(ALICE, Can.GET_CONFIG, tree["wh"])
    assert [(step.relation, step.securable_id) for step in found.chain] == [
        ("select", securable_id(*tree["table"])),
        ("can_get_metadata", securable_id(*tree["wh"])),
        ("can_get_config", securable_id(*tree["wh"])),
    ]


@pytest.mark.parametrize(("name", "action"), [
    ("table", Can.READ_DATA), ("table", Can.DROP), ("inner", Can.MOVE), ("wh", Can.GRANT_SELECT),
    ("project", Can.CREATE_WAREHOUSE), ("server", Can.CREATE_PROJECT), ("role", Can.UPDATE), ("tag", Can.APPLY),
])  # fmt: skip
def test_each_cure_cures(tree: dict[str, ObjectRef], name: str, action: Can) -> None:
    give("describe", tree["wh"], ALICE)
    found = explain(ALICE, action, tree[name])
    assert not found.is_allowed
    assert not found.chain
    for cure in found.cures:
        grant = Grant.objects.create_on(securable_id=cure.securable_id, user_id=ALICE.user_id, privilege=cure.privilege)
        assert is_allowed(ALICE, action, *tree[name]), cure
        assert explain(ALICE, action, tree[name]).is_allowed
        grant.delete()
    assert not is_allowed(ALICE, action, *tree[name])


def test_a_role_of_the_token_and_one_in_a_circle(tree: dict[str, ObjectRef]) -> None:
    first, second = role("first", source="staff"), role("second", source="all")
    RoleMember.objects.create(role=first, member_role=second)
    RoleMember.objects.create(role=second, member_role=first)
    bob = user("bob", "staff", "all")
    Grant.objects.create_on(securable_id=securable_id(*tree["wh"]), role=second, privilege="select")
    found = explain(bob, Can.READ_DATA, tree["table"])
    assert found.is_allowed
    assert found.chain[0].grant is not None
    assert found.chain[0].grant.through == (Membership(second.pk, Entry.TOKEN),)
    assert Role.objects.count() == 2


def test_of_two_chains_the_one_without_an_end_is_reported(tree: dict[str, ObjectRef]) -> None:
    ending, lasting = role("ending"), role("lasting")
    for each, ends in ((ending, now() + timedelta(days=1)), (lasting, None)):
        member(each.pk, user_id=another_user("oidc~alice"))
        grant(tree["table"], "select", role_id=each.pk, expires_at=ends)
    (first, _) = explain(ALICE, Can.READ_DATA, tree["table"]).chain
    assert first.grant is not None
    assert first.grant.through == (Membership(lasting.pk, Entry.MEMBER),)
    assert first.grant.expires_at is None


@pytest.mark.parametrize("location", ["table", "wh"], ids=["on it", "below it"])
def test_of_chains_of_one_length_the_one_that_lasts_longest_is_reported(
    tree: dict[str, ObjectRef], location: str
) -> None:
    """The expiry of the whole chain counts, including its memberships."""
    soon, later, latest = (now() + timedelta(days=days) for days in (1, 2, 3))
    another_user("oidc~alice")
    ends = {"a": (soon, None), "b": (later, latest), "c": (latest, soon), "d": (None, soon)}
    roles = {name: role(name) for name in ends}
    for name, (of_membership, of_grant) in ends.items():
        member(roles[name].pk, user_id="oidc~alice", expires_at=of_membership)
        grant(tree["table"], "select", role_id=roles[name].pk, expires_at=of_grant)
    first, *_ = explain(ALICE, Can.GET_METADATA, tree[location]).chain
    assert first.grant is not None
    assert first.grant.through == (Membership(roles["b"].pk, Entry.MEMBER, later),)
    assert first.grant.expires_at == latest


def test_the_shortest_way_that_has_not_ended(tree: dict[str, ObjectRef]) -> None:
    """Access reviews of the same permission report the path that lasts longest."""
    inner, middle, outer = role("inner"), role("middle"), role("outer")
    soon, past = now() + timedelta(days=1), now() - timedelta(seconds=1)
    member(inner.pk, user_id=another_user("oidc~alice"))
    member(middle.pk, role=inner.pk)
    grant(ObjectRef(T.ROLE, outer.pk), "ownership", role_id=middle.pk)
    member(outer.pk, role=inner.pk, expires_at=soon)
    grant(tree["table"], "select", role_id=outer.pk)

    def explained() -> tuple[Membership, ...]:
        (first, _) = explain(ALICE, Can.READ_DATA, tree["table"]).chain
        assert first.grant is not None
        return first.grant.through

    def reviewed() -> Source:
        ((_, rights),) = PrincipalReview(Subject.of(ALICE)).objects(tree["wh"], after="", limit=9)[0][-1:]
        of_object = dict(ObjectReview(tree["table"]).page(after="user:", limit=9)[0])
        (source,) = rights.sources
        assert [each.sources for who, each in of_object.items() if who.user_id == ALICE.user_id] == [(source,)]
        return source

    whole = (
        Membership(inner.pk, Entry.MEMBER),
        Membership(middle.pk, Entry.MEMBER),
        Membership(outer.pk, Entry.OWNER),
    )
    assert explained() == (whole[0], Membership(outer.pk, Entry.MEMBER, soon))
    assert (reviewed().through, reviewed().expires_at) == ((inner.pk, middle.pk, outer.pk), None)
    RoleMember.objects.filter(role=outer).update(expires_at=past)
    assert explained() == whole
    Grant.objects.filter(owned_role=outer).update(expires_at=past)
    found = explain(ALICE, Can.READ_DATA, tree["table"])
    assert (found.is_allowed, found.chain) == (False, ())
    assert PrincipalReview(Subject.of(ALICE)).objects(tree["wh"], after="", limit=9)[0] == []


def test_what_has_ended_explains_nothing(tree: dict[str, ObjectRef]) -> None:
    past = now() - timedelta(seconds=1)
    group = role("group")
    member(group.pk, user_id=another_user("oidc~alice"), expires_at=past)
    grant(tree["table"], "select", role_id=group.pk)
    grant(tree["table"], "modify", user_id="oidc~alice", expires_at=past)
    found = explain(ALICE, Can.READ_DATA, tree["table"])
    assert not found.is_allowed
    reported = [(cure.privilege, cure.securable_id) for cure in found.cures]
    assert reported[:3] == [(each, securable_id(*tree["table"])) for each in ("select", "modify", "ownership")]
    assert reported[-1] == ("operator", securable_id(*tree["server"]))


def test_members_and_owners_of_a_role_may_assume_it(tree: dict[str, ObjectRef]) -> None:
    inner, outer = role("inner"), role("outer")
    member(outer.pk, role=inner.pk)
    grant(ObjectRef(T.ROLE, inner.pk), "ownership", user_id=another_user("oidc~alice"))
    by_owning = explain(ALICE, Can.ASSUME, ObjectRef(T.ROLE, inner.pk))
    assert [step.relation for step in by_owning.chain] == ["ownership", "assignee", "can_assume"]
    found = explain(ALICE, Can.ASSUME, ObjectRef(T.ROLE, outer.pk))
    assert [step.relation for step in found.chain] == ["assignee", "can_assume"]
    assert found.chain[0].grant is not None
    assert found.chain[0].grant.through == (Membership(inner.pk, Entry.OWNER),)
    for ref, action, expected in (
        (ObjectRef(T.ROLE, inner.pk), Can.UPDATE, ["ownership", "can_update"]),
        (ObjectRef(T.ROLE, inner.pk), Can.READ, []),
    ):
        assert [step.relation for step in explain(ALICE, action, ref).chain] == expected


def test_membership_by_a_row_by_the_token_or_by_assuming_the_role(tree: dict[str, ObjectRef]) -> None:
    group = role("group", source="staff")
    ends = now() + timedelta(days=1)
    member(group.pk, user_id=another_user("oidc~alice"), expires_at=ends)
    for asker, through, expires_at in (
        (ALICE, (), ends),
        (user("bob", "staff"), (Membership(group.pk, Entry.TOKEN),), None),
        (Actor(assumed_role=group.pk), (Membership(group.pk, Entry.ASSUMED),), None),
    ):
        first, last = explain(asker, Can.ASSUME, ObjectRef(T.ROLE, group.pk)).chain
        assert (first.relation, last.relation) == ("assignee", "can_assume")
        assert first.grant == GrantRow("assignee", securable_id(T.ROLE, group.pk), through, expires_at)


def test_each_cure_of_a_denied_role_assumption(tree: dict[str, ObjectRef]) -> None:
    group = ObjectRef(T.ROLE, role("group").pk)
    another_user("oidc~alice")
    found = explain(ALICE, Can.ASSUME, group)
    assert found == Explanation(cures=[Cure(each, securable_id(*group)) for each in ("assignee", "ownership")])
    give("ownership", group, ALICE)
    assert explain(ALICE, Can.ASSUME, group).is_allowed
    Grant.objects.all().delete()
    member(group[1], user_id="oidc~alice")
    assert explain(ALICE, Can.ASSUME, group).is_allowed


def test_in_an_assumed_role_it_alone_counts(tree: dict[str, ObjectRef]) -> None:
    group = role("group")
    member(group.pk, user_id=another_user("oidc~alice"))
    grant(tree["table"], "select", role_id=group.pk)
    grant(tree["table"], "modify", user_id="oidc~alice")
    acting = Actor(user_id="oidc~alice", assumed_role=group.pk)
    assert not explain(acting, Can.WRITE_DATA, tree["table"]).is_allowed
    found = explain(acting, Can.READ_DATA, tree["table"])
    assert found.chain[0].grant is not None
    assert found.chain[0].grant.through == (Membership(group.pk, Entry.ASSUMED),)


def test_managed_access_takes_the_owner_below_out_of_the_chain(tree: dict[str, ObjectRef]) -> None:
    give("ownership", tree["table"], ALICE)
    assert [step.relation for step in explain(ALICE, Can.GRANT_SELECT, tree["table"]).chain] == [
        "ownership",
        "manage_grants",
        "can_grant_select",
    ]
    Securable.objects.filter(pk=securable_id(*tree["outer"])).update(managed_access=True)
    found = explain(ALICE, Can.GRANT_SELECT, tree["table"])
    assert not found.is_allowed
    # She has the privilege herself, so that `pass_grants` is sufficient.
    assert [(each.privilege, each.securable_id) for each in found.cures][:2] == [
        ("pass_grants", securable_id(*tree["table"])),
        ("manage_grants", securable_id(*tree["table"])),
    ]


def test_ids_of_projects_that_differ_by_case_are_two(tree: dict[str, ObjectRef], warehouse: Warehouse) -> None:
    server = tree["server"]
    wanted, other = list[ObjectRef](), list[ObjectRef]()
    for project_id, warehouses in (("data", wanted), ("DATA", other)):
        Project.objects.create(id=project_id, name=project_id, name_key=f"key of {project_id}")
        add_securable(T.PROJECT, project_id, parent=server)
        warehouse_id = new_id()
        add_securable(T.WAREHOUSE, warehouse_id, parent=ObjectRef(T.PROJECT, project_id))
        warehouses.append(ObjectRef(T.WAREHOUSE, warehouse_id))
    give("select", other[0], ALICE)
    assert not explain(ALICE, Can.GET_METADATA, ObjectRef(T.PROJECT, "data")).is_allowed
    found = explain(ALICE, Can.GET_METADATA, ObjectRef(T.PROJECT, "DATA"))
    assert [step.securable_id for step in found.chain] == [securable_id(*other[0]), "project:DATA"]


def test_what_stands_whatever_is_granted(tree: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch) -> None:
    use_settings(monkeypatch, instance_admins=["oidc~alice"])
    assert explain(INTERNAL, Can.DROP, tree["table"]) == Explanation(standing="internal")
    assert explain(ANONYMOUS, Can.DROP, tree["table"]) == Explanation()
    found = explain(ALICE, Can.DROP, tree["table"])
    assert (found.is_allowed, found.is_by_grants, found.standing) == (True, False, "instance-admin")
    assert found.cures[0] == Cure("modify", securable_id(*tree["table"]))
    give("modify", tree["table"], ALICE)
    found = explain(ALICE, Can.DROP, tree["table"])
    assert (found.is_by_grants, found.standing, found.cures) == (True, "instance-admin", ())
    assert explain(ALICE, Can.READ_DATA, tree["table"]).standing is None
    assert explain(user("bob"), Can.READ_METADATA, tree["role"]).standing == "everybody"


def test_where_no_user_is_denied_the_grants_are_shown_too(
    tree: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings(monkeypatch, authz_backend="allowall")
    port.authorizer.cache_clear()
    found = explain(ALICE, Can.READ_DATA, tree["table"])
    assert (found.is_allowed, found.is_by_grants, found.standing) == (True, False, "allowall")
    assert found.cures[0] == Cure("select", securable_id(*tree["table"]))


@given(plan=plans())
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_says_what_the_decision_says(
    builtin: BuiltinAuthorizer, bootstrapped: None, plan: dict[str, list[tuple[int, ...]]]
) -> None:
    """On random trees, roles and grants: allowed checks report a chain, denied ones a grant that allows the check."""
    with transaction.atomic():
        world = create_world(plan)
        for number, asker in enumerate(world.askers):
            builtin.clear_caches()
            questions = questions_about(world.objects)
            responses = builtin.decide(asker, questions)
            for location, ((action, ref), response) in enumerate(zip(questions, responses, strict=True)):
                if (location + number) % 7 == 0:
                    assert explain(asker, action, ref).is_by_grants is response, (asker, action, ref)
        transaction.set_rollback(True)
