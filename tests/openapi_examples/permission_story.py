"""Story: permissions in a catalog are granted, listed, checked and revoked."""

from __future__ import annotations

from typing import Any

from tests.openapi_examples.management_story import DANA
from tests.openapi_examples.story import Story


def play(story: Story, warehouse_id: str, ids: dict[str, str]) -> None:
    """Play the story in the warehouse with the objects `ids`, by kind."""
    role = next(
        each for each in story.call("GET", "/management/v1/role")["roles"] if each["source-id"] == "data-platform"
    )["id"]
    (tag,) = (each["id"] for each in story.call("GET", "/management/v1/tag-definition")["tag-definitions"][:1])
    here = {"warehouse_id": warehouse_id}
    namespace = {"namespace_id": ids["namespace"]}
    tabulars = {kind: here | {f"{kind}_id": ids[kind]} for kind in ("table", "view", "generic_table")}
    locations: dict[str, tuple[dict[str, str], str]] = {
        "server": ({}, "admin"),
        "project": ({}, "data_admin"),
        "warehouse": (here, "create"),
        "namespace": (namespace, "describe"),
        **{kind: (location, "select") for kind, location in tabulars.items()},
        "role": ({"role_id": role}, "assignee"),
        "tag": ({"tag_definition_id": tag}, "apply"),
    }
    assignments(story, locations, role)
    by_id(story)
    managed_access(story, here, namespace)
    actions(story, locations)
    checks(story, warehouse_id, ids)
    explanations(story, warehouse_id, locations)


def assignments(story: Story, locations: dict[str, tuple[dict[str, str], str]], role: str) -> None:
    for kind, (location, privilege) in locations.items():
        to_dana: dict[str, Any] = {"type": privilege, "user": DANA}
        writes = [to_dana]
        if kind == "table":
            to_dana["expires-at"] = "2026-12-31T00:00:00Z"
            writes.append({"type": "select", "role": role})
        story.send(f"update_{kind}_assignments", location, {"writes": writes})
        story.send(f"get_{kind}_assignments", location)
    table = locations["table"][0]
    story.send("update_table_assignments", table, {"writes": [{"type": "select", "role": role}]}, refused=409)


def by_id(story: Story) -> None:
    story.call("POST", "/management/v1/project", {"project-name": "Reporting", "project-id": "reporting"})
    this = {"project_id": "reporting"}
    grant = {"writes": [{"type": "data_admin", "user": DANA}]}
    story.send("update_project_assignments_by_id_deprecated", this, grant)
    story.send("get_project_assignments_by_id_deprecated", this | {"relations": ["project_admin", "data_admin"]})
    story.send("get_project_access_by_id_deprecated", this)


def managed_access(story: Story, warehouse: dict[str, str], namespace: dict[str, str]) -> None:
    story.send("set_warehouse_managed_access", warehouse, {"managed-access": True})
    story.send("get_warehouse_managed_access", warehouse)
    story.send("set_namespace_managed_access", namespace, {"managed-access": False})
    story.send("get_namespace_managed_access", namespace)


def actions(story: Story, locations: dict[str, tuple[dict[str, str], str]]) -> None:
    for kind, (location, _) in locations.items():
        if kind == "tag":
            continue
        story.send(f"get_{kind}_authorizer_actions", location)
        if kind != "generic_table":
            story.send(f"get_{kind}_access", location | {"principalUser": DANA})


def checks(story: Story, warehouse_id: str, ids: dict[str, str]) -> None:
    by_name = {"namespace": ["finance", "sales"], "table": "orders", "warehouse-id": warehouse_id}
    story.send(
        "check_permission",
        body={"identity": {"user": DANA}, "operation": {"table": {"action": "read_data", **by_name}}},
        summary="Another user, and a table by its name",
    )
    by_id = {"namespace-id": ids["namespace"], "warehouse-id": warehouse_id}
    story.send(
        "check_permission",
        body={"operation": {"namespace": {"action": "create_table", **by_id}}},
        summary="Oneself, and a namespace by its id",
    )


def explanations(story: Story, warehouse_id: str, locations: dict[str, tuple[dict[str, str], str]]) -> None:
    dana = {"user": DANA}
    table = {"namespace": ["finance", "sales"], "table": "orders", "warehouse-id": warehouse_id}
    role, tag = (
        {"role-id": locations["role"][0]["role_id"]},
        {"tag-definition-id": locations["tag"][0]["tag_definition_id"]},
    )
    for summary, kind, asked in (
        ("An allowed action of another user", "table", {"action": "read_data", **table}),
        ("A denied action of another user", "table", {"action": "grant_select", **table}),
        ("A role of the project", "role", {"action": "assume", **role}),
        ("A tag definition by its id", "tag", {"action": "apply", **tag}),
    ):
        body = {"identity": dana, "operation": {kind: asked}}
        story.send("explain_permission", body=body, summary=summary)
