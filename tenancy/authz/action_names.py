"""What may be asked about each type of object, in the words that clients know.

There are two sets of words: `ACTIONS_ON` of the newer routes (`.../actions`, batch-check), which are those of `Can`
and say nothing of what may be granted, and the older ones of `permissions/...`, some of which are spelled otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tenancy.authz.actions import Can
from tenancy.authz.privileges import grant_action, privileges_on
from tenancy.models import Securable

T = Securable.Type

_OF_TABULARS: Final = (
    Can.GET_METADATA, Can.RENAME, Can.INCLUDE_IN_LIST, Can.UNDROP, Can.GET_TASKS, Can.CONTROL_TASKS, Can.SET_PROTECTION,
    Can.MANAGE_TAGS, Can.READ_GRANTS,
)  # fmt: skip

ACTIONS_ON: Final[Mapping[Securable.Type, tuple[Can, ...]]] = {
    T.SERVER: (
        Can.CREATE_PROJECT, Can.UPDATE_USERS, Can.DELETE_USERS, Can.LIST_USERS, Can.PROVISION_USERS, Can.READ_GRANTS,
    ),
    T.PROJECT: (
        Can.CREATE_WAREHOUSE, Can.DELETE, Can.RENAME, Can.GET_METADATA, Can.LIST_WAREHOUSES, Can.INCLUDE_IN_LIST,
        Can.CREATE_ROLE, Can.LIST_ROLES, Can.SEARCH_ROLES, Can.GET_ENDPOINT_STATISTICS, Can.MODIFY_TASK_QUEUE_CONFIG,
        Can.GET_TASK_QUEUE_CONFIG, Can.GET_PROJECT_TASKS, Can.CONTROL_PROJECT_TASKS, Can.CREATE_TAG, Can.LIST_TAGS,
        Can.READ_GRANTS,
    ),
    T.WAREHOUSE: (
        Can.CREATE_NAMESPACE, Can.DELETE, Can.UPDATE_STORAGE, Can.GET_METADATA, Can.GET_CONFIG, Can.LIST_NAMESPACES,
        Can.LIST_EVERYTHING, Can.USE, Can.INCLUDE_IN_LIST, Can.DEACTIVATE, Can.ACTIVATE, Can.RENAME,
        Can.LIST_DELETED_TABULARS, Can.MODIFY_SOFT_DELETION, Can.GET_TASK_QUEUE_CONFIG, Can.MODIFY_TASK_QUEUE_CONFIG,
        Can.GET_ALL_TASKS, Can.CONTROL_ALL_TASKS, Can.SET_PROTECTION, Can.SET_FORMAT_VERSION_POLICY,
        Can.GET_ENDPOINT_STATISTICS, Can.MANAGE_TAGS, Can.ACCEPT_MOVED_NAMESPACE, Can.READ_GRANTS,
    ),
    T.NAMESPACE: (
        Can.CREATE_TABLE, Can.CREATE_VIEW, Can.CREATE_NAMESPACE, Can.CREATE_GENERIC_TABLE, Can.DELETE,
        Can.UPDATE_PROPERTIES, Can.GET_METADATA, Can.LIST_TABLES, Can.LIST_VIEWS, Can.LIST_GENERIC_TABLES,
        Can.LIST_NAMESPACES, Can.LIST_EVERYTHING, Can.SET_PROTECTION, Can.INCLUDE_IN_LIST, Can.MANAGE_TAGS, Can.MOVE,
        Can.ACCEPT_MOVED_NAMESPACE, Can.READ_GRANTS,
    ),
    T.TABLE: (Can.DROP, Can.WRITE_DATA, Can.READ_DATA, Can.COMMIT, *_OF_TABULARS),
    T.VIEW: (Can.DROP, Can.SELECT, Can.COMMIT, *_OF_TABULARS),
    T.GENERIC_TABLE: (Can.DROP, Can.WRITE_DATA, Can.READ_DATA, *_OF_TABULARS),
    T.ROLE: (
        Can.READ, Can.READ_METADATA, Can.DELETE, Can.UPDATE, Can.MANAGE_ROLE_ASSIGNMENTS, Can.READ_ROLE_ASSIGNMENTS,
        Can.UPDATE_SOURCE_SYSTEM,
    ),
    T.TAG: (
        Can.READ, Can.UPDATE, Can.DELETE, Can.APPLY, Can.REMOVE, Can.READ_ATTACHMENTS, Can.READ_GRANTS,
    ),
    T.USER: (Can.READ, Can.UPDATE, Can.DELETE, Can.READ_ROLE_ASSIGNMENTS),
}  # fmt: skip
"""Everybody who is known may do `Can.READ_METADATA` on a role, and what may be done with users is decided in
`tenancy.selectors.users`; the rest is the model's."""


def _words(*actions: Can) -> dict[str, Can]:
    return {action.value: action for action in actions}


