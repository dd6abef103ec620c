"""Denials in the audit trail: written before the response, counted, limited in number, and database failures."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.db import DatabaseError, OperationalError, connection
from django.utils.module_loading import import_string

from catalog.models import Tabular
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.errors.types import Forbidden, NotFound
from storage.models import Warehouse
from tasks.runtime.runs import run_job
from tenancy.actor import ANONYMOUS, Actor
from tenancy.audit import collector as collecting
from tenancy.audit.collector import collector
from tenancy.audit.occurrences import record_denial
from tenancy.audit.recording import Outcome, build_record
from tenancy.authn.own_tokens.oauth import ACCESS_TOKEN_TYPE, CLIENT_CREDENTIALS, TOKEN_EXCHANGE, OAuthError, grant
from tenancy.authn.own_tokens.stored_tokens import read_token
from tenancy.authn.requests import verified_tokens
from tenancy.changes.kinds import Change
from tenancy.maintenance import switch
from tenancy.models import AccessToken, AuditRecord, ServiceAccount, User
from tests.harness.audit_rows import BOB, HOSTILE, NOWHERE_ID, REQUEST_ID, deny, rows, the_row
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.recorded_changes import record
from tests.harness.statement_counts import counting
from tests.harness.wsgi_client import ApiClient, call
from tests.management.warehouse_request_fixtures import refuse
from tests.token_fixtures import TokenClient, new_token

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

api = ApiClient("/management/v1")


def id_of(token: str) -> UUID:
    text = read_token(token)
    assert text is not None
    return text.token_id


def test_a_denial_is_written_before_the_response(alice: TokenClient, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch)
    assert alice.post("/service-account", {"name": "robot"}).status == 403
    row = the_row(event="access.denied")
    assert (row.outcome, row.reason, row.actor) == ("denied", "ActionForbidden", "local~alice")
    assert row.action == "provision_users"
    token = read_token(alice.token)
    assert token is not None
    assert row.access_token_id == token.token_id
    assert not ServiceAccount.objects.exists()


def test_a_reported_denial_is_not_reported_twice(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any, **__: Any) -> None:
        with write_transaction():
            deny(ANONYMOUS, project="lab", privilege_source="authorizer", reason="CannotSeeResource")
            raise Forbidden("no")

    monkeypatch.setattr("management.api.projects.views.create_project", denied)
    assert api.post("/project", {"project-name": "p"}).status == 403
    row = the_row(event="access.denied")
    assert (row.action, row.object_type, row.object_id, row.reason) == (
        "drop",
        "table",
        NOWHERE_ID,
        "CannotSeeResource",
    )
    assert (row.project_id, row.actor, row.address) == ("lab", "anonymous", "192.0.2.7")


@pytest.fixture
def refused_as_missing(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Send this many requests, each denied on another object with a 404 response."""
    ids = count()

    def missing(*_: Any, **__: Any) -> None:
        deny(object_id=UUID(int=next(ids)), reason="CannotSeeResource")
        raise NotFound("nothing there")

    monkeypatch.setattr("management.api.projects.views.create_project", missing)

    def send(requests: int) -> None:
        for _ in range(requests):
            assert api.post("/project", {"project-name": "p"}).status == 404

    return send


def test_a_denial_returned_as_404_is_written_after_the_response(refused_as_missing: Callable[[int], None]) -> None:
    with counting() as seen:
        refused_as_missing(1)
    first = seen["statements"]
    assert rows(event="access.denied") == []
    with counting() as seen:
        refused_as_missing(1)
    assert seen["statements"] == first, "another denial adds no statement"
    collector.write_due()
    found = rows(event="access.denied")
    assert [(row.object_id, row.reason) for row in found] == [
        (str(UUID(int=number)), "CannotSeeResource") for number in range(2)
    ]
    assert None not in {row.request_id for row in found}


def test_deferred_denials_are_written_when_the_server_stops(
    refused_as_missing: Callable[[int], None],
) -> None:
    refused_as_missing(2)
    assert rows(event="access.denied") == []
    [job] = [job for job in settings.PERIODIC_JOBS if job.name == "audit-records"]
    run_job(job.name, import_string(job.at_stop))
    assert len(rows(event="access.denied")) == 2


