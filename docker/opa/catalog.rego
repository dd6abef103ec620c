# Requests to the catalog. Every error leaves a rule undefined or a set empty, so that access is denied.
package icekeeper.catalog

import data.icekeeper.settings

# After a warehouse is renamed or created again, the old id is used this long. Missing warehouses are cached as long.
warehouse_cache_seconds := 60

token := settings.token if settings.token != ""

else := new_token.body.access_token if {
	new_token.status_code == 200
	is_string(new_token.body.access_token)
	new_token.body.access_token != ""
}

# Client credentials flow. OPA caches responses of status 200 for the configured time and ignores `expires_in`.
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

# The id of the warehouse of each managed Trino catalog, requested when it is looked up. The cache key is the whole
# request with its token, because OPA sends revalidations without headers that are excluded from the key.
warehouse_ids[name] := id if {
	some name, warehouse in settings.warehouses
	warehouse != ""
	response := http.send({
		"method": "GET",
		"url": sprintf("%s/catalog/v1/config?warehouse=%s", [settings.url, urlquery.encode(warehouse)]),
		"headers": {"Authorization": sprintf("Bearer %s", [token])},
		"force_json_decode": true,
		"raise_error": false,
		"timeout": timeout,
		"force_cache": true,
		"force_cache_duration_seconds": warehouse_cache_seconds,
	})
	response.status_code == 200
	id := response.body.defaults.prefix
	is_string(id)
	id != ""
}

# The members of `operations` (in the format of batch-check) that `user` may perform. Decisions are not cached.
granted(user, operations) := union({passed |
	count(operations) > 0
	listed := [operation | some operation in operations]
	some first in numbers.range_step(0, count(listed) - 1, settings.max_batch_check_size)
	passed := granted_in_batch(user, array.slice(listed, first, first + settings.max_batch_check_size))
})

granted_in_batch(user, listed) := passed_checks(batch_check(user, listed, false), listed)

# Whether `user` may perform `operation` on a table or view, or it does not exist. The catalog reports a missing object
# only if the account of OPA may read all grants of the warehouse; otherwise access is denied.
is_granted_or_missing(user, operation) if {
	response := batch_check(user, [operation], true)
	is_missing_or_passed(response, operation)
}

is_missing_or_passed(response, operation) if passed_checks(response, [operation]) == {operation}

is_missing_or_passed(response, _) if {
	response.status_code == 404
	response.body.error.type in {"NoSuchTableException", "NoSuchViewException"}
}

batch_check(user, listed, error_on_not_found) := http.send({
	"method": "POST",
	"url": sprintf("%s/management/v1/action/batch-check", [settings.url]),
	"headers": object.union(
		# With this header, results of failed checks have an `error`, which distinguishes them from denials.
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

passed_checks(response, listed) := {operation |
	response.status_code == 200
	allowed := {result.id | some result in response.body.results; is_allowed(result)}
	denied := {result.id | some result in response.body.results; not is_allowed(result)}
	passed := allowed - denied
	some i, operation in listed
	sprintf("%d", [i]) in passed
}

is_allowed(result) if {
	result.allowed == true
	object.get(result, "error", null) == null
}

# Trino user names are subjects of this identity provider.
user_id(user) := sprintf("%s~%s", [settings.identity_provider, user]) if {
	is_string(user)
	user != ""
	regex.match(`^[a-z0-9-]+$`, settings.identity_provider)
}

# The query id of Trino, so that the logs of Trino and the catalog can be joined.
default request_id := {}

request_id := {"X-Request-ID": input.context.queryId} if regex.match(`^[A-Za-z0-9_-]{1,64}$`, input.context.queryId)
