"""Rows of the audit trail: one for each change, in its transaction; for each refusal, before its answer; no secrets."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.db import DatabaseError, OperationalError, connection
from pytest_django import DjangoCaptureOnCommitCallbacks

from catalog.models import Tabular
from icekeeper.kernel.errors import Forbidden
from icekeeper.kernel.request_origin import NOWHERE, current_origin
from icekeeper.kernel.write_transaction import write_transaction
from storage.models import Warehouse
from tenancy.actor import ANONYMOUS, INTERNAL, Actor
from tenancy.audit import collector as collecting
from tenancy.audit.collector import collector
from tenancy.audit.log import Event, record
from tenancy.audit.occurrences import record_denial, record_read
from tenancy.authn.token_text import read_token
from tenancy.maintenance import switch
from tenancy.models import AuditRecord, Project, ServiceAccount
from tenancy.selectors.projects import get_project
from tenancy.services.projects import create_project
from tenancy.services.roles import create_role
from tests.log_lines import log_lines
from tests.management.asking import KEY, S3, keep_secrets, refuse, use_settings
from tests.named_callers import CallerClient, NamedCallers
from tests.token_fixtures import TokenClient, new_token
from tests.wsgi_client import ApiClient, call

pytestmark = pytest.mark.django_db

REQUEST_ID = "0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44"
NOWHERE_ID = "0198e0f4-3f6e-7c31-8c7d-000000000000"
HOSTILE = "a\x00b\ud800'\"; --\u202e"
BOB = Actor(user_id="oidc~bob")
api = ApiClient("/management/v1")


def rows(**wanted: Any) -> list[AuditRecord]:
    return list(AuditRecord.objects.filter(**wanted).order_by("at", "id"))


def the_row(**wanted: Any) -> AuditRecord:
    [row] = rows(**wanted)
    return row


def deny(actor: Actor = BOB, object_id: object = NOWHERE_ID, **more: Any) -> None:
    record_denial(actor=actor, action="drop", object_type="table", object_id=object_id, **more)


# --- changes ---------------------------------------------------------------------------------------------------------


def test_a_row_says_who_with_what_and_from_where(alice: TokenClient, callers: NamedCallers) -> None:
    role = create_role(actor=INTERNAL, project=create_project(actor=INTERNAL, name="p", project_id="lab"), name="staff")
    callers.person("anna")
    anna = CallerClient("/management/v1", "anna")
    headers = {
        "x-assume-role": str(role.pk), "x-request-id": REQUEST_ID, "x-forwarded-for": "203.0.113.9, 198.51.100.1",
        "user-agent": "Spark/4.1 \xe2\x98\x83" + "x" * 500,
    }  # fmt: skip
    assert anna.post("/project", {"project-name": "Other", "project-id": "other"}, **headers).status == 201
    row = the_row(event="project.created", object_id="other")
    assert (row.actor, row.assumed_role, row.access_token_id) == ("oidc~anna", role.pk, None)
    assert (row.object_type, row.project_id, row.outcome, row.count) == ("project", "other", "allowed", 1)
    assert (str(row.request_id), row.privilege_source, row.last_at) == (REQUEST_ID, "authorizer", None)
    assert (row.address, row.forwarded_for) == ("192.0.2.7", "203.0.113.9, 198.51.100.1")
    assert row.user_agent.startswith("Spark/4.1 ☃xxx")
    assert len(row.user_agent.encode()) <= 256
    assert row.details == '{"named":"Other"}'
    assert (row.position, row.hash, row.previous_hash) == (None, "", "")


def test_commands_come_from_nowhere(bootstrapped: None) -> None:
    row = the_row(event="server.bootstrapped")
    assert (row.actor, row.privilege_source, row.request_id) == ("internal", "internal", None)
    assert (row.address, row.forwarded_for, row.user_agent) == ("", "", "")
    assert current_origin() == NOWHERE


def test_forwarded_addresses_are_left_out_where_they_are_not_believed(
    bootstrapped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings(monkeypatch, use_x_forwarded_headers=False)
    assert api.post("/project", {"project-name": "p"}, **{"x-forwarded-for": "203.0.113.9"}).status == 201
    row = the_row(event="project.created")
    assert (row.address, row.forwarded_for) == ("192.0.2.7", "")


def test_instance_admins_are_told_apart(alice: TokenClient, monkeypatch: pytest.MonkeyPatch) -> None:
    use_settings(monkeypatch, instance_admins=["local~alice"])
    assert alice.post("/service-account", {"name": "robot"}).status == 201
    assert the_row(event="service-account.created").privilege_source == "instance_admin"


def test_what_is_refused_by_a_rule_leaves_no_row(bootstrapped: None) -> None:
    before = rows()
    assert api.post("/project", {"project-name": "Default Project"}).status == 409
    assert api.post("/project", {"project-name": " "}).status == 400
    assert api.delete(f"/role/{NOWHERE_ID}").status == 404
    assert rows() == before


def test_what_is_rolled_back_leaves_no_row(db: None) -> None:
    def change() -> None:
        with write_transaction():
            record(Event.PROJECT_CREATED, actor=INTERNAL, subject="x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        change()
    assert rows() == []


def test_a_change_whose_row_cannot_be_written_is_not_made(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("the disk is full")

    before = rows()
    with monkeypatch.context() as patched:
        patched.setattr(AuditRecord, "save", fail)
        answer = api.post("/project", {"project-name": "p", "project-id": "p"})
    assert answer.status == 503
    assert not Project.objects.filter(pk="p").exists()
    assert rows() == before


def test_rows_can_be_switched_off(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows()
    use_settings(monkeypatch, audit=audit_settings(enabled=False))
    assert api.post("/project", {"project-name": "p"}).status == 201
    refuse(monkeypatch)
    assert api.post("/project", {"project-name": "q"}).status == 403
    collector.write_down(is_last=True)
    assert rows() == before


def test_lines_can_be_switched_off(
    bootstrapped: None,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    tracing = settings.ICEKEEPER.audit.tracing.model_copy(update={"enabled": False})
    with log_lines("icekeeper.audit") as lines:
        for number, expected in ((1, ["project.created", "access.denied"]), (2, [])):
            with django_capture_on_commit_callbacks(execute=True):
                assert api.post("/project", {"project-name": f"p{number}"}).status == 201
            deny(object_id=number)
            assert [line["message"] for line in lines.read()] == expected
            use_settings(monkeypatch, audit=audit_settings(tracing=tracing))
    collector.write_pending()
    assert [len(rows(event=event)) for event in ("project.created", "access.denied")] == [2, 2]


def audit_settings(**changed: Any) -> Any:
    return settings.ICEKEEPER.audit.model_copy(update=changed)


def test_protection_moves_and_undrops_are_told(
    warehouse: Warehouse, catalog: ApiClient, soft_delete: int, make_table: Callable[..., dict[str, Any]]
) -> None:
    table = make_table("t")["metadata"]["table-uuid"]
    own = f"/warehouse/{warehouse.pk}"
    assert api.post(f"{own}/table/{table}/protection", {"protected": True}).status == 200
    row = the_row(event="protection.set")
    assert (row.object_type, row.object_id, row.project_id) == (
        "table",
        str(Tabular.objects.get().pk),
        warehouse.project_id,
    )
    assert row.details == f'{{"is_protected":true,"uuid":"{table}","warehouse":"{warehouse.pk}"}}'
    assert api.post(f"{own}/table/{table}/protection", {"protected": False}).status == 200
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    undrop = {"targets": [{"type": "table", "id": table}]}
    assert api.post(f"{own}/deleted-tabulars/undrop", undrop).status == 204
    assert api.post(f"{own}/deleted-tabulars/undrop", undrop).status == 204
    row = the_row(event="warehouse.tabulars-undropped")
    assert (row.object_type, row.object_id, row.project_id) == ("warehouse", str(warehouse.pk), warehouse.project_id)
    assert row.details == f'{{"uuids":["{table}"]}}'


def test_grants_are_told_under_what_they_are_on(
    warehouse: Warehouse, make_table: Callable[..., dict[str, Any]]
) -> None:
    make_table("t")
    table = Tabular.objects.get().pk
    grant = {"privilege": "select", "user": "oidc~carl"}
    record(Event.GRANT_CREATED, actor=BOB, subject=table, object_type="table", **grant)
    row = the_row(event="grant.created")
    assert (row.object_type, row.object_id, row.project_id) == ("table", str(table), warehouse.project_id)
    assert row.details == '{"privilege":"select","user":"oidc~carl"}'


# --- refusals ------------------------------------------------------------------------------------------------------


def test_a_denial_is_written_before_the_answer(alice: TokenClient, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch)
    assert alice.post("/service-account", {"name": "robot"}).status == 403
    row = the_row(event="access.denied")
    assert (row.outcome, row.reason, row.actor) == ("denied", "ForbiddenException", "local~alice")
    assert row.action == "POST management/v1/service-account"
    token = read_token(alice.token)
    assert token is not None
    assert row.access_token_id == token.token_id
    assert not ServiceAccount.objects.exists()


def test_a_denial_that_was_told_of_is_not_told_of_twice(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any, **__: Any) -> None:
        with write_transaction():
            deny(ANONYMOUS, project="lab", privilege_source="authorizer", reason="CannotSeeResource")
            raise Forbidden("no")

    monkeypatch.setattr("management.api.projects.create_project", denied)
    assert api.post("/project", {"project-name": "p"}).status == 403
    row = the_row(event="access.denied")
    assert (row.action, row.object_type, row.object_id, row.reason) == (
        "drop",
        "table",
        NOWHERE_ID,
        "CannotSeeResource",
    )
    assert (row.project_id, row.actor, row.address) == ("lab", "anonymous", "192.0.2.7")


def test_the_project_of_a_denial_is_looked_up(warehouse: Warehouse, make_table: Callable[..., dict[str, Any]]) -> None:
    make_table("t")
    table = Tabular.objects.get().pk
    deny(object_id=table)
    record_denial(actor=BOB, action="use", object_type="warehouse", object_id=warehouse.pk)
    record_denial(actor=BOB, action="delete", object_type="project", object_id="gone")
    record_denial(actor=BOB, action="delete_users", object_type="server", object_id=NOWHERE_ID)
    deny(object_id=NOWHERE_ID)
    collector.write_pending()
    project = warehouse.project_id
    found = [(row.object_type, row.project_id) for row in rows(event="access.denied")]
    assert found == [("table", project), ("warehouse", project), ("project", "gone"), ("server", ""), ("table", "")]


def test_equal_denials_are_summed_up(db: None) -> None:
    for _ in range(1000):
        deny()
    deny(object_id=REQUEST_ID)
    collector.write_pending()
    assert [(row.object_id, row.count) for row in rows()] == [(NOWHERE_ID, 1), (REQUEST_ID, 1)]
    collector.write_down()
    assert len(rows()) == 2, "the minute is not over"
    collector.write_down(is_last=True)
    first, rest = rows(object_id=NOWHERE_ID)
    assert (rest.count, rest.request_id) == (999, None)
    assert rest.last_at is not None
    assert first.at <= rest.at <= rest.last_at
    assert the_row(object_id=REQUEST_ID).last_at is None


def test_who_asks_for_ever_new_objects_fills_no_disk(db: None) -> None:
    for number in range(5000):
        deny(object_id=UUID(int=number))
    deny(Actor(user_id="oidc~carl"))
    collector.write_pending()
    at_once = rows()
    assert len(at_once) == collecting.MOST_AT_ONCE_OF_ONE + 1
    collector.write_down(is_last=True)
    [rest] = rows(object_id="")
    assert (rest.actor, rest.count, rest.details) == ("oidc~bob", 5000 - 20, '{"several":true}')
    assert len(rows()) == len(at_once) + 1


def test_many_callers_fill_no_disk_either(db: None) -> None:
    for number in range(3000):
        deny(Actor(user_id=f"oidc~{number}"))
    collector.write_pending()
    assert len(rows()) == collecting.MOST_AT_ONCE
    collector.write_down(is_last=True)
    found = rows()
    assert sum(row.count for row in found) == 3000
    assert len(found) <= collecting.MOST_AT_ONCE + 2 * collecting.MOST_DIFFERENT_DENIALS + 1
    assert sum(row.count for row in found if row.actor == "*") == 3000 - 2 * collecting.MOST_DIFFERENT_DENIALS


def test_a_denial_that_cannot_be_written_now_waits(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("database is locked")

    with monkeypatch.context() as patched:
        patched.setattr(AuditRecord, "save", fail)
        deny()
        collector.write_pending()
    deny(object_id=REQUEST_ID)
    collector.write_pending()
    assert rows() == [], "nobody tries again so soon"
    with monkeypatch.context() as patched:
        patched.setattr(AuditRecord.objects, "bulk_create", fail)
        collector.write_down()
    assert rows() == []
    collector.write_down()
    collector.write_down()
    assert [row.object_id for row in rows()] == [NOWHERE_ID, REQUEST_ID]
    monkeypatch.setattr(collector, "_rests_until", 0.0)
    deny(object_id="later")
    collector.write_pending()
    assert len(rows()) == 3


def test_nothing_is_written_in_maintenance_mode(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(switch, "is_on", True)
        deny()
        collector.write_pending()
        collector.write_down(is_last=True)
        assert rows() == []
    collector.write_down()
    assert the_row().object_id == NOWHERE_ID


def test_what_has_no_room_is_counted(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "MOST_UNWRITTEN", 3)
    with monkeypatch.context() as patched:
        patched.setattr(switch, "is_on", True)
        for number in range(5):
            deny(object_id=UUID(int=number))
        collector.write_pending()
    collector.write_down()
    assert [row.object_id for row in rows(event="access.denied")] == [str(UUID(int=number)) for number in range(3)]
    lost = the_row(event="audit.records-lost")
    assert (lost.count, lost.outcome, lost.actor) == (2, "failed", "internal")


def test_a_row_that_no_database_takes_holds_up_no_other(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    create = AuditRecord.objects.bulk_create

    def fail(made: list[AuditRecord], **options: Any) -> Any:
        if any(row.object_id == NOWHERE_ID for row in made):
            raise DatabaseError("it is cursed")
        return create(made, **options)

    with monkeypatch.context() as patched:
        patched.setattr(switch, "is_on", True)
        deny()
        deny(object_id=REQUEST_ID)
        collector.write_pending()
    with monkeypatch.context() as patched:
        patched.setattr(AuditRecord.objects, "bulk_create", fail)
        collector.write_down()
    collector.write_down()
    assert [(row.event, row.count) for row in rows()] == [("access.denied", 1), ("audit.records-lost", 1)]


def test_hostile_texts_are_taken(db: None) -> None:
    deny(Actor(user_id=HOSTILE + "x" * 999), object_id=HOSTILE * 100, reason=HOSTILE * 100, project=HOSTILE * 100)
    record(Event.ROLE_CREATED, actor=BOB, subject=HOSTILE, named=HOSTILE, huge="x" * 300_000)
    record(Event.ROLE_UPDATED, actor=BOB, subject=HOSTILE, named=HOSTILE)
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


# --- who comes in ----------------------------------------------------------------------------------------------------


def test_tokens_that_are_refused(alice: TokenClient) -> None:
    forged = alice.token[:-1] + ("A" if alice.token[-1] != "A" else "B")
    for headers in ({}, {"authorization": f"Bearer {forged}"}, {"authorization": f"Bearer {forged}"}):
        assert call("GET", "/management/v1/token", headers=headers).status == 401
    found = [(row.reason, row.outcome, row.actor, row.address) for row in rows(event="sign-in.refused")]
    assert found == [
        ("MissingAuthorizationHeader", "failed", "anonymous", "192.0.2.7"),
        ("AuthenticationFailed", "failed", "anonymous", "192.0.2.7"),
    ]
    assert forged[27:] not in str([row.__dict__ for row in rows()])


def test_trades_for_a_token_are_sign_ins(alice: TokenClient) -> None:
    def trade(secret: str) -> int:
        pair = base64.b64encode(f"local~alice:{secret}".encode()).decode()
        return call(
            "POST", "/catalog/v1/oauth/tokens", body=b"grant_type=client_credentials&scope=catalog",
            headers={"authorization": f"Basic {pair}"}, content_type="application/x-www-form-urlencoded",
        ).status  # fmt: skip

    assert [trade(alice.token), trade(f"{alice.token}x")] == [200, 401]
    accepted = the_row(event="sign-in.accepted")
    token = read_token(alice.token)
    assert token is not None
    assert (accepted.actor, accepted.access_token_id, accepted.outcome) == ("local~alice", token.token_id, "allowed")
    assert accepted.details == '{"scopes":"catalog"}'
    assert the_row(event="sign-in.refused").reason == "invalid_client"


def test_uses_of_a_token_are_summed_up(alice: TokenClient) -> None:
    for _ in range(3):
        assert alice.get("/token").status == 200
    assert rows(event="token.used") == []
    collector.write_down()
    token = read_token(alice.token)
    assert token is not None
    first = the_row(event="token.used")
    assert (first.actor, first.object_type, first.object_id) == ("local~alice", "access-token", str(token.token_id))
    assert (first.count, first.address, first.outcome) == (3, "192.0.2.7", "allowed")
    for _ in range(2):
        alice.get("/token")
    collector.write_down()
    assert rows(event="token.used") == [first]
    collector.write_down(is_last=True)
    assert [row.count for row in rows(event="token.used")] == [3, 2]


def test_a_use_that_is_refused_for_its_scope_is_both(access_tokens: None) -> None:
    narrow = TokenClient(new_token(scopes=["catalog"]))
    assert narrow.get("/project-list").status == 403
    collector.write_down()
    denied, used = the_row(event="access.denied"), the_row(event="token.used")
    assert (denied.reason, denied.actor) == ("InsufficientScope", "local~alice")
    assert used.count == 1


def test_a_token_of_a_provider_is_a_use_by_its_user(callers: NamedCallers, bootstrapped: None) -> None:
    role = create_role(actor=INTERNAL, project=get_project(None), name="staff")
    callers.person("anna")
    anna = CallerClient("/management/v1", "anna")
    anna.get("/whoami")
    anna.get("/project", **{"x-assume-role": str(role.pk)})
    collector.write_down()
    found = [(row.actor, row.assumed_role, row.object_type, row.object_id) for row in rows(event="token.used")]
    assert found == [("oidc~anna", None, "user", "oidc~anna"), ("oidc~anna", role.pk, "user", "oidc~anna")]


def test_nobody_uses_a_token_where_authentication_is_off(bootstrapped: None) -> None:
    assert api.get("/project").status == 200
    collector.write_down(is_last=True)
    assert rows(event="token.used") == []


# --- reads -----------------------------------------------------------------------------------------------------------


def read_data(**more: Any) -> None:
    record_read(
        actor=BOB, event=Event.DATA_CREDENTIALS_LENT, action="read_data", object_type="table", object_id=NOWHERE_ID
    )


def test_reads_are_recorded_when_asked(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    read_data()
    collector.write_down(is_last=True)
    assert rows() == []
    use_settings(monkeypatch, audit=audit_settings(reads=True))
    for _ in range(5):
        read_data()
    collector.write_down()
    row = the_row(event="data.credentials-lent")
    assert (row.count, row.actor, row.action, row.object_type) == (5, "oidc~bob", "read_data", "table")


# --- no secrets ------------------------------------------------------------------------------------------------------


def test_no_row_has_a_secret(alice: TokenClient, bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_secrets(monkeypatch)
    body = {"warehouse-name": "s3", "storage-profile": S3, "storage-credential": KEY}
    made = alice.post("/warehouse", body)
    assert made.status == 201
    secret = alice.post("/token", {"name": "laptop"}).json()["token"]
    again = {"storage-credential": {**KEY, "secret-access-key": "another-secret"}}
    assert alice.post(f"/warehouse/{made.json()['warehouse-id']}/storage-credential", again).status == 200
    call("GET", f"/management/v1/token/{secret}", headers={"authorization": f"Bearer {secret}x"})
    refuse(monkeypatch)
    call("GET", f"/management/v1/token/{secret}?token={secret}", headers={"authorization": f"Bearer {alice.token}"})
    collector.write_down(is_last=True)
    found = str([row.__dict__ for row in rows()])
    assert len(rows()) >= 6
    for hidden in ("a-secret", "another-secret", secret, secret[27:], alice.token, alice.token[27:]):
        assert hidden not in found


# --- others write ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_refusal_waits_for_another_writer_for_a_moment_only() -> None:
    """On SQLite, which has one writer at a time; its row is written a little later."""
    if connection.vendor != "sqlite":
        pytest.skip("writers of PostgreSQL do not wait for each other")
    with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        deny()
        collector.write_pending()
        assert rows() == []
        other.execute("ROLLBACK")
    collector.write_down()
    assert the_row().object_id == NOWHERE_ID
