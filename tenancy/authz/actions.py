"""The actions that permissions are checked for, the privileges that can be granted, and the names of both in the API.

There are two sets of names: the newer routes (`.../actions`, batch-check) use the values of `Can` in `ACTIONS_ON`,
without the actions on grants; the older routes `permissions/...` have other names for some actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from tenancy.authz.model import OWNERSHIP, rights_model
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

T = Securable.Type


class Can(StrEnum):
    # server
    CREATE_PROJECT = "create_project"
    LIST_ALL_PROJECTS = "list_all_projects"
    LIST_USERS = "list_users"
    PROVISION_USERS = "provision_users"
    UPDATE_USERS = "update_users"
    DELETE_USERS = "delete_users"
    READ_AUDIT = "read_audit"  # on a project, too
    MANAGE_EVENT_SINKS = "manage_event_sinks"
    GRANT_ADMIN = "grant_admin"
    GRANT_OPERATOR = "grant_operator"
    # project
    CREATE_TAG = "create_tag"
    LIST_TAGS = "list_tags"
    GET_PROJECT_TASKS = "get_project_tasks"
    CONTROL_PROJECT_TASKS = "control_project_tasks"
    LIST_WAREHOUSES = "list_warehouses"
    CREATE_WAREHOUSE = "create_warehouse"
    CREATE_ROLE = "create_role"
    LIST_ROLES = "list_roles"
    SEARCH_ROLES = "search_roles"
    GRANT_PROJECT_ADMIN = "grant_project_admin"
    GRANT_SECURITY_ADMIN = "grant_security_admin"
    GRANT_DATA_ADMIN = "grant_data_admin"
    GRANT_ROLE_CREATOR = "grant_role_creator"
    GRANT_TAG_CREATOR = "grant_tag_creator"
    # warehouse
    USE = "use"
    GET_CONFIG = "get_config"
    CREATE_NAMESPACE = "create_namespace"
    ACTIVATE = "activate"
    DEACTIVATE = "deactivate"
    UPDATE_STORAGE = "update_storage"
    MODIFY_SOFT_DELETION = "modify_soft_deletion"
    SET_FORMAT_VERSION_POLICY = "set_format_version_policy"
    LIST_DELETED_TABULARS = "list_deleted_tabulars"
    UPDATE_STORAGE_CREDENTIAL = "update_storage_credential"
    GET_ALL_TASKS = "get_all_tasks"
    CONTROL_ALL_TASKS = "control_all_tasks"
    # namespace
    CREATE_TABLE = "create_table"
    CREATE_VIEW = "create_view"
    CREATE_GENERIC_TABLE = "create_generic_table"
    UPDATE_PROPERTIES = "update_properties"
    LIST_TABLES = "list_tables"
    LIST_VIEWS = "list_views"
    LIST_GENERIC_TABLES = "list_generic_tables"
    LIST_NAMESPACES = "list_namespaces"
    MOVE = "move"
    ACCEPT_MOVED_NAMESPACE = "accept_moved_namespace"
    # several
    GET_TASK_QUEUE_CONFIG = "get_task_queue_config"
    MODIFY_TASK_QUEUE_CONFIG = "modify_task_queue_config"
    MANAGE_TAGS = "manage_tags"
    READ_EVENTS = "read_events"
    MANAGE_RULES = "manage_rules"
    OVERRIDE_RULES = "override_rules"
    READ_GRANTS = "read_grants"
    GRANT_DESCRIBE = "grant_describe"
    GRANT_SELECT = "grant_select"
    GRANT_CREATE = "grant_create"
    GRANT_MODIFY = "grant_modify"
    GRANT_PASS_GRANTS = "grant_pass_grants"  # noqa: S105 - a name
    GRANT_MANAGE_GRANTS = "grant_manage_grants"
    GRANT_MANAGE_TAGS = "grant_manage_tags"
    GRANT_READ_EVENTS = "grant_read_events"
    GRANT_MANAGE_RULES = "grant_manage_rules"
    GRANT_OVERRIDE_RULES = "grant_override_rules"
    CHANGE_OWNERSHIP = "change_ownership"
    SET_MANAGED_ACCESS = "set_managed_access"
    GET_ENDPOINT_STATISTICS = "get_endpoint_statistics"
    GET_METADATA = "get_metadata"
    INCLUDE_IN_LIST = "include_in_list"
    LIST_EVERYTHING = "list_everything"
    DELETE = "delete"
    SET_PROTECTION = "set_protection"
    # table, view, generic table
    SELECT = "select"
    GET_TASKS = "get_tasks"
    CONTROL_TASKS = "control_tasks"
    READ_DATA = "read_data"
    WRITE_DATA = "write_data"
    COMMIT = "commit"
    DROP = "drop"
    UNDROP = "undrop"
    RENAME = "rename"  # a project and a warehouse, too
    # role and user
    READ = "read"
    UPDATE = "update"
    READ_METADATA = "read_metadata"
    ASSUME = "assume"
    UPDATE_SOURCE_SYSTEM = "update_source_system"
    MANAGE_ROLE_ASSIGNMENTS = "manage_role_assignments"
    READ_ROLE_ASSIGNMENTS = "read_role_assignments"
    # tag
    APPLY = "apply"
    REMOVE = "remove"
    READ_ATTACHMENTS = "read_attachments"
    GRANT_APPLY = "grant_apply"


SEEN_BY: dict[Securable.Type, Can] = {
    T.WAREHOUSE: Can.USE,
    T.NAMESPACE: Can.GET_METADATA,
    T.TABLE: Can.GET_METADATA,
    T.VIEW: Can.GET_METADATA,
    T.GENERIC_TABLE: Can.GET_METADATA,
    T.ROLE: Can.READ,
    T.TAG: Can.READ,
}
"""The action without which an object of the type is hidden; projects, servers and users are never hidden."""


ASSIGNEE: Final = "assignee"
PASS_GRANTS: Final = "pass_grants"  # noqa: S105 - a name
ADMINISTRATORS: Final = {T.SERVER: ("admin", "operator"), T.PROJECT: ("project_admin",)}
"""By type: the privileges of administrators, of which at least one grant must always remain."""

_DESCRIPTIONS: Final = {
    "admin": ("administration", "Manage users, projects and administrators; no access to objects inside warehouses"),
    "operator": ("administration", "Everything, in every project"),
    "project_admin": ("administration", "Everything in the project"),
    "security_admin": (
        "security",
        "Roles, tags and all grants of the project but that of project_admin; sees everything",
    ),
    "data_admin": ("administration", "Create, read and change all objects in the warehouses of the project"),
    "role_creator": ("create", "Create roles"),
    "tag_creator": ("create", "Create tag definitions"),
    OWNERSHIP: ("security", "Everything on the object and all objects in it, and grant it to others"),
    PASS_GRANTS: ("security", "Grant own privileges to others"),
    "manage_grants": ("security", "Grant any privilege on the object and all objects in it, without having it"),
    "manage_tags": ("security", "Attach tags to the object and all objects in it"),
    "read_events": ("metadata", "Read the events of the object and all objects in it, which contain metadata"),
    "manage_rules": ("security", "Manage and override rules of change approval on the object and all objects in it"),
    "override_rules": ("security", "Override rules of change approval on the object and all objects in it"),
    "describe": ("metadata", "See the object and its metadata"),
    "select": ("read", "Read data"),
    "create": ("create", "Create objects in it"),
    "modify": ("write", "Write data, change and drop"),
    ASSIGNEE: ("security", "Be a member of the role"),
    "apply": ("write", "Attach the tag to objects and remove it"),
}


@dataclass(frozen=True, slots=True)
class Privilege:
    """`category` is one of administration, security, metadata, read, write, create."""

    name: str
    securable_type: Securable.Type
    category: str
    description: str


@cache
def privilege_names(securable_type: str) -> tuple[str, ...]:
    """Return the privileges that can be granted on a type, in the order of the model; none for users."""
    return rights_model().privileges(securable_type)


def privileges_on(securable_type: Securable.Type) -> list[Privilege]:
    """Return the privileges of a type with their descriptions, in the order of the model."""
    names = privilege_names(securable_type.value)
    return [Privilege(name, securable_type, *_DESCRIPTIONS[name]) for name in names]


def is_privilege(securable_type: Securable.Type, name: str) -> bool:
    return name in privilege_names(securable_type.value)


def grant_action(privilege: str) -> Can:
    """Return the action that granting or revoking a privilege requires on the object."""
    if privilege == OWNERSHIP:
        return Can.CHANGE_OWNERSHIP
    return Can.MANAGE_ROLE_ASSIGNMENTS if privilege == ASSIGNEE else Can(f"grant_{privilege}")


def reads_grants(ref: ObjectRef) -> Can:
    """Return the action that reading the grants on an object requires."""
    return Can.READ_ROLE_ASSIGNMENTS if ref.type is T.ROLE else Can.READ_GRANTS


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


_GRANT_ACTIONS_OF_OWN_PRIVILEGES: Final = (Can.GRANT_READ_EVENTS, Can.GRANT_MANAGE_RULES, Can.GRANT_OVERRIDE_RULES)
"""Actions on grants of privileges that Lakekeeper does not have; its clients do not know their names."""


def _grant_actions(securable_type: Securable.Type, *excluded: Can) -> dict[str, Can]:
    """Return the names of actions on grants, without `excluded`, which the API does not have."""
    actions = [grant_action(each.name) for each in privileges_on(securable_type)]
    return {"read_assignments": Can.READ_GRANTS, **_names(*(each for each in actions if each not in excluded))}


GRANT_ACTION_NAMES: Final[Mapping[Securable.Type, Mapping[str, Can]]] = {
    T.SERVER: _grant_actions(T.SERVER, Can.GRANT_OPERATOR),
    T.PROJECT: _grant_actions(T.PROJECT, *_GRANT_ACTIONS_OF_OWN_PRIVILEGES),
    T.WAREHOUSE: _grant_actions(T.WAREHOUSE, *_GRANT_ACTIONS_OF_OWN_PRIVILEGES),
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
