# The two decisions that Trino asks for: POST /v1/data/trino/allow (opa.policy.uri) and POST /v1/data/trino/batch
# (opa.policy.batched-uri). Row filters and column masks are not supported: their addresses must not be configured.
package trino

import data.icekeeper.catalog
import data.icekeeper.open
import data.icekeeper.operations

# Rules of your own, in a file of this package beside these, judge by `input`. They can only add: `allow_managed` where
# all catalogs that an operation names are mapped to warehouses, `allow_unmanaged` where none is, or none is named.
default allow_managed := false

default allow_unmanaged := false

operation := input.action.operation

user := input.context.identity.user

resource := object.get(input.action, "resource", {})

target := object.get(input.action, "targetResource", {})

default allow := false

allow if is_free

allow if {
	not is_free
	demands := operations.demands(operation, resource, target)
	is_met(demands, catalog.granted(user, union(demands)))
	may_replace(resource)
}

# In a batch `filterResources` stand in the place of `resource`; the answer is the places of those that are allowed.
batch contains i if {
	not lists_columns
	some i in (settled | met)
}

# All columns of one table: then the answer is the places of the columns.
batch contains i if {
	lists_columns
	0 in (free | met)
	some i, _ in items[0].table.columns
}

items := input.action.filterResources

lists_columns if {
	operation == "FilterColumns"
	count(items) == 1
	is_array(items[0].table.columns)
}

is_free if open.is_open(operation, resource, target)

is_free if {
	open.is_managed(resource, target)
	allow_managed
}

is_free if {
	open.is_unmanaged(resource, target)
	allow_unmanaged
}

free contains i if {
	some i, item in items
	open.is_open(operation, item, {})
}

free contains i if {
	some i, item in items
	open.is_managed(item, {})
	allow_managed with input as alone(item)
}

free contains i if {
	some i, item in items
	open.is_unmanaged(item, {})
	allow_unmanaged with input as alone(item)
}

# A piece as `trino/allow` would be asked about it. A new input as a whole: to change one part of a long one takes a copy
# of it, for each piece.
alone(item) := {"context": input.context, "action": {"operation": operation, "resource": item}}

# What a right to list everything above it covers; for one piece the question itself is as short. This and `demands_of`
# are no partial objects, for which OPA compares each key with all others.
shortcuts := {i: wanted |
	count(items) > 1
	some i, item in items
	not i in free
	wanted := operations.shortcuts(operation, item)
}

covered contains i if {
	some i, wanted in shortcuts
	count(wanted & granted_shortcuts) > 0
}

granted_shortcuts := catalog.granted(user, union({wanted | some wanted in shortcuts}))

settled := free | covered

demands_of := {i: demands |
	some i, item in items
	not i in settled
	demands := operations.demands(operation, item, {})
}

met contains i if {
	some i, demands in demands_of
	is_met(demands, granted_demands)
	may_replace(items[i])
}

may_replace(_) if not operation in object.keys(operations.replaced_kinds)

may_replace(item) if catalog.is_granted_or_missing(user, operations.replacement(operation, item))

granted_demands := catalog.granted(user, {wanted | some demands in demands_of; some each in demands; some wanted in each})

is_met(demands, granted) if {
	count(demands) > 0
	every alternatives in demands {
		count(alternatives & granted) > 0
	}
}