def test_a_flood_of_deferred_denials_is_bounded(refused_as_missing: Callable[[int], None]) -> None:
    refused_as_missing(300)
    assert len(collector._unwritten) == collecting.MAX_IMMEDIATE_ROWS_PER_CALLER
    collector.write_due(is_last=True)
    found = rows(event="access.denied")
    assert sum(row.count for row in found) == 300
    assert len(found) == collecting.MAX_DENIALS_PER_CALLER + 1


def test_the_project_of_a_denial_is_looked_up(
    warehouse: Warehouse, create_table: Callable[..., dict[str, Any]]
) -> None:
    create_table("t")
    table = Tabular.objects.get().pk
    deny(object_id=table)
    record_denial(actor=BOB, action="use", object_type="warehouse", object_id=warehouse.pk)
    record_denial(actor=BOB, action="delete", object_type="project", object_id="deleted")
    record_denial(actor=BOB, action="delete_users", object_type="server", object_id=NOWHERE_ID)
    deny(object_id=NOWHERE_ID)
    collector.write_pending()
    project = warehouse.project_id
    found = [(row.object_type, row.project_id) for row in rows(event="access.denied")]
    assert found == [("table", project), ("warehouse", project), ("project", "deleted"), ("server", ""), ("table", "")]


def test_equal_denials_are_summed_up(db: None) -> None:
    for _ in range(1000):
        deny()
    deny(object_id=REQUEST_ID)
    collector.write_pending()
    assert [(row.object_id, row.count) for row in rows()] == [(NOWHERE_ID, 1), (REQUEST_ID, 1)]
    collector.write_due()
    assert len(rows()) == 2, "the minute is not over"
    collector.write_due(is_last=True)
    first, rest = rows(object_id=NOWHERE_ID)
    assert (rest.count, rest.request_id) == (999, None)
    assert rest.last_at is not None
    assert first.at <= rest.at <= rest.last_at
    assert the_row(object_id=REQUEST_ID).last_at is None


def test_many_denied_objects_do_not_fill_the_disk(db: None) -> None:
    for number in range(5000):
        deny(object_id=UUID(int=number))
    deny(Actor(user_id="oidc~carl"))
    collector.write_pending()
    at_once = rows()
    assert len(at_once) == collecting.MAX_IMMEDIATE_ROWS_PER_CALLER + 1
    collector.write_due(is_last=True)
    [rest] = rows(object_id="")
    assert (rest.actor, rest.count, rest.details) == ("oidc~bob", 5000 - 100, '{"several":true}')
    assert len(rows()) == collecting.MAX_DENIALS_PER_CALLER + 1 + 1


def test_many_denials_of_a_user_keep_their_objects(db: None) -> None:
    for number in range(100):
        deny(object_id=UUID(int=number), project=f"p{number}")
    collector.write_pending()
    assert len(rows()) == 20
    collector.write_due()
    found = rows()
    assert sorted((row.object_id, row.project_id) for row in found) == sorted(
        (str(UUID(int=number)), f"p{number}") for number in range(100)
    )
    assert {row.count for row in found} == {1}


def test_unauthenticated_clients_take_no_space_from_others(db: None) -> None:
    for number in range(2000):
        row = build_record(
            "sign-in.refused",
            actor=ANONYMOUS,
            object_type="",
            object_id="",
            outcome=Outcome.FAILED,
            reason=f"r{number}",
        )
        row.address = f"2001:db8::{number:x}"
        collector.add(row)
    deny()
    collector.write_pending()
    row = the_row(event="access.denied")
    assert (row.object_id, row.details) == (NOWHERE_ID, "{}")


