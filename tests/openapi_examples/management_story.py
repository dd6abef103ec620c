"""Story: a data team sets up its server, projects, users, roles and tokens."""

from __future__ import annotations

from tenancy.actor import INTERNAL
from tenancy.audit.chain import seal_records
from tests.events.feed_fixtures import publish
from tests.openapi_examples.story import Story

DANA, ERIK = "oidc~dana", "oidc~erik"
"""An unknown id for `tests/fuzz/object_id_fixtures.py`: fuzz tests use the documents' examples as unknown ids."""


def play(story: Story) -> None:
    server(story)
    projects(story)
    users(story)
    roles(story)
    tokens(story)
    audit(story)
    events(story)


def server(story: Story) -> None:
    alice = {"user-name": "Alice Example", "user-email": "alice@example.com", "user-type": "human"}
    story.send("bootstrap", body={"accept-terms-of-use": True, **alice})
    story.send("bootstrap", body={"accept-terms-of-use": True}, refused=400)
    story.send("get_server_info")
    story.send("get_icekeeper_info")
    story.send("whoami")


def projects(story: Story) -> None:
    story.send("create_project", body={"project-name": "Analytics", "project-id": "analytics"})
    story.send("list_projects")
    story.send("get_project")
    story.send("get_project_by_id_deprecated", {"project_id": "analytics"})
    this = {"x-project-id": "analytics"}
    story.send("rename_project", this, {"new-name": "Analytics and reporting"})
    story.send("rename_project_by_id_deprecated", {"project_id": "analytics"}, {"new-name": "Analytics"})
    story.send("delete_project", this)
    story.call("POST", "/management/v1/project", {"project-name": "Sandbox", "project-id": "sandbox"})
    story.send("delete_project_by_id_deprecated", {"project_id": "sandbox"})


def users(story: Story) -> None:
    dana = {"id": DANA, "name": "Dana Example", "email": "dana@example.com", "user-type": "human"}
    erik = {"id": ERIK, "name": "Erik Example", "user-type": "human"}
    story.send("create_user", body=dana, summary="Another user")
    alice = {"name": "Alice Example", "email": "alice@example.com", "update-if-exists": True}
    story.send("create_user", body=alice, summary="Oneself, who is there already")
    story.call("POST", "/management/v1/user", erik)
    story.send("list_user", {"name": "example", "pageSize": 2})
    story.send("get_user", {"user_id": DANA})
    story.clock.later(minutes=5)
    mail = "erik@example.com"
    story.send("update_user", {"user_id": ERIK}, {"name": "Erik Example", "email": mail, "user-type": "human"})
    story.send("search_user", body={"search": "erik", "user-type": "human", "page-size": 10})


def roles(story: Story) -> None:
    new = {"name": "analysts", "description": "Who reads what was sold"}
    own = story.send("create_role", body=new, summary="A role of this server")
    group = {"name": "data-platform", "provider-id": "oidc", "source-id": "0f6c2a"}
    outer = story.send("create_role", body=group, summary="A group that an identity provider knows")
    this, other = {"role_id": own["id"]}, {"role_id": outer["id"]}
    story.send("list_roles", {"pageSize": 100})
    story.send("get_role", this)
    story.send("get_role_metadata", this)
    story.clock.later(minutes=5)
    story.send("update_role", this, {"name": "sales-analysts", "description": "Who reads what was sold"})
    story.send("update_role_source_system", other, {"provider-id": "oidc", "source-id": "data-platform"})
    story.send("search_role", body={"search": "sales-analysts", "page-size": 10})
    members = [{"type": "user", "id": ERIK}, {"type": "user", "id": DANA}]
    story.send("add_role_members", this, {"members": members}, summary="Users")
    story.send("add_role_members", other, {"members": [{"type": "role", "id": own["id"]}]}, summary="Another role")
    story.send("list_role_members", this | {"type": "user"})
    story.send("list_role_transitive_members", other)
    story.send("list_role_member_of", this)
    story.send("list_role_transitive_member_of", this)
    story.send("list_user_roles", {"user_id": DANA})
    story.send("list_user_transitive_roles", {"user_id": DANA})
    story.send("remove_role_member", this | {"member_type": "user", "member_id": DANA})
    story.send("delete_role", this)
    story.send("delete_user", {"user_id": ERIK})


def tokens(story: Story) -> None:
    account = story.send("create_service_account", body={"name": "nightly-load", "description": "Loads what was sold"})
    story.send("list_service_accounts", {"pageSize": 100})
    secret = {"name": "airflow", "user-id": account["id"], "scopes": ["catalog"], "expires-in-seconds": 2_592_000}
    story.send("create_token", body=secret, summary="For a service account")
    own = {"name": "laptop", "expires-at": "2026-04-01T00:00:00Z"}
    token = story.send("create_token", body=own, summary="For oneself")
    this = {"token_id": token["id"]}
    story.send("get_token", this)
    story.clock.later(days=60)
    new = story.send("rotate_token", this, {"overlap-seconds": 3600})
    story.send("revoke_token", {"token_id": new["id"]})
    story.send("list_tokens", {"pageSize": 100})
    story.send("delete_service_account", {"account_id": account["id"]})


def audit(story: Story) -> None:
    story.send("list_audit_records", {"event": "role.updated", "outcome": "allowed", "pageSize": 1})
    seal_records(actor=INTERNAL)
    story.send("export_audit_records", {"event": "server.bootstrapped", "after": 0, "limit": 1})


def events(story: Story) -> None:
    publish()
    story.send("list_events", {"after": "0", "type": ["renameProject"], "limit": 1})
