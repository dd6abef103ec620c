"""What an actor may want to do: the vocabulary of the permission APIs."""

from __future__ import annotations

from enum import StrEnum


class Can(StrEnum):
    # project
    LIST_WAREHOUSES = "list_warehouses"
    CREATE_WAREHOUSE = "create_warehouse"
    # warehouse
    GET_CONFIG = "get_config"
    CREATE_NAMESPACE = "create_namespace"
    # namespace
    CREATE_TABLE = "create_table"
    CREATE_VIEW = "create_view"
    CREATE_GENERIC_TABLE = "create_generic_table"
    UPDATE_PROPERTIES = "update_properties"
    LIST_TABLES = "list_tables"
    LIST_VIEWS = "list_views"
    LIST_GENERIC_TABLES = "list_generic_tables"
    LIST_NAMESPACES = "list_namespaces"
    # several
    GET_ENDPOINT_STATISTICS = "get_endpoint_statistics"
    GET_METADATA = "get_metadata"
    DELETE = "delete"
    # table, view, generic table
    COMMIT = "commit"
    DROP = "drop"
    RENAME = "rename"
