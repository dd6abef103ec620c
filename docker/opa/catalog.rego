# The catalog as this process asks it. Whatever goes wrong leaves a rule undefined or a set empty: nothing is granted.
package icekeeper.catalog

import data.icekeeper.settings

# Warehouses are renamed and made anew; this long the old id is asked about. Also how long "there is none" is believed.
warehouse_cache_seconds := 60

token := settings.token if settings.token != ""

else := new_token.body.access_token if {
	new_token.status_code == 200
	is_string(new_token.body.access_token)
	new_token.body.access_token != ""
}

# By client credentials. OPA keeps answers of status 200 for as long as it is told here, whatever `expires_in` says.
new_token := http.send({
	"method": "POST",
	"url": settings.token_endpoint,
	"headers": {"Content-Type": "application/x-www-form-urlencoded"},
	"raw_body": urlquery.encode_object(object.union(
		{
			"grant_type": "client_credentials",
			"client_id": settings.client_id,
			"client_secret": settings.client_secret,
		},
		{name: value | name := "scope"; value := settings.scope; value != ""},
	)),
	"force_json_decode": true,
	"raise_error": false,
	"timeout": timeout,
	"force_cache": true,
	"force_cache_duration_seconds": settings.token_cache_seconds,
})

timeout := sprintf("%ds", [settings.timeout_seconds])

# The id of the warehouse behind each catalog of Trino that is managed here; OPA asks for those alone that are looked up.
# The answer is kept under the whole request, token included: OPA would revalidate without a header that it is told to
# leave out of the key.
warehouse_ids[name] := id if {
	some name, warehouse in settings.warehouses
	warehouse != ""
	answer := http.send({
		"method": "GET",
		"url": sprintf("%s/catalog/v1/config?warehouse=%s", [settings.url, urlquery.encode(warehouse)]),
		"headers": {"Authorization": sprintf("Bearer %s", [token])},
		"force_json_decode": true,
		"raise_error": false,
		"timeout": timeout,
		"force_cache": true,
		"force_cache_duration_seconds": warehouse_cache_seconds,
	})
	answer.status_code == 200
	id := answer.body.defaults.prefix
	is_string(id)
	id != ""
}

# Those of the set `operations` (each as batch-check takes it) that `user` of Trino may do. Decisions are not kept.
granted(user, operations) := union({passed |
	count(operations) > 0
	listed := [operation | some operation in operations]
	some first in numbers.range_step(0, count(listed) - 1, settings.max_batch_check_size)
	passed := granted_at_once(user, array.slice(listed, first, first + settings.max_batch_check_size))
})

granted_at_once(user, listed) := passed_checks(batch_check(user, listed, false), listed)

# Whether `user` may do `operation` to a table or view, or there is none of that name. The catalog reports a missing
# object only if this process's account may inspect the grants of everything in the warehouse; else nothing is allowed.
is_granted_or_missing(user, operation) if {
	answer := batch_check(user, [operation], true)
	is_missing_or_passed(answer, operation)
}

is_missing_or_passed(answer, operation) if passed_checks(answer, [operation]) == {operation}

is_missing_or_passed(answer, _) if {
	answer.status_code == 404
	answer.body.error.type in {"NoSuchTableException", "NoSuchViewException"}
}

batch_check(user, listed, error_on_not_found) := http.send({
	"method": "POST",
	"url": sprintf("%s/management/v1/action/batch-check", [settings.url]),
	"headers": object.union(
		# Results of checks that failed then have an `error`, by which they differ from denials.
		{"Authorization": sprintf("Bearer %s", [token]), "x-icekeeper-extensions": "true"},
		request_id,
	),
	"body": {
		"checks": [check |
			some i, operation in listed
			check := {"id": sprintf("%d", [i]), "identity": {"user": user_id(user)}, "operation": operation}
		],
		"error-on-not-found": error_on_not_found,
	},
	"force_json_decode": true,
	"raise_error": false,
	"timeout": timeout,
})

passed_checks(answer, listed) := {operation |
	answer.status_code == 200
	allowed := {result.id | some result in answer.body.results; is_allowed(result)}
	refused := {result.id | some result in answer.body.results; not is_allowed(result)}
	passed := allowed - refused
	some i, operation in listed
	sprintf("%d", [i]) in passed
}

is_allowed(result) if {
	result.allowed == true
	object.get(result, "error", null) == null
}

# Users are named after the provider whose subjects are Trino's user names.
user_id(user) := sprintf("%s~%s", [settings.identity_provider, user]) if {
	is_string(user)
	user != ""
	regex.match(`^[a-z0-9-]+$`, settings.identity_provider)
}

# The query as Trino calls it, so that both logs can be laid side by side.
default request_id := {}

request_id := {"X-Request-ID": input.context.queryId} if regex.match(`^[A-Za-z0-9_-]{1,64}$`, input.context.queryId)
