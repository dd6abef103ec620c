# Decisions without a request to the catalog: operations that are always allowed, Trino's catalog `system`, unmanaged
# catalogs, and your own rules.
package icekeeper.open

import data.icekeeper.settings

for_everyone := {"ExecuteQuery", "ReadSystemInformation"}

# Tables of the catalog `system`: Trino filters their rows with other authorization requests.
system_tables := {
	"information_schema": {"columns", "schemata", "tables", "views"},
	"metadata": {
		"analyze_properties",
		"catalogs",
		"column_properties",
		"materialized_view_properties",
		"schema_properties",
		"table_comments",
		"table_properties",
	},
	"runtime": {"queries"},
}

is_open(operation, _, _) if {
	operation in for_everyone
	input.context.identity.user != ""
}

is_open(operation, resource, _) if {
	operation in {"FilterViewQueryOwnedBy", "ViewQueryOwnedBy"}
	resource.user.user == input.context.identity.user
}

is_open(operation, resource, _) if {
	operation in {"FilterViewQueryOwnedBy", "ViewQueryOwnedBy"}
	is_string(resource.user.user)
	input.context.identity.user in settings.admin_users
}

is_open(operation, resource, _) if {
	operation in {"ExecuteFunction", "FilterFunctions", "CreateViewWithExecuteFunction"}
	resource.function.catalogName == "system"
	resource.function.schemaName == "builtin"
}

is_open(operation, resource, _) if {
	operation in {"AccessCatalog", "FilterCatalogs", "ShowSchemas"}
	resource.catalog.name == "system"
}

is_open(operation, resource, _) if {
	operation in {"FilterSchemas", "ShowTables"}
	resource.schema.catalogName == "system"
	resource.schema.schemaName in (object.keys(system_tables) | {"jdbc"})
}

is_open(operation, resource, _) if {
	operation in {"FilterColumns", "FilterTables", "SelectFromColumns", "ShowColumns"}
	resource.table.catalogName == "system"
	is_system_table(resource.table)
}

is_open(_, resource, target) if {
	catalogs(resource, target) == {"system"}
	input.context.identity.user in settings.admin_users
}

# A user who creates a catalog decides which server receives the credentials of Trino: administrators only.
is_open(operation, resource, target) if {
	settings.allows_unmanaged_catalogs == true
	not operation in {"CreateCatalog", "DropCatalog"}
	count(catalogs(resource, target)) > 0
	not "system" in catalogs(resource, target)
	is_unmanaged(resource, target)
}

is_system_table(table) if table.schemaName == "jdbc"

is_system_table(table) if table.tableName in system_tables[table.schemaName]

# True if every catalog of the operation is mapped to a warehouse.
is_managed(resource, target) if {
	count(catalogs(resource, target)) > 0
	count(catalogs(resource, target) - object.keys(settings.warehouses)) == 0
}

# True if none is mapped. `object.keys` of an invalid mapping is undefined, so that no catalog is unmanaged then.
is_unmanaged(resource, target) if count(catalogs(resource, target) & object.keys(settings.warehouses)) == 0

# The catalogs that the operation names.
catalogs(resource, target) := union({named |
	some object_reference in [resource, target]
	named := {name | some part in object_reference; name := part.catalogName; is_string(name)} | {name | name := object_reference.catalog.name}
})
