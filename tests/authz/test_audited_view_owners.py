"""Attempts to take over a view with an owner: the audit trail names the view."""

from __future__ import annotations

import json

from tests.audit_rows import the_row
from tests.authz import test_view_security_owners as owners
from tests.authz.view_owner_fixtures import OWNER, Lake
from tests.named_callers import CallerClient

pytestmark = owners.pytestmark
root_client = owners.root_client


def test_who_would_change_what_it_does_is_told_with_the_view(house: Lake, root_client: CallerClient) -> None:
    _, view_id = house.view("d", "alice")
    assert owners.commit(root_client, *owners.query("SELECT 9")).status == 403
    row = the_row(event="access.denied")
    assert (row.reason, row.action, row.object_type) == ("DefinerViewModification", "commit", "view")
    assert (row.object_id, row.project_id) == (str(view_id), house.warehouse.project_id)
    assert set(json.loads(row.details)) == {"uuid"}


def test_who_would_name_themselves_is_told_with_its_name(house: Lake, root_client: CallerClient) -> None:
    house.view("d", "alice")
    assert owners.commit(root_client, owners.settings(**{OWNER: "root"})).status == 403
    row = the_row(event="access.denied")
    assert (row.reason, row.object_type) == ("ProtectedPropertyModification", "endpoint")
    told = json.loads(row.details)
    assert (told["prefix"], told["namespace"], told["view"]) == (str(house.warehouse.pk), "open", "d")
