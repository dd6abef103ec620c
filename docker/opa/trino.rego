# The two decisions that Trino requests: POST /v1/data/trino/allow (opa.policy.uri) and POST /v1/data/trino/batch
# (opa.policy.batched-uri). Row filters and column masks are not supported: do not configure their URIs.
package trino

import data.icekeeper.catalog
import data.icekeeper.open
import data.icekeeper.operations

# Add your own rules on `input` in another file of this package. They can only allow more: `allow_managed` applies if all
# catalogs of an operation are mapped to warehouses, `allow_unmanaged` if none is, or if the operation names none.
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

# A batch has `filterResources` instead of `resource`; the result is the indexes of the allowed ones.
batch contains i if {
	not lists_columns
	some i in (settled | met)
}

# All columns of one table: the result is the indexes of the columns.
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

# The input of `trino/allow` for one item. It is a new object, because a changed copy of a long input is slow.
alone(item) := {"context": input.context, "action": {"operation": operation, "resource": item}}

# Items that a permission to list everything covers; a single item is checked directly. This and `demands_of` are not
# partial objects, because OPA compares each key of those with all others.
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
