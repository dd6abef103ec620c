"""The authorization model: its parsed form, and errors in its notation."""

from __future__ import annotations

import pytest

from tenancy.authz.actions import Can, grant_action, privileges_on
from tenancy.authz.builtin.evaluation import Evaluation, Node, showing_privileges
from tenancy.authz.model import (
    Computed,
    Direct,
    Exclusion,
    Intersection,
    Linked,
    MalformedModel,
    Union,
    read_model,
    rights_model,
)
from tenancy.models import Securable

BEGIN = "model\n  schema 1.1\ntype user\ntype thing\n  relations\n    define parent: [thing]\n"


def test_each_notation_is_read() -> None:
    text = f"""{BEGIN}
    # a comment
    define one: [user, thing#one]
    define two: one or one from parent or (one and one)
    define three: one but not two from parent
"""
    assert dict(read_model(text).types["thing"]) == {
        "parent": Direct(("thing",)),
        "one": Direct(("user", "thing#one")),
        "two": Union((
            Computed("one"), Linked("one", "parent"), Intersection((Computed("one"), Computed("one"))),
        )),
        "three": Exclusion(Computed("one"), Linked("two", "parent")),
    }  # fmt: skip


@pytest.mark.parametrize("line", [
    "define one: one or two and one", "define one:", "define one: (one", "define one: one)", "define one: one but two",
    "define one: nothing", "define one: one from nowhere", "define one: [unknown]", "one: [user]", "define one [user]",
    "define one: [user] or", "define parent: [user]", "define one: one ! one",
])  # fmt: skip
def test_invalid_notation_is_rejected(line: str) -> None:
    with pytest.raises(MalformedModel):
        read_model(f"{BEGIN}    {line}\n")


@pytest.mark.parametrize("securable_type", [each for each in Securable.Type if each is not Securable.Type.USER])
def test_every_privilege_has_words_and_a_right_to_grant_it(securable_type: Securable.Type) -> None:
    relations = rights_model().types[securable_type.value]
    privileges = privileges_on(securable_type)
    assert privileges
    for privilege in privileges:
        assert privilege.description
        assert f"can_{grant_action(privilege.name)}" in relations, privilege.name


def test_every_action_of_the_model_has_its_name() -> None:
    named = {action.value for action in Can}
    for object_type in rights_model().types:
        assert set(rights_model().actions(object_type)) <= named, object_type


def test_privileges_that_show_an_object() -> None:
    """One set serves all types: a privilege that shows an object of one type shows those of any other type that
    has it.
    """
    shown = showing_privileges()
    assert set(shown) == {"warehouse", "namespace", "table", "view", "generic-table"}
    everything = frozenset().union(*shown.values())
    assert everything == {"ownership", "describe", "select", "create", "modify"}
    for object_type, privileges in shown.items():
        assert privileges == everything & set(rights_model().privileges(object_type))


@pytest.mark.parametrize("object_type", ["table", "namespace", "warehouse", "role"])
def test_nothing_is_looked_up_above_an_object_that_does_not_exist(object_type: str) -> None:
    """The path of a missing object has the object alone: no parent whose other children could show it."""
    missing = f"{object_type}:x"
    for action in Can:
        evaluation = Evaluation([Node(object_type, missing, frozenset())], {missing: False})
        assert not evaluation.holds(f"can_{action.value}")
        assert evaluation.unknown_below == set(), action
