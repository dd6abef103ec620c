# Limits the requests to OPA when it runs with --authorization=basic. Always use that option: without it, every client
# that reaches OPA can read the token of the catalog with `GET /v1/data`, or with the parameter ?explain=full.
package system.authz

default allow := false

allow if {
	input.method == "POST"
	input.path in [["v1", "data", "trino", "allow"], ["v1", "data", "trino", "batch"]]
	count(input.params) == 0
}

allow if {
	input.method == "GET"
	input.path == ["health"]
}
