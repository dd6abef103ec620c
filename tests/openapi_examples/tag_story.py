"""Story: a company defines tags, sets them on objects and searches by them."""

from __future__ import annotations

from tests.openapi_examples.story import Story

EVERYTHING = ["warehouse", "namespace", "table", "view", "generic-table", "column"]


def play(story: Story, warehouse_id: str, ids: dict[str, str]) -> None:
    """Play the story in the warehouse with the objects `ids`, by kind."""
    sensitivity = definitions(story)
    attachments(story, warehouse_id, ids)
    columns(story, warehouse_id, ids["table"])
    story.send("list_tag_attachments", {"tag_definition_id": sensitivity, "pageSize": 100})
    removals(story, warehouse_id, ids)


def definitions(story: Story) -> str:
    """Create, update and delete tag definitions; return the id of the one that is kept."""
    sensitivity = {
        "name": "pii.sensitivity",
        "description": "How much harm it does when it gets out",
        "scope": EVERYTHING,
        "value-kind": "enumerated",
        "allowed-values": ["low", "high"],
    }
    created = story.send("create_tag_definition", body=sensitivity, summary="With a value out of some")
    steward = {"name": "steward", "scope": ["namespace", "table"], "value-kind": "free-text"}
    story.send("create_tag_definition", body=steward, summary="With any value")
    mistake = {"name": "certified", "scope": EVERYTHING[:5], "value-kind": "marker"}
    marker = story.send("create_tag_definition", body=mistake, summary="Without a value")
    story.send("list_tag_definitions", {"pageSize": 100})
    this = {"tag_definition_id": created["id"]}
    story.send("get_tag_definition", this)
    story.clock.later(minutes=5)
    wider = {key: sensitivity[key] for key in ("name", "description", "scope")} | {"add-allowed-values": ["medium"]}
    story.send("update_tag_definition", this, wider)
    story.send("delete_tag_definition", {"tag_definition_id": marker["id"]})
    return str(created["id"])


def attachments(story: Story, warehouse_id: str, ids: dict[str, str]) -> None:
    tag = {"warehouse_id": warehouse_id, "tag_name": "pii.sensitivity"}
    story.send("set_warehouse_tag", tag, {"value": "low"})
    for kind, object_id in ids.items():
        story.send(f"set_{kind}_tag", tag | {"object_id": object_id}, {"value": "high"})
    story.send("delete_table_tag", tag | {"object_id": ids["table"]})
    story.send("list_warehouse_tags", {"warehouse_id": warehouse_id})
    for kind, object_id in ids.items():
        this = {"warehouse_id": warehouse_id, "object_id": object_id, "effective": True}
        story.send(f"list_{kind}_tags", this)


def columns(story: Story, warehouse_id: str, table_id: str) -> None:
    table = {"warehouse_id": warehouse_id, "object_id": table_id}
    column = table | {"column_name": "amount"}
    story.send("set_table_column_tag", column | {"tag_name": "pii.sensitivity"}, {"value": "medium"})
    story.send("list_table_column_tags", column)
    story.send("list_column_tags", table)


def removals(story: Story, warehouse_id: str, ids: dict[str, str]) -> None:
    tag = {"warehouse_id": warehouse_id, "tag_name": "pii.sensitivity"}
    for kind in ("namespace", "view", "generic_table"):
        story.send(f"delete_{kind}_tag", tag | {"object_id": ids[kind]})
    story.send("delete_table_column_tag", tag | {"object_id": ids["table"], "column_name": "amount"})
    story.send("delete_warehouse_tag", tag)