def _granting(securable_type: Securable.Type, *left_out: Can) -> dict[str, Can]:
    """The words about the grants on objects of a type, but for `left_out`, which have none."""
    actions = [grant_action(each.name) for each in privileges_on(securable_type)]
    return {"read_assignments": Can.READ_GRANTS, **_words(*(each for each in actions if each not in left_out))}


GRANT_ACTION_NAMES: Final[Mapping[Securable.Type, Mapping[str, Can]]] = {
    T.SERVER: _granting(T.SERVER, Can.GRANT_OPERATOR),
    T.PROJECT: _granting(T.PROJECT),
    T.WAREHOUSE: _granting(T.WAREHOUSE),
    T.NAMESPACE: _granting(T.NAMESPACE, Can.CHANGE_OWNERSHIP),
    T.TABLE: _granting(T.TABLE),
    T.VIEW: _granting(T.VIEW),
    T.GENERIC_TABLE: _granting(T.GENERIC_TABLE),
    T.ROLE: {
        "assume": Can.ASSUME,
        "can_grant_assignee": Can.MANAGE_ROLE_ASSIGNMENTS,
        "can_change_ownership": Can.CHANGE_OWNERSHIP,
        "read_assignments": Can.READ_ROLE_ASSIGNMENTS,
    },
}
"""The words of `permissions/.../authorizer-actions`."""

_OLD_ON_TABULARS: Final = _words(
    Can.DROP, Can.GET_METADATA, Can.RENAME, Can.GET_TASKS, Can.CONTROL_TASKS, Can.SET_PROTECTION
)

LEGACY_ACTION_NAMES: Final[Mapping[Securable.Type, Mapping[str, Can]]] = {
    T.SERVER: {
        **_words(Can.CREATE_PROJECT, Can.UPDATE_USERS, Can.DELETE_USERS, Can.LIST_USERS, Can.PROVISION_USERS),
        **GRANT_ACTION_NAMES[T.SERVER],
    },
    T.PROJECT: {
        **_words(Can.CREATE_WAREHOUSE, Can.DELETE, Can.RENAME, Can.LIST_WAREHOUSES, Can.CREATE_ROLE, Can.LIST_ROLES),
        **_words(Can.SEARCH_ROLES, Can.GET_ENDPOINT_STATISTICS),
        **GRANT_ACTION_NAMES[T.PROJECT],
    },
    T.WAREHOUSE: {
        **_words(Can.CREATE_NAMESPACE, Can.ACCEPT_MOVED_NAMESPACE, Can.DELETE),
        "modify_storage": Can.UPDATE_STORAGE,
        "modify_storage_credential": Can.UPDATE_STORAGE_CREDENTIAL,
        **_words(Can.GET_CONFIG, Can.GET_METADATA, Can.LIST_NAMESPACES, Can.INCLUDE_IN_LIST, Can.DEACTIVATE),
        **_words(Can.ACTIVATE, Can.RENAME, Can.LIST_DELETED_TABULARS, Can.GET_ALL_TASKS, Can.CONTROL_ALL_TASKS),
        **_words(Can.SET_PROTECTION, Can.SET_FORMAT_VERSION_POLICY, Can.GET_ENDPOINT_STATISTICS),
        **GRANT_ACTION_NAMES[T.WAREHOUSE],
    },
    T.NAMESPACE: {
        **_words(Can.CREATE_TABLE, Can.CREATE_VIEW, Can.CREATE_GENERIC_TABLE, Can.CREATE_NAMESPACE, Can.DELETE),
        **_words(Can.MOVE, Can.ACCEPT_MOVED_NAMESPACE, Can.UPDATE_PROPERTIES, Can.GET_METADATA, Can.SET_PROTECTION),
        **GRANT_ACTION_NAMES[T.NAMESPACE],
    },
    T.TABLE: {
        **_words(Can.WRITE_DATA, Can.READ_DATA, Can.COMMIT), **_OLD_ON_TABULARS, **GRANT_ACTION_NAMES[T.TABLE],
    },
    T.VIEW: {**_words(Can.SELECT, Can.COMMIT), **_OLD_ON_TABULARS, **GRANT_ACTION_NAMES[T.VIEW]},
    T.GENERIC_TABLE: {
        **_words(Can.WRITE_DATA, Can.READ_DATA, Can.UNDROP, Can.INCLUDE_IN_LIST),
        **_OLD_ON_TABULARS,
        **GRANT_ACTION_NAMES[T.GENERIC_TABLE],
    },
    T.ROLE: {**GRANT_ACTION_NAMES[T.ROLE], **_words(Can.DELETE, Can.UPDATE, Can.READ)},
}  # fmt: skip
"""The words of `permissions/check` and of `permissions/.../access`."""

ACTION_NAMES: Final[Mapping[Securable.Type, Mapping[str, Can]]] = {
    kind: {**_words(*ACTIONS_ON[kind]), **words}
    for kind, words in {**LEGACY_ACTION_NAMES, T.TAG: _granting(T.TAG)}.items()
}
"""Both sets of words, for questions of our own: what is in both means the same."""
