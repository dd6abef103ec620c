# The permissions that each operation of Trino requires.
#
# `demands` is a set of sets of operations of batch-check: one of each inner set must be granted. It is undefined for an
# unknown operation or resource, which is therefore denied.
package icekeeper.operations

import data.icekeeper.catalog
import data.icekeeper.settings

# On the warehouse of `resource.catalog`.
catalog_rights := {
	"AccessCatalog": "get_config",
	"CreateCatalog": "delete",
	"DropCatalog": "delete",
	"FilterCatalogs": "get_config",
	"ShowSchemas": "list_namespaces",
}

# On the namespace of `resource.schema`.
schema_rights := {
	"DropSchema": "delete",
	"FilterSchemas": "get_metadata",
	"ShowCreateSchema": "get_metadata",
	"ShowTables": "get_metadata",
}

# On the namespace in which `resource.table` is created.
creation_rights := {
	"CreateMaterializedView": "create_view",
	"CreateTable": "create_table",
	"CreateView": "create_view",
}

# Trino authorizes CREATE OR REPLACE like CREATE: the user must be allowed to drop an existing object of the name.
replaced_kinds := {
	"CreateMaterializedView": "view",
	"CreateTable": "table",
	"CreateView": "view",
}

# On `resource.table`: one of these, because Trino does not send whether a name is a table or a view.
relation_rights := {
	"AddColumn": {"table": "write_data"},
	"AlterColumn": {"table": "write_data"},
	"CreateViewWithSelectFromColumns": {"table": "read_data", "view": "select"},
	"DeleteFromTable": {"table": "write_data"},
	"DropColumn": {"table": "write_data"},
	"DropTable": {"table": "drop"},
	"DropView": {"view": "drop"},
	"FilterColumns": {"table": "get_metadata", "view": "get_metadata"},
	"FilterTables": {"table": "get_metadata", "view": "get_metadata"},
	"InsertIntoTable": {"table": "write_data"},
	"RenameColumn": {"table": "write_data"},
	"SelectFromColumns": {"table": "read_data", "view": "select"},
	"SetColumnComment": {"table": "write_data", "view": "commit"},
	"SetTableComment": {"table": "write_data"},
	"SetTableProperties": {"table": "commit"},
	"SetViewComment": {"view": "commit"},
	"ShowColumns": {"table": "get_metadata", "view": "get_metadata"},
	"ShowCreateTable": {"table": "get_metadata", "view": "get_metadata"},
	"TruncateTable": {"table": "write_data"},
	"UpdateTableColumns": {"table": "write_data"},
}

table_procedures := {
	"add_files",
	"drop_extended_stats",
	"expire_snapshots",
	"optimize",
	"optimize_manifests",
	"remove_orphan_files",
}

# Operations that look up a name, and so also receive names of tables that do not exist.
readings := {"FilterColumns", "FilterTables", "SelectFromColumns", "ShowColumns"}

# Trino's metadata tables, `t$snapshots` of the table `t`. Those of the second list are read from manifests: they
# contain minimum and maximum values of columns, which the metadata does not contain.
of_metadata := {"history", "metadata_log_entries", "properties", "refs", "snapshots"}

of_manifests := {"all_entries", "all_manifests", "entries", "files", "manifests", "partitions"}

demands(operation, resource, _) := {{warehouse(resource.catalog.name, {"action": catalog_rights[operation]})}}

demands(operation, resource, _) := {{namespace(resource.schema, {"action": schema_rights[operation]})}} if {
	not is_virtual(resource.schema)
}

demands(operation, resource, _) := {{warehouse(resource.schema.catalogName, {"action": "get_config"})}} if {
	operation in {"FilterSchemas", "ShowTables"}
	is_virtual(resource.schema)
}

demands("CreateSchema", resource, _) := {{creation_of_schema(resource.schema)}} if not is_virtual(resource.schema)

demands(operation, resource, _) := {{namespace(resource.table, {"action": creation_rights[operation]})}}

