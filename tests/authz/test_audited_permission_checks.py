"""Audit of permission checks about other principals, in every response format."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tenancy.audit.collector import collector
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.models import AuditRecord, Securable
from tests.authz.object_path_fixtures import path_of
from tests.authz.parity.pair_fixtures import grant, member
from tests.authz.permission_check_fixtures import IN_PROJECTS, asked, by_id
from tests.authz.permission_fixtures import FORBIDDEN, NO_ONE, Things
from tests.harness.audit_rows import audit_settings, rows, the_row
from tests.harness.named_callers import CallerClient
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

T = Securable.Type
ADA = {"user": "oidc~ada"}


@pytest.fixture
def asker(things: Things, builtin: BuiltinAuthorizer) -> CallerClient:
    """A user who may read every grant of the project, with Ada and the team registered and an empty audit trail."""
    things.client("ada")
    client = things.manager(T.PROJECT)
    AuditRecord.objects.all().delete()
    return client


def facts(row: AuditRecord) -> tuple[Any, ...]:
    return row.actor, row.action, row.outcome, row.object_type, row.object_id, row.project_id, json.loads(row.details)


@pytest.mark.parametrize("is_csv", [False, True])
def test_reviews(things: Things, asker: CallerClient, is_csv: bool) -> None:
    project, warehouse = str(things.refs[T.PROJECT][1]), str(things.warehouse.pk)
    table = things.refs[T.TABLE]
    manage = CallerClient("/management/v1", asker.token)
    who, reported = "principalUser=oidc~ada", {"principal": "oidc~ada", "export": is_csv}
    for address, kind, own_id, details in (
        (f"{path_of(table)}/access-review?", "table", str(table[1]), {"export": is_csv}),
        (f"/access-review?{who}", "project", project, reported),
        (f"/warehouse/{warehouse}/reached-objects?{who}", "project", project, reported | {"warehouse": warehouse}),
    ):
        response = manage.get(f"{address}&format=csv" if is_csv else address)
        assert response.status == 200, response.body
        assert response.headers["Content-Type"].startswith("text/csv" if is_csv else "application/json")
        row = the_row(event="access.reviewed")
        assert facts(row) == ("oidc~manager", "read_grants", "allowed", kind, own_id, project, details)
        AuditRecord.objects.all().delete()


def test_why_another_user_is_allowed(things: Things, asker: CallerClient) -> None:
    project, table = str(things.refs[T.PROJECT][1]), str(things.refs[T.TABLE][1])
    location, team = by_id(things, T.TABLE), things.role.pk
    grant(things.refs[T.TABLE], "select", user_id="oidc~ada")
    for identity, named, word in ((ADA, "oidc~ada", "read_data"), ({"role": str(team)}, f"role {team}", "drop")):
        assert asker.post("/explain", asked(T.TABLE, word, location, identity)).status == 200
        row = the_row(event="access.reviewed")
        reported = {"principal": named, "explained": word}
        assert facts(row) == ("oidc~manager", "read_grants", "allowed", "table", table, project, reported)
        AuditRecord.objects.all().delete()
    for kind in IN_PROJECTS:
        assert asker.post("/explain", asked(kind, "update", by_id(things, kind), ADA)).status == 200
        row, reported = the_row(event="access.reviewed"), {"principal": "oidc~ada", "explained": "update"}
        own_id = str(things.refs[kind][1])
        assert facts(row) == ("oidc~manager", "read_grants", "allowed", kind.value, own_id, project, reported)
        AuditRecord.objects.all().delete()
    assert asker.post("/explain", asked(T.SERVER, "create_project", {}, ADA)).refused(403, FORBIDDEN[T.SERVER])
    assert not rows(event="access.reviewed")


def test_ones_own_explanation_is_hidden_from_others(things: Things, asker: CallerClient) -> None:
    location, team = by_id(things, T.TABLE), str(things.role.pk)
    member(things.role.pk, user_id="oidc~manager")
    grant(things.refs[T.TABLE], "select", role_id=things.role.pk)
    for identity, headers in (
        (None, {}),
        ({"user": "oidc~manager"}, {}),
        (None, {"x-assume-role": team}),
        ({"role": team}, {"x-assume-role": team}),
    ):
        assert asker.post("/explain", asked(T.TABLE, "read_data", location, identity), **headers).status == 200
    assert not rows(event="access.reviewed")


def test_denied_checks_are_not_recorded(things: Things, asker: CallerClient) -> None:
    location = by_id(things, T.TABLE)
    viewer = things.with_right("viewer", ("select", T.TABLE))
    AuditRecord.objects.all().delete()
    assert viewer.post("/explain", asked(T.TABLE, "read_data", location, ADA)).refused(403, FORBIDDEN[T.TABLE])
    denied = the_row()
    assert (denied.event, denied.actor, denied.object_id) == (
        "access.denied", "oidc~viewer", str(things.refs[T.TABLE][1])
    )  # fmt: skip
    for identity, wire_type in (({"user": "oidc~unknown"}, "UserNotFound"), ({"role": NO_ONE}, "RoleIdNotFound")):
        assert asker.post("/explain", asked(T.TABLE, "read_data", location, identity)).refused(404, wire_type)
    assert rows() == [denied]


def test_checks_and_lists_of_grants_leave_no_rows(things: Things, asker: CallerClient) -> None:
    location = by_id(things, T.TABLE)
    assert asker.post("/check", asked(T.TABLE, "read_data", location, ADA)).json() == {"allowed": False}
    assert asker.get(f"{things.path(T.TABLE)}/assignments").status == 200
    assert CallerClient("/management/v1", asker.token).get("/grants?principalUser=oidc~ada").status == 200
    assert not rows()


@pytest.mark.parametrize("options", [{}, {"json": True}])
def test_at_a_shell(things: Things, asker: CallerClient, options: dict[str, bool]) -> None:
    words = ["read_data", "table", str(things.warehouse.pk), things.public_id(T.TABLE)]
    call_command("explain", "oidc~ada", *words, **options, stdout=StringIO(), stderr=StringIO())
    for wrong in (["oidc~unknown", *words], ["oidc~ada", *words[:-1], NO_ONE]):
        with pytest.raises(CommandError):
            call_command("explain", *wrong, stdout=StringIO(), stderr=StringIO())
    collector.write_pending()  # immediately, except where a test has an open transaction
    project, table = str(things.refs[T.PROJECT][1]), str(things.refs[T.TABLE][1])
    reported = {"principal": "oidc~ada", "explained": "read_data"}
    assert facts(the_row()) == ("internal", "read_grants", "allowed", "table", table, project, reported)


def test_without_an_audit_trail(things: Things, asker: CallerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    use_settings(monkeypatch, audit=audit_settings(enabled=False))
    assert asker.post("/explain", asked(T.TABLE, "read_data", by_id(things, T.TABLE), ADA)).status == 200
    assert not rows()
