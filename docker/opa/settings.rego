# Settings from environment variables; docs/trino-opa.md describes each of them.
#
# An invalid value leaves its rule undefined, so that every decision that needs it is a denial. `problems` shows the
# reason:  opa eval -d docker/opa data.icekeeper.settings.problems
package icekeeper.settings

variables := opa.runtime().env

url := trim_right(text("LAKEKEEPER_URL", "http://localhost:8181"), "/")

token := text("LAKEKEEPER_TOKEN", "")

token_endpoint := text("LAKEKEEPER_TOKEN_ENDPOINT", "")

client_id := text("LAKEKEEPER_CLIENT_ID", "")

client_secret := text("LAKEKEEPER_CLIENT_SECRET", "")

# Empty: request no scope.
scope := object.get(variables, "LAKEKEEPER_SCOPE", "lakekeeper")

token_cache_seconds := number("LAKEKEEPER_TOKEN_CACHE_SECONDS", 150, 1, 3600)

timeout_seconds := number("LAKEKEEPER_TIMEOUT_SECONDS", 10, 1, 60)

max_batch_check_size := number("LAKEKEEPER_MAX_BATCH_CHECK_SIZE", 1000, 1, 1000)

identity_provider := text("TRINO_IDENTITY_PROVIDER", "oidc")

nests_namespaces := switch("TRINO_NESTED_NAMESPACES", "true")

allows_unmanaged_catalogs := switch("TRINO_ALLOW_UNMANAGED_CATALOGS", "false")

admin_users := names("TRINO_ADMIN_USERS", "")

# Schemas that Trino provides itself in every catalog; they are not namespaces.
virtual_schemas := names("TRINO_VIRTUAL_SCHEMAS", "information_schema")

# The warehouse of each managed Trino catalog.
# Trino uses lower case names of catalogs only: a name in another case would never match.
warehouses := object.union(slots, mapping) if {
	is_object(mapping)
	every name, _ in slots {
		name == lower(name)
	}
	every catalog, warehouse in mapping {
		not catalog in {"", "system"}
		catalog == lower(catalog)
		is_string(warehouse)
		warehouse != ""
	}
}

mapping := json.unmarshal(text("TRINO_CATALOG_WAREHOUSES", "{}"))

# A catalog without a warehouse is managed too: access to it is denied.
slots[catalog] := text(sprintf("LAKEKEEPER_%s_WAREHOUSE", [slot]), "") if {
	some slot in ["DEV", "PROD", "DEMO", "LAKEKEEPER"]
	catalog := text(sprintf("TRINO_%s_CATALOG_NAME", [slot]), "")
	not catalog in {"", "system"}
}

# An empty variable counts as unset.
text(name, otherwise) := value if {
	value := object.get(variables, name, "")
	value != ""
} else := otherwise

number(name, otherwise, lowest, highest) := value if {
	value := to_number(text(name, sprintf("%d", [otherwise])))
	value == floor(value)
	value >= lowest
	value <= highest
}

switch(name, otherwise) := {"true": true, "false": false}[lower(text(name, otherwise))]

names(name, otherwise) := {trim_space(each) | some each in split(text(name, otherwise), ",")} - {""}

problems contains sprintf("%s: Trino's catalogs are in lower case", [catalog]) if {
	some catalog in (object.keys(mapping) | object.keys(slots))
	catalog != lower(catalog)
}

problems contains "TRINO_CATALOG_WAREHOUSES is not a JSON object of catalog names in lower case and warehouse names" if {
	not warehouses
}

problems contains sprintf("%s has no warehouse", [catalog]) if {
	some catalog, warehouse in warehouses
	warehouse == ""
}

problems contains "No catalog is mapped to a warehouse" if count(warehouses) == 0

problems contains "LAKEKEEPER_TOKEN_CACHE_SECONDS is not a whole number from 1 to 3600" if not token_cache_seconds

problems contains "LAKEKEEPER_TIMEOUT_SECONDS is not a whole number from 1 to 60" if not timeout_seconds

problems contains "LAKEKEEPER_MAX_BATCH_CHECK_SIZE is not a whole number from 1 to 1000" if not max_batch_check_size

problems contains sprintf("%s is neither true nor false", [name]) if {
	some name in ["TRINO_NESTED_NAMESPACES", "TRINO_ALLOW_UNMANAGED_CATALOGS"]
	not lower(text(name, "false")) in {"true", "false"}
}

problems contains "TRINO_IDENTITY_PROVIDER is not of a-z, 0-9 and -" if not regex.match(`^[a-z0-9-]+$`, identity_provider)

problems contains "LAKEKEEPER_TOKEN or LAKEKEEPER_TOKEN_ENDPOINT, _CLIENT_ID and _CLIENT_SECRET are needed" if {
	token == ""
	"" in {token_endpoint, client_id, client_secret}
}

problems contains "LAKEKEEPER_TOKEN and LAKEKEEPER_TOKEN_ENDPOINT are both set: the token is used" if {
	token != ""
	token_endpoint != ""
}
