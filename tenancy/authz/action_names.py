"""The names of actions in the API, by type of object.

There are two sets: the newer routes (`.../actions`, batch-check) use the values of `Can` in `ACTIONS_ON`, without the
actions on grants; the older routes `permissions/...` have other names for some actions.
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
"""Every registered user may do `Can.READ_METADATA` on a role, and `tenancy.selectors.users` decides actions on users;
all other actions are in the model."""


def _names(*actions: Can) -> dict[str, Can]:
    return {action.value: action for action in actions}


def _grant_actions(securable_type: Securable.Type, *excluded: Can) -> dict[str, Can]:
    """Return the names of actions on grants, without `excluded`, which the API does not have."""
    actions = [grant_action(each.name) for each in privileges_on(securable_type)]
    return {"read_assignments": Can.READ_GRANTS, **_names(*(each for each in actions if each not in excluded))}


GRANT_ACTION_NAMES: Final[Mapping[Securable.Type, Mapping[str, Can]]] = {
    T.SERVER: _grant_actions(T.SERVER, Can.GRANT_OPERATOR),
    T.PROJECT: _grant_actions(T.PROJECT),
    T.WAREHOUSE: _grant_actions(T.WAREHOUSE),
    T.NAMESPACE: _grant_actions(T.NAMESPACE, Can.CHANGE_OWNERSHIP),
    T.TABLE: _grant_actions(T.TABLE),
    T.VIEW: _grant_actions(T.VIEW),
    T.GENERIC_TABLE: _grant_actions(T.GENERIC_TABLE),
    T.ROLE: {
        "assume": Can.ASSUME,
        "can_grant_assignee": Can.MANAGE_ROLE_ASSIGNMENTS,
        "can_change_ownership": Can.CHANGE_OWNERSHIP,
        "read_assignments": Can.READ_ROLE_ASSIGNMENTS,
    },
}
"""The names of `permissions/.../authorizer-actions`."""

_LEGACY_ON_TABULARS: Final = _names(
    Can.DROP, Can.GET_METADATA, Can.RENAME, Can.GET_TASKS, Can.CONTROL_TASKS, Can.SET_PROTECTION
)

LEGACY_ACTION_NAMES: Final[Mapping[Securable.Type, Mapping[str, Can]]] = {
    T.SERVER: {
        **_names(Can.CREATE_PROJECT, Can.UPDATE_USERS, Can.DELETE_USERS, Can.LIST_USERS, Can.PROVISION_USERS),
        **GRANT_ACTION_NAMES[T.SERVER],
    },
    T.PROJECT: {
        **_names(Can.CREATE_WAREHOUSE, Can.DELETE, Can.RENAME, Can.LIST_WAREHOUSES, Can.CREATE_ROLE, Can.LIST_ROLES),
        **_names(Can.SEARCH_ROLES, Can.GET_ENDPOINT_STATISTICS),
        **GRANT_ACTION_NAMES[T.PROJECT],
    },
    T.WAREHOUSE: {
        **_names(Can.CREATE_NAMESPACE, Can.ACCEPT_MOVED_NAMESPACE, Can.DELETE),
        "modify_storage": Can.UPDATE_STORAGE,
        "modify_storage_credential": Can.UPDATE_STORAGE_CREDENTIAL,
        **_names(Can.GET_CONFIG, Can.GET_METADATA, Can.LIST_NAMESPACES, Can.INCLUDE_IN_LIST, Can.DEACTIVATE),
        **_names(Can.ACTIVATE, Can.RENAME, Can.LIST_DELETED_TABULARS, Can.GET_ALL_TASKS, Can.CONTROL_ALL_TASKS),
        **_names(Can.SET_PROTECTION, Can.SET_FORMAT_VERSION_POLICY, Can.GET_ENDPOINT_STATISTICS),
        **GRANT_ACTION_NAMES[T.WAREHOUSE],
    },
    T.NAMESPACE: {
        **_names(Can.CREATE_TABLE, Can.CREATE_VIEW, Can.CREATE_GENERIC_TABLE, Can.CREATE_NAMESPACE, Can.DELETE),
        **_names(Can.MOVE, Can.ACCEPT_MOVED_NAMESPACE, Can.UPDATE_PROPERTIES, Can.GET_METADATA, Can.SET_PROTECTION),
        **GRANT_ACTION_NAMES[T.NAMESPACE],
    },
    T.TABLE: {
        **_names(Can.WRITE_DATA, Can.READ_DATA, Can.COMMIT), **_LEGACY_ON_TABULARS, **GRANT_ACTION_NAMES[T.TABLE],
    },
    T.VIEW: {**_names(Can.SELECT, Can.COMMIT), **_LEGACY_ON_TABULARS, **GRANT_ACTION_NAMES[T.VIEW]},
    T.GENERIC_TABLE: {
        **_names(Can.WRITE_DATA, Can.READ_DATA, Can.UNDROP, Can.INCLUDE_IN_LIST),
        **_LEGACY_ON_TABULARS,
        **GRANT_ACTION_NAMES[T.GENERIC_TABLE],
    },
    T.ROLE: {**GRANT_ACTION_NAMES[T.ROLE], **_names(Can.DELETE, Can.UPDATE, Can.READ)},
}  # fmt: skip
"""The names of `permissions/check` and of `permissions/.../access`."""

ACTION_NAMES: Final[Mapping[Securable.Type, Mapping[str, Can]]] = {
    kind: {**_names(*ACTIONS_ON[kind]), **names}
    for kind, names in {**LEGACY_ACTION_NAMES, T.TAG: _grant_actions(T.TAG)}.items()
}
"""Both sets of names; a name that is in both means the same action."""
