"""Why somebody may, and what would let who may not: checked against the decision itself."""

from __future__ import annotations

import pytest

from tenancy.authz.actions import Can
from tenancy.authz.explanation import explain
from tenancy.authz.port import is_allowed
from tenancy.authz.securables import Ref, securable_id
from tenancy.models import Grant, Role, RoleMember, Securable
from tests.authz.conftest import person
from tests.authz.trees import give, role

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("builtin")]

ALICE = person("alice")


def test_the_chain_leads_from_the_grant_to_the_action(tree: dict[str, Ref]) -> None:
    give("ownership", tree["outer"], ALICE)
    found = explain(ALICE, Can.READ_DATA, tree["table"])
    assert found.is_allowed
    assert (found.standing, found.cures) == (None, ())
    told = [(step.relation, step.securable_id) for step in found.chain]
    assert told == [
        ("ownership", securable_id(*tree["outer"])),
        ("select", securable_id(*tree["outer"])),
        ("select", securable_id(*tree["inner"])),
        ("select", securable_id(*tree["table"])),
        ("can_read_data", securable_id(*tree["table"])),
    ]
    assert [step.grant is not None for step in found.chain] == [True, False, False, False, False]


def test_the_shortest_chain_is_told_with_the_roles_on_the_way(tree: dict[str, Ref]) -> None:
    inner, outer = role("inner"), role("outer")
    RoleMember.objects.create(role=outer, member_role=inner)
    give("modify", tree["project"], ALICE, through=inner, to=outer)
    give("select", tree["table"], ALICE, through=inner, to=outer)
    found = explain(ALICE, Can.READ_DATA, tree["table"])
    assert [step.relation for step in found.chain] == ["select", "can_read_data"]
    grant = found.chain[0].grant
    assert grant is not None
    assert grant.through == (inner.pk, outer.pk)


def test_what_is_seen_because_of_something_below(tree: dict[str, Ref]) -> None:
    give("select", tree["table"], ALICE)
    found = explain(ALICE, Can.GET_CONFIG, tree["wh"])
    assert [(step.relation, step.securable_id) for step in found.chain] == [
        ("select", securable_id(*tree["table"])),
        ("can_get_metadata", securable_id(*tree["wh"])),
        ("can_get_config", securable_id(*tree["wh"])),
    ]


@pytest.mark.parametrize(("name", "action"), [
    ("table", Can.READ_DATA), ("table", Can.DROP), ("inner", Can.MOVE), ("wh", Can.GRANT_SELECT),
    ("project", Can.CREATE_WAREHOUSE), ("server", Can.CREATE_PROJECT),
])  # fmt: skip
def test_each_cure_cures(tree: dict[str, Ref], name: str, action: Can) -> None:
    give("describe", tree["wh"], ALICE)
    found = explain(ALICE, action, tree[name])
    assert not found.is_allowed
    assert not found.chain
    for cure in found.cures:
        grant = Grant.objects.create(
            securable=Securable.objects.get(pk=cure.securable_id), user_id=ALICE.user_id, privilege=cure.privilege
        )
        assert is_allowed(ALICE, action, *tree[name]), cure
        assert explain(ALICE, action, tree[name]).is_allowed
        grant.delete()
    assert not is_allowed(ALICE, action, *tree[name])


def test_a_role_of_the_token_and_one_in_a_circle(tree: dict[str, Ref]) -> None:
    first, second = role("first", source="staff"), role("second", source="all")
    RoleMember.objects.create(role=first, member_role=second)
    RoleMember.objects.create(role=second, member_role=first)
    bob = person("bob", "staff", "all")
    Grant.objects.create(securable_id=securable_id(*tree["wh"]), role=second, privilege="select")
    found = explain(bob, Can.READ_DATA, tree["table"])
    assert found.is_allowed
    assert found.chain[0].grant is not None
    assert found.chain[0].grant.through == (second.pk,)
    assert Role.objects.count() == 2