def test_many_callers_fill_no_disk_either(db: None) -> None:
    for number in range(3000):
        deny(Actor(user_id=f"oidc~{number}"))
    collector.write_pending()
    assert len(rows()) == collecting.MAX_IMMEDIATE_ROWS
    collector.write_due(is_last=True)
    found = rows()
    assert sum(row.count for row in found) == 3000
    assert len(found) <= collecting.MAX_IMMEDIATE_ROWS + 2 * collecting.MAX_DISTINCT_DENIALS + 1
    assert sum(row.count for row in found if row.actor == "*") == 3000 - 2 * collecting.MAX_DISTINCT_DENIALS


def test_a_denial_that_cannot_be_written_now_waits(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("database is locked")

    with monkeypatch.context() as patched:
        patched.setattr(AuditRecord, "save", fail)
        deny()
        collector.write_pending()
    deny(object_id=REQUEST_ID)
    collector.write_pending()
    assert rows() == [], "no retry so soon"
    with monkeypatch.context() as patched:
        patched.setattr(AuditRecord.objects, "bulk_create", fail)
        collector.write_due()
    assert rows() == []
    collector.write_due()
    collector.write_due()
    assert [row.object_id for row in rows()] == [NOWHERE_ID, REQUEST_ID]
    monkeypatch.setattr(collector, "_backoff_until", 0.0)
    deny(object_id="later")
    collector.write_pending()
    assert len(rows()) == 3


def test_nothing_is_written_in_maintenance_mode(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(switch, "is_on", True)
        deny()
        collector.write_pending()
        collector.write_due(is_last=True)
        assert rows() == []
    collector.write_due()
    assert the_row().object_id == NOWHERE_ID


def test_records_beyond_the_limit_are_counted(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector._unwritten, "_max_keys", 3)
    with monkeypatch.context() as patched:
        patched.setattr(switch, "is_on", True)
        for number in range(5):
            deny(object_id=UUID(int=number))
        collector.write_pending()
    collector.write_due()
    assert [row.object_id for row in rows(event="access.denied")] == [str(UUID(int=number)) for number in range(3)]
    lost = the_row(event="audit.records-lost")
    assert (lost.count, lost.outcome, lost.actor) == (2, "failed", "internal")


def test_an_invalid_row_does_not_block_others(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    create = AuditRecord.objects.bulk_create

    def fail(created: list[AuditRecord], **options: Any) -> Any:
        if any(row.object_id == NOWHERE_ID for row in created):
            raise DatabaseError("it is cursed")
        return create(created, **options)

    with monkeypatch.context() as patched:
        patched.setattr(switch, "is_on", True)
        deny()
        deny(object_id=REQUEST_ID)
        collector.write_pending()
    with monkeypatch.context() as patched:
        patched.setattr(AuditRecord.objects, "bulk_create", fail)
        collector.write_due()
    collector.write_due()
    assert [(row.event, row.count) for row in rows()] == [("access.denied", 1), ("audit.records-lost", 1)]


def test_hostile_texts_are_stored(db: None) -> None:
    deny(Actor(user_id=HOSTILE + "x" * 999), object_id=HOSTILE * 100, reason=HOSTILE * 100, project=HOSTILE * 100)
    record(Change.ROLE_CREATED, actor=BOB, subject=HOSTILE, named=HOSTILE, huge="x" * 300_000)
    record(Change.ROLE_UPDATED, actor=BOB, subject=HOSTILE, named=HOSTILE)
    collector.write_pending()
    denied, created, updated = rows(event="access.denied") + rows(event__startswith="role")
    assert denied.actor.startswith("a\ufffdb?'\"; --")
    assert [len(text) for text in (denied.actor, denied.object_id, denied.reason, denied.project_id)] == [
        255,
        255,
        64,
        128,
    ]
    assert created.details.startswith('{"left_out":"3000')
    assert updated.details == r'{"named":"a\u0000b\ud800' + r"'\"; --\u202e" + '"}'


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_an_error_waits_only_briefly_for_another_writer() -> None:
    """On SQLite, which has one writer at a time; the row is written later."""
    if connection.vendor != "sqlite":
        pytest.skip("writers of PostgreSQL do not wait for each other")
    with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        deny()
        collector.write_pending()
        assert rows() == []
        other.execute("ROLLBACK")
    collector.write_due()
    assert the_row().object_id == NOWHERE_ID


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda: AccessToken.objects.update(revoked_at=now()), "TokenRevoked"),
        (lambda: AccessToken.objects.update(expires_at=now() - timedelta(seconds=1)), "TokenExpired"),
        (lambda: User.objects.update(is_active=False), "UserBlocked"),
    ],
)
def test_only_genuine_refused_tokens_show_whose_they_are(
    access_tokens: None, end: Callable[[], int], reason: str
) -> None:
    alice, bob = (new_token(f"local~{name}") for name in ("alice", "bob"))
    end()
    verified_tokens.clear()
    AuditRecord.objects.all().delete()
    forged = f"{alice[:-1]}{'x' if alice[-1] != 'x' else 'y'}"
    for token in (alice, bob, forged, "ikp_forged", "rubbish"):
        response = TokenClient(token).get("/whoami")
        assert response.refused(401, "AuthenticationFailed")
        assert "alice" not in response.error["message"]
    collector.write_due(is_last=True)
    reported = {(row.actor, row.access_token_id, row.reason, row.count) for row in rows(event="sign-in.refused")}
    known = {(f"local~{name}", id_of(token), reason, 1) for name, token in (("alice", alice), ("bob", bob))}
    assert known < reported
    assert {each[:3] for each in reported - known} == {("anonymous", None, "AuthenticationFailed")}


