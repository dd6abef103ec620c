"""Story: a company protects the schemas of its tables and lets its own server decide about changes."""

from __future__ import annotations

import json

from tests.harness.wsgi_client import call
from tests.openapi_examples.story import Story

SIGNING_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def play(story: Story, warehouse_id: str, ids: dict[str, str]) -> None:
    """Play the story in the warehouse with the objects `ids`, by kind. All rules are deleted at the end."""
    warehouse = {"type": "warehouse", "id": warehouse_id}
    schemas = {"name": "compatible schemas", "kind": "schema-compatibility", "configuration": {"mode": "full"}}
    created = story.send(
        "create_change_rule", body={"scope": warehouse, **schemas}, summary="Schemas in a warehouse stay compatible"
    )
    story.send("create_change_rule", body={"scope": warehouse, **schemas}, refused=409)
    hook = hook_of(story, warehouse_id, ids["namespace"])
    story.send("list_change_rules", {"scopeType": "warehouse", "scopeId": warehouse_id, "pageSize": 100})
    this = {"rule_id": created["id"]}
    story.send("get_change_rule", this)
    story.clock.later(minutes=5)
    changed = {"version": 1, "mode": "dry-run", "on-failure": "deny", "enabled": True}
    story.send("update_change_rule", this, {"name": schemas["name"], "configuration": {"mode": "backward"}, **changed})
    removal = {"action": "remove-properties", "removals": ["owner"]}
    question = {"warehouse-id": warehouse_id, "table-id": ids["table"], "updates": [removal]}
    story.send("evaluate_change_rule", this, question)
    names = names_of(story, warehouse_id)
    story.send("list_change_rule_findings", {"ruleId": names})
    story.send("delete_change_rule", this)
    for rule_id in (hook, names):
        story.call("DELETE", f"/management/v1/change-rules/{rule_id}")


def hook_of(story: Story, warehouse_id: str, namespace_id: str) -> str:
    body = {
        "scope": {"type": "namespace", "id": namespace_id, "warehouse-id": warehouse_id},
        "name": "data office",
        "kind": "http-hook",
        "configuration": {"url": "https://approval.example.com/changes", "timeout-seconds": 2.0},
        "mode": "dry-run",
        "on-failure": "allow",
        "enabled": False,
        "secret": {"signing-secrets": [SIGNING_SECRET], "headers": {"Authorization": "Bearer a-token"}},
    }
    return str(story.send("create_change_rule", body=body, summary="A server decides")["id"])


def names_of(story: Story, warehouse_id: str) -> str:
    """Create a rule that rejects a namespace, and let it; return its id."""
    body = {
        "scope": {"type": "warehouse", "id": warehouse_id},
        "name": "names of namespaces",
        "kind": "naming",
        "configuration": {"namespace": ["[a-z][a-z0-9_]*"]},
    }
    created = story.send("create_change_rule", body=body, summary="Names of namespaces")
    rejected = json.dumps({"namespace": ["Test Data"]}).encode()
    response = call("POST", f"/catalog/v1/{warehouse_id}/namespaces", body=rejected, headers=story._headers)
    assert response.refused(409, "ContractViolation")
    return str(created["id"])
