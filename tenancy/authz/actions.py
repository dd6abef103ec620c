"""The actions that permissions are checked for, by their names in the API."""

from __future__ import annotations

from enum import StrEnum

from tenancy.models import Securable


class Can(StrEnum):
    # server
    CREATE_PROJECT = "create_project"
    LIST_ALL_PROJECTS = "list_all_projects"
    LIST_USERS = "list_users"
    PROVISION_USERS = "provision_users"
    UPDATE_USERS = "update_users"
    DELETE_USERS = "delete_users"
    READ_AUDIT = "read_audit"  # on a project, too
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
    READ_GRANTS = "read_grants"
    GRANT_DESCRIBE = "grant_describe"
    GRANT_SELECT = "grant_select"
    GRANT_CREATE = "grant_create"
    GRANT_MODIFY = "grant_modify"
    GRANT_PASS_GRANTS = "grant_pass_grants"  # noqa: S105 - a name
    GRANT_MANAGE_GRANTS = "grant_manage_grants"
    GRANT_MANAGE_TAGS = "grant_manage_tags"
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
    Securable.Type.WAREHOUSE: Can.USE,
    Securable.Type.NAMESPACE: Can.GET_METADATA,
    Securable.Type.TABLE: Can.GET_METADATA,
    Securable.Type.VIEW: Can.GET_METADATA,
    Securable.Type.GENERIC_TABLE: Can.GET_METADATA,
    Securable.Type.ROLE: Can.READ,
    Securable.Type.TAG: Can.READ,
}
"""The action without which an object of the type is hidden; projects, servers and users are never hidden."""
