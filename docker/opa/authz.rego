# Who may ask this process what, where it is started with --authorization=basic, as it should be: without that, everybody
# who reaches it can read the catalog's token by `GET /v1/data`. Parameters are refused as ?explain=full shows it, too.
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
