"""Story: grants in a warehouse are checked, added and removed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.openapi_examples.story import Story


def play(story: Story, warehouse_id: str, ids: dict[str, str]) -> None:
    """Play the story in the warehouse with the objects `ids`, by kind."""
    checks(story, warehouse_id, ids)
    actions(story, warehouse_id, ids)
    grants(story, warehouse_id, ids)
    reviews(story, warehouse_id, ids)


def checks(story: Story, warehouse_id: str, ids: dict[str, str]) -> None:
    dana = {"user": "oidc~dana"}
    by_name = {"warehouse-id": warehouse_id, "namespace": ["finance", "sales"], "table": "orders"}
    asked: list[dict[str, Any]] = [
        {"operation": {"project": {"action": {"action": "create_warehouse", "name": "archive"}}}},
        {
            "id": "dana-reads-orders",
            "identity": dana,
            "operation": {"table": {"action": {"action": "read_data"}, **by_name}},
        },
        {
            "id": "dana-drops-a-view",
            "identity": dana,
            "operation": {
                "view": {"action": {"action": "drop"}, "warehouse-id": warehouse_id, "table-id": ids["view"]}
            },
        },
        {
            "identity": {"role": "0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44"},
            "operation": {"warehouse": {"action": {"action": "use"}, "warehouse-id": warehouse_id}},
        },
    ]
    body = {"checks": asked, "error-on-not-found": False}
    story.send("batch_check_actions", body=body, summary="Of the caller, a user and an unknown role")
    more = {"x-icekeeper-extensions": True}
    story.send("batch_check_actions", more, body, summary="With the errors of checks that failed")


def actions(story: Story, warehouse_id: str, ids: dict[str, str]) -> None:
    warehouse = {"warehouse_id": warehouse_id}
    story.send("get_server_actions")
    story.send("get_project_actions")
    story.send("get_warehouse_actions", warehouse)
    for kind, object_id in ids.items():
        whom = {"principalUser": "oidc~dana"} if kind == "table" else {}
        story.send(f"get_{kind}_actions", warehouse | {f"{kind}_id": object_id} | whom)
    story.send("get_user_actions", {"user_id": "oidc~dana"})
    readers = story.call("POST", "/management/v1/role", {"name": "sales-readers"})["id"]
    story.send("get_role_actions", {"role_id": readers})
    story.send("get_tag_actions", {"tag_definition_id": a_tag(story, "domain")})


def a_tag(story: Story, name: str) -> str:
    definition = {"name": name, "scope": ["table"], "value-kind": "marker"}
    return str(story.call("POST", "/management/v1/tag-definition", definition)["id"])


def grants(story: Story, warehouse_id: str, ids: dict[str, str]) -> None:
    story.send("get_grantable_privileges")
    dana = {"user": "oidc~dana"}
    readers = {"role": story.call("POST", "/management/v1/search/role", {"search": "sales-readers"})["roles"][0]["id"]}
    warehouse = {"warehouse_id": warehouse_id}
    locations: dict[str, tuple[dict[str, str], str]] = {
        "server": ({}, "admin"),
        "project": ({}, "describe"),
        "warehouse": (warehouse, "create"),
        "namespace": (warehouse | {"namespace_id": ids["namespace"]}, "select"),
        "table": (warehouse | {"table_id": ids["table"]}, "modify"),
        "view": (warehouse | {"view_id": ids["view"]}, "select"),
        "generic_table": (warehouse | {"generic_table_id": ids["generic_table"]}, "describe"),
        "tag": ({"tag_definition_id": a_tag(story, "retention")}, "apply"),
    }
    until = (story.clock.at + timedelta(days=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for kind, (location, privilege) in locations.items():
        writes: list[dict[str, Any]] = [{"privilege": privilege, "principal": dana}]
        if kind == "table":
            writes.append({"privilege": "select", "principal": readers, "expires-at": until})
        deletes = [{"privilege": "ownership", "principal": readers}] if kind == "view" else []
        story.send(f"apply_{kind}_grants", location, {"writes": writes, **({"deletes": deletes} if deletes else {})})
        story.send(f"list_{kind}_grants", location | ({"principalUser": dana["user"]} if kind == "server" else {}))
        story.send(f"get_{kind}_grantable_privileges", location)
    story.send("list_grants", {"principalUser": dana["user"], "pageSize": 100})


def reviews(story: Story, warehouse_id: str, ids: dict[str, str]) -> None:
    warehouse = {"warehouse_id": warehouse_id}
    story.send("review_table_access", warehouse | {"table_id": ids["table"], "pageSize": 100})
    story.send("review_namespace_access", warehouse | {"namespace_id": ids["namespace"], "pageSize": 2})
    story.send("review_view_access", warehouse | {"view_id": ids["view"]})
    story.send("review_generic_table_access", warehouse | {"generic_table_id": ids["generic_table"]})
    story.send("review_warehouse_access", warehouse)
    story.send("review_project_access")
    story.send("review_server_access")
    role = story.call("POST", "/management/v1/search/role", {"search": "sales-readers"})["roles"][0]["id"]
    story.send("review_role_access", {"role_id": role})
    story.send("review_tag_access", {"tag_definition_id": a_tag(story, "reviewed")})
    story.send("review_principal", {"principalUser": "oidc~dana", "pageSize": 3})
    story.send("review_reached_objects", warehouse | {"principalUser": "oidc~dana", "pageSize": 100})
