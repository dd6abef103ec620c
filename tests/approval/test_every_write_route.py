"""Rules are asked about the writes of every route that changes tables, views, generic tables or namespaces.

`test_vetoes.py` vetoes each of `WRITES`. Here the routes of the server are compared with the routes of these writes: a
new route needs a write there or a reason here.
"""

from __future__ import annotations

from typing import Final

from management.openapi.documents import APIS
from tests.approval.writes import CATALOG, WAREHOUSE, WRITES
from tests.harness.routes import ROUTES

READ_METHODS: Final = {"GET", "HEAD"}

_TABLE: Final = f"{CATALOG}/namespaces/{{namespace}}/tables/{{table}}"
_SIGNER: Final = "/catalog/v1/signer/{prefix}"

NOT_ASKED: Final[dict[str, list[str]]] = {
    "issues a token": ["POST /catalog/v1/oauth/tokens"],
    "signs a request to the object store, and changes nothing in the catalog": [
        "POST /catalog/v1/aws/s3/sign",
        f"POST {CATALOG}/v1/aws/s3/sign",
        f"POST {_SIGNER}/staged/{{ticket}}/v1/aws/s3/sign",
        f"POST {_SIGNER}/tabular-id/{{tabular_id}}/v1/aws/s3/sign",
        f"POST {_TABLE}/sign",
    ],
    "takes a report of an engine about a scan or a commit; the table stays as it is": [f"POST {_TABLE}/metrics"],
    "searches or lists": [f"POST {WAREHOUSE}/search-tabular", f"POST {WAREHOUSE}/task/list"],
    "grants and revokes privileges": [
        f"POST {WAREHOUSE}/grants",
        f"POST {WAREHOUSE}/namespace/{{namespace_id}}/grants",
        f"POST {WAREHOUSE}/table/{{table_id}}/grants",
        f"POST {WAREHOUSE}/view/{{view_id}}/grants",
        f"POST {WAREHOUSE}/generic-table/{{generic_table_id}}/grants",
    ],
    "sets or removes a tag; the definition, the properties and the name of the object stay": [
        f"PUT {WAREHOUSE}/tags/{{tag_name}}",
        f"DELETE {WAREHOUSE}/tags/{{tag_name}}",
        f"PUT {WAREHOUSE}/namespace/{{object_id}}/tags/{{tag_name}}",
        f"DELETE {WAREHOUSE}/namespace/{{object_id}}/tags/{{tag_name}}",
        f"PUT {WAREHOUSE}/table/{{object_id}}/tags/{{tag_name}}",
        f"DELETE {WAREHOUSE}/table/{{object_id}}/tags/{{tag_name}}",
        f"PUT {WAREHOUSE}/table/{{object_id}}/column/{{column_name}}/tags/{{tag_name}}",
        f"DELETE {WAREHOUSE}/table/{{object_id}}/column/{{column_name}}/tags/{{tag_name}}",
        f"PUT {WAREHOUSE}/view/{{object_id}}/tags/{{tag_name}}",
        f"DELETE {WAREHOUSE}/view/{{object_id}}/tags/{{tag_name}}",
        f"PUT {WAREHOUSE}/generic-table/{{object_id}}/tags/{{tag_name}}",
        f"DELETE {WAREHOUSE}/generic-table/{{object_id}}/tags/{{tag_name}}",
    ],
    "protects from drops, or ends the protection; the drop itself is asked about": [
        f"POST {WAREHOUSE}/protection",
        f"POST {WAREHOUSE}/namespace/{{object_id}}/protection",
        f"POST {WAREHOUSE}/table/{{object_id}}/protection",
        f"POST {WAREHOUSE}/view/{{object_id}}/protection",
        f"POST {WAREHOUSE}/generic-table/{{object_id}}/protection",
    ],
    "is administration of the warehouse; only an empty one can be deleted": [
        "POST /management/v1/warehouse",
        f"DELETE {WAREHOUSE}",
        f"POST {WAREHOUSE}/rename",
        f"POST {WAREHOUSE}/activate",
        f"POST {WAREHOUSE}/deactivate",
        f"POST {WAREHOUSE}/delete-profile",
        f"POST {WAREHOUSE}/format-version-policy",
        f"POST {WAREHOUSE}/managed-by",
        f"POST {WAREHOUSE}/storage",
        f"POST {WAREHOUSE}/storage-credential",
        f"POST {WAREHOUSE}/storage/validate-profile",
        f"POST {WAREHOUSE}/storage/validate-credential",
        f"POST {WAREHOUSE}/storage/validate-access",
    ],
    "configures a task queue of the warehouse": [
        f"POST {WAREHOUSE}/task-queue/soft_deletion/config",
        f"POST {WAREHOUSE}/task-queue/tabular_purge/config",
        f"POST {WAREHOUSE}/task-queue/expire_snapshots/config",
        f"POST {WAREHOUSE}/task-queue/remove_orphan_files/config",
        f"POST {WAREHOUSE}/task-queue/{{queue_name}}/config",
    ],
}
"""Write routes about which rules are not asked, by reason: what the routes do instead of changing such an object."""

OF_OTHER_OBJECTS: Final[dict[str, str]] = {
    "action": "permission checks",
    "bootstrap": "the server",
    "change-rules": "the rules themselves, and evaluations that write nothing",
    "endpoint-statistics": "statistics of requests",
    "event-sinks": "receivers of events",
    "permissions": "assignments, managed access and permission checks",
    "project": "projects and the tasks that belong to no warehouse; only an empty project can be deleted",
    "role": "roles and their members",
    "search": "searches of users and roles",
    "server": "grants on the server",
    "service-account": "service accounts",
    "tag-definition": "tags of projects, and the grants on them",
    "token": "access tokens",
    "user": "users",
    "warehouse-creation-validation": "a warehouse that is not created",
}
"""What other routes of the management API concern, by the first segment of their paths.

They change no table, view, generic table or namespace.
"""


def write_routes() -> set[str]:
    """Return method and path of the write routes of all APIs, but those of `OF_OTHER_OBJECTS`."""
    prefixes = tuple(api.prefix for api in APIS.values())
    return {
        f"{method} {route.template}"
        for route in ROUTES
        if route.pattern.startswith(prefixes) and first_segment(route.template) not in OF_OTHER_OBJECTS
        for method in route.methods
        if method not in READ_METHODS
    }


def first_segment(template: str) -> str | None:
    """Return the first segment after `/management/v1/`, or None for a path of another API."""
    prefix = "/management/v1/"
    return template.removeprefix(prefix).split("/")[0] if template.startswith(prefix) else None


def test_every_write_route_is_vetoed_in_a_test_or_listed_with_a_reason() -> None:
    vetoed = {write.route for write in WRITES.values()}
    not_asked = [route for routes in NOT_ASKED.values() for route in routes]
    assert len(not_asked) == len(set(not_asked)), "a route is listed twice"
    assert vetoed.isdisjoint(not_asked), "rules are asked about a route that is listed as not asked"
    assert write_routes() - vetoed - set(not_asked) == set(), "add a write to WRITES, or a reason to NOT_ASKED"
    assert (vetoed | set(not_asked)) - write_routes() == set(), "not a write route of the server"


def test_other_objects_have_routes() -> None:
    assert {first_segment(route.template) for route in ROUTES} >= OF_OTHER_OBJECTS.keys()