def test_locked_out_users_are_reported_by_name_whatever_their_provider_says(callers: NamedCallers) -> None:
    User.objects.create(id=callers.user("bob"), name="Bob", is_active=False)
    assert CallerClient("/management/v1", "bob").get("/whoami").refused(401, "AuthenticationFailed")
    row = the_row(event="sign-in.refused")
    assert (row.actor, row.reason, row.outcome) == ("oidc~bob", "UserBlocked", "failed")


def test_whose_secret_was_refused_in_a_trade(access_tokens: None) -> None:
    created = new_token("local~alice")
    AccessToken.objects.update(revoked_at=now())
    form = f"grant_type=client_credentials&client_secret={created}".encode()
    response = call("POST", "/catalog/v1/oauth/tokens", body=form, content_type="application/x-www-form-urlencoded")
    assert response.status == 401
    row = the_row(event="sign-in.refused")
    assert (row.actor, row.access_token_id, row.reason) == ("local~alice", id_of(created), "TokenRevoked")


@pytest.mark.parametrize(
    "form",
    [
        lambda _, ended: {"grant_type": CLIENT_CREDENTIALS, "client_secret": ended},
        lambda good, ended: {"grant_type": TOKEN_EXCHANGE, "client_secret": good, **shown("subject", ended)},
        lambda good, ended: {"grant_type": TOKEN_EXCHANGE, **shown("subject", good), **shown("actor", ended)},
    ],
)
def test_a_refused_token_exchange_shows_whose_token_has_expired(
    access_tokens: None, form: Callable[[str, str], dict[str, str]]
) -> None:
    ended, good = (new_token(f"local~{name}") for name in ("alice", "bob"))
    AccessToken.objects.filter(pk=id_of(ended)).update(revoked_at=now())
    AuditRecord.objects.all().delete()
    with pytest.raises(OAuthError) as refused:
        grant(form(good, ended), None)
    assert refused.value.genuine is not None
    assert (refused.value.genuine.claimant.user_id, refused.value.genuine.reason) == ("local~alice", "TokenRevoked")
    collector.write_pending()
    row = the_row(event="sign-in.refused")
    assert (row.actor, row.access_token_id, row.reason) == ("local~alice", id_of(ended), "TokenRevoked")
    forged = f"{good[:-1]}{'x' if good[-1] != 'x' else 'y'}"
    with pytest.raises(OAuthError) as refused:
        grant(form(good, forged), None)
    assert refused.value.genuine is None
    collector.write_pending()
    assert [each.actor for each in rows(event="sign-in.refused")] == ["local~alice", "anonymous"]


def shown(role: str, text: str) -> dict[str, str]:
    return {f"{role}_token": text, f"{role}_token_type": ACCESS_TOKEN_TYPE}
