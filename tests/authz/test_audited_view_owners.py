"""Audit of attempts to take over a view with an owner: the row names the view."""

from __future__ import annotations

import json

from tests.authz import test_view_security_owners as owners
from tests.authz.view_owner_fixtures import OWNER, Lake
from tests.harness.audit_rows import the_row
from tests.harness.named_callers import CallerClient

pytestmark = owners.pytestmark
root_client = owners.root_client


def test_a_change_of_what_a_view_does_is_reported_with_the_view(world: Lake, root_client: CallerClient) -> None:
    _, view_id = world.view("d", "alice")
    assert owners.commit(root_client, *owners.query("SELECT 9")).status == 403
    row = the_row(event="access.denied")
    assert (row.reason, row.action, row.object_type) == ("DefinerViewModification", "commit", "view")
    assert (row.object_id, row.project_id) == (str(view_id), world.warehouse.project_id)
    assert set(json.loads(row.details)) == {"uuid"}


def test_a_change_of_the_view_owner_is_reported_with_its_name(world: Lake, root_client: CallerClient) -> None:
    world.view("d", "alice")
    assert owners.commit(root_client, owners.settings(**{OWNER: "root"})).status == 403
    row = the_row(event="access.denied")
    assert (row.reason, row.object_type) == ("ProtectedPropertyModification", "endpoint")
    reported = json.loads(row.details)
    assert (reported["prefix"], reported["namespace"], reported["view"]) == (
        str(world.warehouse.pk),
        "open",
        "d",
    )
