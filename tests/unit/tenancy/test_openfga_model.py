"""The authorization model in the form of OpenFGA."""

from __future__ import annotations

from hashlib import sha256

import orjson
import pytest

from tenancy.authz.model import VERSION, MalformedModel, read_model
from tenancy.authz.openfga.authorization_model import authorization_model, unfolded, unfolded_model
from tenancy.authz.openfga.backend import links_down, looks_below, types_below_parent, underlying_relation
from tenancy.authz.openfga.tuples import TupleKey, members_subject, role_of, user_of, user_subject

WRITTEN = {"1": "576c664b87a9b824", "2": "353e079dfeeeaa28"}
"""Of each version: what OpenFGA has under its name never changes."""


def test_another_model_has_another_version() -> None:
    model = orjson.dumps(authorization_model(unfolded_model(), "name"), option=orjson.OPT_SORT_KEYS)
    assert sha256(model).hexdigest()[:16] == WRITTEN[VERSION], "change VERSION in tenancy/authz/model.py"


def test_inherited_relations_appear_once() -> None:
    model = read_model(
        """
        type user
        type outer
          relations
            define child: [inner]
            define some: [user, role#in] or all
            define all: [user, role#in]
            define can_get_metadata: some or can_get_metadata from child
        type role
          relations
            define in: [user, role#in]
        type inner
          relations
            define parent: [outer]
            define some: [user, role#in] or all or some from parent
            define all: [user, role#in] or all from parent
            define can_get_metadata: some
        """
    )
    created = authorization_model(unfolded(model), "n")
    inner = next(each for each in created["type_definitions"] if each["type"] == "inner")["relations"]
    assert inner["some"] == {"this": {}}
    assert inner["holds_some"] == {
        "union": {
            "child": [
                {"computedUserset": {"relation": "some"}},
                {"computedUserset": {"relation": "all"}},
                {"tupleToUserset": {"tupleset": {"relation": "parent"}, "computedUserset": {"relation": "holds_some"}}},
            ]
        }
    }
    assert inner["shown"] == {
        "union": {"child": [{"computedUserset": {"relation": "some"}}, {"computedUserset": {"relation": "all"}}]}
    }


def test_a_relation_that_is_only_inherited_has_the_name_of_the_granted_one() -> None:
    model = read_model(
        """
        type user
        type outer
          relations
            define some: [user] or all
            define all: [user]
            define can_some: some
        type inner
          relations
            define parent: [outer, inner]
            define some: some from parent
            define can_some: some
        """
    )
    created = authorization_model(unfolded(model), "n")
    inner = next(each for each in created["type_definitions"] if each["type"] == "inner")
    assert inner["relations"] == {
        "parent": {"this": {}},
        "holds_some": {
            "tupleToUserset": {"tupleset": {"relation": "parent"}, "computedUserset": {"relation": "holds_some"}}
        },
        "can_some": {"computedUserset": {"relation": "holds_some"}},
    }
    assert list(inner["metadata"]["relations"]) == ["parent"]


def test_another_source_of_visibility_below_is_rejected() -> None:
    text = """
        type user
        type outer
          relations
            define child: [inner]
            define secret: [user]
            define can_get_metadata: [user] or can_get_metadata from child
        type inner
          relations
            define parent: [outer]
            define can_get_metadata: [user] or secret from parent
        """
    with pytest.raises(MalformedModel, match="has other sources"):
        unfolded(read_model(text))


def test_actions_map_to_relations() -> None:
    actions = ("drop", "commit", "write_data", "rename", "set_protection")
    assert {underlying_relation("table", each) for each in actions} == {"holds_modify"}
    assert underlying_relation("table", "can_fly") is None
    assert underlying_relation("user", "read") is None
    assert [looks_below("table", "holds_describe"), looks_below("namespace", "holds_describe")] == [False, False]
    assert [looks_below(each, "can_get_metadata") for each in ("project", "warehouse", "namespace")] == [True] * 3
    assert types_below_parent() == ("role", "tag")


def test_the_way_down() -> None:
    assert links_down("server:s/project:p/", "server:s/project:p/warehouse:w/namespace:n/") == [
        TupleKey("project:p", "child", "warehouse:w"),
        TupleKey("warehouse:w", "child", "namespace:n"),
    ]


@pytest.mark.parametrize("user_id", ["oidc~a", "oidc~a b#c:d*%20=", "x~\u00e4\u202e", "oidc~" + "\u00df" * 63])
def test_users_are_written_so_that_they_can_be_read_again(user_id: str) -> None:
    subject = user_subject(user_id)
    assert user_of(subject) == user_id
    assert subject.isascii()
    assert not set(subject.removeprefix("user:")) & set("#:*=@ ")


def test_values_that_name_no_user_of_ours() -> None:
    for subject in ("user:*", "user:role=1", "role:1#assignee", "user:a%2", "user:oidc~a b", "team:x"):
        assert user_of(subject) is None, subject
    for subject in ("role:x#assignee", "role:0198E0F4-3F6E-7C31-8C7D-000000000000#assignee", "user:a", "role:*"):
        assert role_of(subject) is None, subject
    long = f"{'p' * 127}~{'#' * 127}"
    assert len(user_subject(long)) < 100
    assert user_of(user_subject(long)) is None
    role_id = role_of("role:0198e0f4-3f6e-7c31-8c7d-000000000000#assignee")
    assert role_id is not None
    assert members_subject(role_id) == "role:0198e0f4-3f6e-7c31-8c7d-000000000000#assignee"