demands(operation, resource, _) := {relations(resource.table, relation_rights[operation])} if {
	not is_derived(operation, resource.table)
	not metadata_table(operation, resource.table)
}

demands(operation, resource, _) := {{warehouse(resource.table.catalogName, {"action": "get_config"})}} if {
	is_derived(operation, resource.table)
}

demands(operation, resource, _) := {relations(found.table, {"table": found.right})} if {
	found := metadata_table(operation, resource.table)
}

demands("ExecuteTableProcedure", resource, _) := {relations(resource.table, {"table": "write_data"})} if {
	procedure := object.get(resource.function, "functionName", object.get(resource.function, "name", ""))
	lower(procedure) in table_procedures
}

demands("RenameTable", resource, target) := {
	relations(resource.table, {"table": "rename"}),
	{namespace(target.table, {"action": "create_table"})},
}

demands("RenameView", resource, target) := {
	relations(resource.table, {"view": "rename"}),
	{namespace(target.table, {"action": "create_view"})},
}

# Must be granted if `resource.table` exists.
replacement(operation, resource) := wanted if {
	some wanted in relations(resource.table, {replaced_kinds[operation]: "drop"})
}

# A user with this permission sees everything below, so that a list needs no check for each item.
shortcuts("FilterSchemas", resource) := {everything(resource.schema.catalogName)}

shortcuts("FilterTables", resource) := {
	everything(resource.table.catalogName),
	namespace(resource.table, {"action": "list_everything"}),
}

everything(name) := warehouse(name, {"action": "list_everything"})

is_virtual(schema) if schema.schemaName in settings.virtual_schemas

is_derived(operation, table) if {
	operation in readings
	is_virtual(table)
}

is_derived(operation, table) if {
	operation in readings
	table.schemaName == "system"
	table.tableName == "iceberg_tables"
}

metadata_table(operation, table) := {"table": object.union(table, {"tableName": parts[0]}), "right": right} if {
	operation in (readings | {"CreateViewWithSelectFromColumns", "ShowCreateTable"})
	not is_virtual(table)
	parts := split(table.tableName, "$")
	count(parts) == 2
	parts[0] != ""
	parts[1] in (of_metadata | of_manifests)
	right := right_to_metadata(operation, parts[1])
}

right_to_metadata(operation, kind) := "read_data" if {
	operation in {"CreateViewWithSelectFromColumns", "SelectFromColumns"}
	kind in of_manifests
} else := "get_metadata"

creation_of_schema(schema) := warehouse(schema.catalogName, action) if {
	levels(schema.schemaName) == [schema.schemaName]
	action := creation_of_namespace(schema)
}

creation_of_schema(schema) := below if {
	path := levels(schema.schemaName)
	parent := array.slice(path, 0, count(path) - 1)
	count(parent) > 0
	below := {"namespace": {
		"action": creation_of_namespace(schema),
		"namespace": parent,
		"warehouse-id": catalog.warehouse_ids[schema.catalogName],
	}}
}

# With the properties of the request, as strings.
creation_of_namespace(schema) := object.union({"action": "create_namespace"}, {"properties": texts |
	texts := {name: value | some name, value in schema.properties; is_string(value)}
	count(texts) > 0
})

warehouse(name, action) := {"warehouse": {"action": action, "warehouse-id": catalog.warehouse_ids[name]}}

namespace(schema, action) := {"namespace": {
	"action": action,
	"namespace": levels(schema.schemaName),
	"warehouse-id": catalog.warehouse_ids[schema.catalogName],
}}

relations(table, rights) := {operation |
	some kind, action in rights
	operation := {kind: {
		"action": {"action": action},
		"namespace": levels(table.schemaName),
		"table": table.tableName,
		"warehouse-id": catalog.warehouse_ids[table.catalogName],
	}}
}

# Must equal the setting iceberg.rest-catalog.nested-namespace-enabled of Trino, or another namespace is checked.
levels(schema) := split(schema, ".") if settings.nests_namespaces

levels(schema) := [schema] if settings.nests_namespaces == false
