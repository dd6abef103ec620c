"""Action names: those of Lakekeeper, each mapped to the permission model."""

from __future__ import annotations

import pytest

from tenancy.authz.actions import ACTIONS_ON, GRANT_ACTION_NAMES, LEGACY_ACTION_NAMES, Can
from tenancy.authz.model import rights_model
from tenancy.models import Securable
from tests.management.api_digest import read_lakekeeper

T = Securable.Type
PATHS = {
    T.SERVER: "server",
    T.PROJECT: "project",
    T.WAREHOUSE: "warehouse/{}",
    T.NAMESPACE: "warehouse/{}/namespace/{}",
    T.TABLE: "warehouse/{}/table/{}",
    T.VIEW: "warehouse/{}/view/{}",
    T.GENERIC_TABLE: "warehouse/{}/generic-table/{}",
    T.ROLE: "role/{}",
    T.TAG: "tag-definition/{}",
    T.USER: "user/{}",
}
NOT_OF_THE_MODEL = {(T.ROLE, Can.READ_METADATA), *((T.USER, action) for action in ACTIONS_ON[T.USER])}


def words_of(route: str, member: str) -> set[str]:
    return set(read_lakekeeper()[route].responses["200"].members[member])


@pytest.mark.parametrize("securable_type", PATHS)
def test_the_newer_actions_are_lakekeepers(securable_type: Securable.Type) -> None:
    route = f"GET /management/v1/{PATHS[securable_type]}/actions"
    assert {each.value for each in ACTIONS_ON[securable_type]} == words_of(route, "allowed-actions[].action")
    assert len(set(ACTIONS_ON[securable_type])) == len(ACTIONS_ON[securable_type])


@pytest.mark.parametrize("securable_type", GRANT_ACTION_NAMES)
def test_the_older_actions_are_lakekeepers(securable_type: Securable.Type) -> None:
    path = "namespace/{}" if securable_type is T.NAMESPACE else PATHS[securable_type]
    below = f"/management/v1/permissions/{path}"
    assert set(GRANT_ACTION_NAMES[securable_type]) == words_of(f"GET {below}/authorizer-actions", "allowed-actions")
    if securable_type is T.GENERIC_TABLE:  # which has no route of its own for them
        asked = read_lakekeeper()["POST /management/v1/permissions/check"].request.members
        assert set(LEGACY_ACTION_NAMES[securable_type]) == set(asked["operation.generic-table.action"])
    else:
        assert set(LEGACY_ACTION_NAMES[securable_type]) == words_of(f"GET {below}/access", "allowed-actions")


def test_each_word_means_what_the_model_defines() -> None:
    assert ACTIONS_ON.keys() == set(T)
    assert GRANT_ACTION_NAMES.keys() == LEGACY_ACTION_NAMES.keys() == set(T) - {T.TAG, T.USER}
    meant = [(each, action) for each, actions in ACTIONS_ON.items() for action in actions]
    meant += [(each, action) for each, words in LEGACY_ACTION_NAMES.items() for action in words.values()]
    for securable_type, action in set(meant) - NOT_OF_THE_MODEL:
        assert action.value in rights_model().actions(securable_type.value), (securable_type, action)
    for securable_type, words in GRANT_ACTION_NAMES.items():
        assert words.items() <= LEGACY_ACTION_NAMES[securable_type].items()
