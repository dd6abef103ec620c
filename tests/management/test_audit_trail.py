"""Rows of the audit trail: one per change, in its transaction; one per error, before its response; no secrets."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError
from pytest_django import DjangoCaptureOnCommitCallbacks

from catalog.models import Tabular
from icekeeper.conf.environment import SettingsError, read_settings
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.request_context import NO_ORIGIN, current_context
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.audit.collector import collector
from tenancy.audit.occurrences import record_read
from tenancy.audit.recording import Event
from tenancy.authn.own_tokens.stored_tokens import read_token
from tenancy.changes.kinds import Change
from tenancy.models import Project
from tenancy.selectors.projects import get_project
from tenancy.services.projects import create_project
from tenancy.services.roles import create_role
from tests.harness.audit_rows import BOB, NOWHERE_ID, REQUEST_ID, audit_settings, deny, rows, the_row
from tests.harness.log_lines import log_lines
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.recorded_changes import record
from tests.harness.wsgi_client import ApiClient, call
from tests.management.warehouse_request_fixtures import KEY, S3, keep_secrets, refuse, use_settings
from tests.token_fixtures import TokenClient, new_token

pytestmark = pytest.mark.django_db

api = ApiClient("/management/v1")


# --- changes ---------------------------------------------------------------------------------------------------------


def test_a_row_has_the_user_the_token_and_the_address(alice: TokenClient, callers: NamedCallers) -> None:
    role = create_role(actor=INTERNAL, project=create_project(actor=INTERNAL, name="p", project_id="lab"), name="staff")
    callers.user("anna")
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
    assert row.details == f'{{"named":"Other","privilege":"project_admin","role":"{role.pk}"}}'
    assert (row.position, row.hash, row.previous_hash) == (None, "", "")


def test_a_row_has_a_uuid_where_the_client_sent_another_request_id(alice: TokenClient, callers: NamedCallers) -> None:
    callers.user("anna")
    anna = CallerClient("/management/v1", "anna")
    created = anna.post("/project", {"project-name": "p", "project-id": "p"}, **{"x-request-id": "job 7"})
    assert (created.status, created.headers["X-Request-Id"]) == (201, "job 7")
    request_id = the_row(event="project.created", object_id="p").request_id
    assert request_id is not None
    assert request_id.version == 7


def test_commands_have_no_address(bootstrapped: None) -> None:
    row = the_row(event="server.bootstrapped")
    assert (row.actor, row.privilege_source, row.request_id) == ("internal", "internal", None)
    assert (row.address, row.forwarded_for, row.user_agent) == ("", "", "")
    assert current_context().origin == NO_ORIGIN


def test_untrusted_forwarded_addresses_are_omitted(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    use_settings(monkeypatch, use_x_forwarded_headers=False)
    assert api.post("/project", {"project-name": "p"}, **{"x-forwarded-for": "203.0.113.9"}).status == 201
    row = the_row(event="project.created")
    assert (row.address, row.forwarded_for) == ("192.0.2.7", "")


def test_instance_admins_are_distinguished(alice: TokenClient, monkeypatch: pytest.MonkeyPatch) -> None:
    use_settings(monkeypatch, instance_admins=["local~alice"])
    assert alice.post("/service-account", {"name": "robot"}).status == 201
    assert the_row(event="service-account.created").privilege_source == "instance_admin"


def test_requests_rejected_by_a_rule_write_no_row(bootstrapped: None) -> None:
    before = rows()
    assert api.post("/project", {"project-name": "Default Project"}).status == 409
    assert api.post("/project", {"project-name": " "}).status == 400
    assert api.delete(f"/role/{NOWHERE_ID}").status == 404
    assert rows() == before


def test_rolled_back_changes_write_no_row(db: None) -> None:
    def change() -> None:
        with write_transaction():
            record(Change.PROJECT_CREATED, actor=INTERNAL, subject="x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        change()
    assert rows() == []


def test_a_change_whose_audit_row_cannot_be_written_is_rolled_back(
    bootstrapped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("the disk is full")

    before = rows()
    with monkeypatch.context() as patched:
        patched.setattr("tenancy.changes.transaction.write_changes", fail)
        response = api.post("/project", {"project-name": "p", "project-id": "p"})
    assert response.status == 503
    assert not Project.objects.filter(pk="p").exists()
    assert rows() == before


def test_rows_can_be_switched_off(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows()
    use_settings(monkeypatch, audit=audit_settings(enabled=False))
    assert api.post("/project", {"project-name": "p"}).status == 201
    refuse(monkeypatch)
    assert api.post("/project", {"project-name": "q"}).status == 403
    collector.write_due(is_last=True)
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
    collector.write_due()
    assert [len(rows(event=event)) for event in ("project.created", "access.denied")] == [2, 2]


def test_protection_moves_and_undrops_are_reported(
    warehouse: Warehouse, catalog: ApiClient, soft_delete: int, create_table: Callable[..., dict[str, Any]]
) -> None:
    table = create_table("t")["metadata"]["table-uuid"]
    own = f"/warehouse/{warehouse.pk}"
    assert api.post(f"{own}/table/{table}/protection", {"protected": True}).status == 200
    row = the_row(event="protection.set")
    assert (row.object_type, row.object_id, row.project_id) == (
        "table",
        str(Tabular.objects.get().pk),
        warehouse.project_id,
    )
    assert row.details == (f'{{"is_protected":true,"levels":["ns","t"],"uuid":"{table}","warehouse":"{warehouse.pk}"}}')
    assert api.post(f"{own}/table/{table}/protection", {"protected": True}).status == 200
    assert rows(event="protection.set") == [row], "it changed nothing"
    assert api.post(f"{own}/table/{table}/protection", {"protected": False}).status == 200
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    undrop = {"targets": [{"type": "table", "id": table}]}
    assert api.post(f"{own}/deleted-tabulars/undrop", undrop).status == 204
    assert api.post(f"{own}/deleted-tabulars/undrop", undrop).status == 204
    row = the_row(event="table.undropped")
    assert (row.object_id, row.project_id) == (str(Tabular.objects.get().pk), warehouse.project_id)
    assert row.details == f'{{"levels":["ns","t"],"uuid":"{table}","warehouse":"{warehouse.pk}"}}'


def test_grants_are_listed_under_their_object(
    warehouse: Warehouse, create_table: Callable[..., dict[str, Any]]
) -> None:
    create_table("t")
    table = Tabular.objects.get().pk
    grant = {"privilege": "select", "user": "oidc~carl"}
    record(Change.GRANT_CREATED, actor=BOB, subject=table, object_type="table", **grant)
    row = the_row(event="grant.created")
    assert (row.object_type, row.object_id, row.project_id) == ("table", str(table), warehouse.project_id)
    assert row.details == '{"privilege":"select","user":"oidc~carl"}'


# --- sign-in ---------------------------------------------------------------------------------------------------------


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
    collector.write_due()
    token = read_token(alice.token)
    assert token is not None
    first = the_row(event="token.used")
    assert (first.actor, first.object_type, first.object_id) == ("local~alice", "access-token", str(token.token_id))
    assert (first.count, first.address, first.outcome) == (3, "192.0.2.7", "allowed")
    for _ in range(2):
        alice.get("/token")
    collector.write_due()
    assert rows(event="token.used") == [first]
    collector.write_due(is_last=True)
    assert [row.count for row in rows(event="token.used")] == [3, 2]


def test_a_use_that_is_refused_for_its_scope_is_both(access_tokens: None) -> None:
    narrow = TokenClient(new_token(scopes=["catalog"]))
    assert narrow.get("/project-list").status == 403
    collector.write_due()
    denied, used = the_row(event="access.denied"), the_row(event="token.used")
    assert (denied.reason, denied.actor) == ("InsufficientScope", "local~alice")
    assert used.count == 1


def test_a_token_of_a_provider_is_a_use_by_its_user(callers: NamedCallers, bootstrapped: None) -> None:
    role = create_role(actor=INTERNAL, project=get_project(None), name="staff")
    callers.user("anna")
    anna = CallerClient("/management/v1", "anna")
    anna.get("/whoami")
    anna.get("/project", **{"x-assume-role": str(role.pk)})
    collector.write_due()
    found = [(row.actor, row.assumed_role, row.object_type, row.object_id) for row in rows(event="token.used")]
    assert found == [("oidc~anna", None, "user", "oidc~anna"), ("oidc~anna", role.pk, "user", "oidc~anna")]


def test_no_token_is_used_where_authentication_is_off(bootstrapped: None) -> None:
    assert api.get("/project").status == 200
    collector.write_due(is_last=True)
    assert rows(event="token.used") == []


# --- reads -----------------------------------------------------------------------------------------------------------


def read_data(**more: Any) -> None:
    record_read(
        actor=BOB, event=Event.DATA_CREDENTIALS_VENDED, action="read_data", object_type="table", object_id=NOWHERE_ID
    )


def test_reads_are_recorded_if_enabled(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    read_data()
    collector.write_due(is_last=True)
    assert rows() == []
    use_settings(monkeypatch, audit=audit_settings(reads=True))
    for _ in range(5):
        read_data()
    collector.write_due()
    row = the_row(event="data.credentials-vended")
    assert (row.count, row.actor, row.action, row.object_type) == (5, "oidc~bob", "read_data", "table")


# --- no secrets ------------------------------------------------------------------------------------------------------


def test_no_row_has_a_secret(alice: TokenClient, bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_secrets(monkeypatch)
    body = {"warehouse-name": "s3", "storage-profile": S3, "storage-credential": KEY}
    created = alice.post("/warehouse", body)
    assert created.status == 201
    secret = alice.post("/token", {"name": "laptop"}).json()["token"]
    again = {"storage-credential": {**KEY, "secret-access-key": "another-secret"}}
    assert alice.post(f"/warehouse/{created.json()['warehouse-id']}/storage-credential", again).status == 200
    call("GET", f"/management/v1/token/{secret}", headers={"authorization": f"Bearer {secret}x"})
    refuse(monkeypatch)
    call("GET", f"/management/v1/token/{secret}?token={secret}", headers={"authorization": f"Bearer {alice.token}"})
    collector.write_due(is_last=True)
    found = str([row.__dict__ for row in rows()])
    assert len(rows()) >= 6
    for hidden in ("a-secret", "another-secret", secret, secret[27:], alice.token, alice.token[27:]):
        assert hidden not in found


# --- settings --------------------------------------------------------------------------------------------------------


def test_settings_have_the_prefixes_of_whose_they_are() -> None:
    values = {
        "LAKEKEEPER__AUDIT__TRACING__ENABLED": "false",
        "ICEKEEPER__AUDIT__READS": "true",
        "ICEKEEPER__AUDIT__TOKEN_USE_INTERVAL": "1m",
        "LAKEKEEPER__AUDIT__ENABLED": "false",
        "ICEKEEPER__AUDIT__TRACING__ENABLED": "true",
    }
    read, unread = read_settings(values)
    assert (read.audit.tracing.enabled, read.audit.reads, read.audit.token_use_interval) == (False, True, 60.0)
    assert read.audit.enabled, "Lakekeeper has no such variable"
    assert unread == ["ICEKEEPER__AUDIT__TRACING__ENABLED", "LAKEKEEPER__AUDIT__ENABLED"]


@pytest.mark.parametrize(
    ("given", "kept"), [("none", 0), ("0", 0), ("off", 0), ("30d", 30 * 86_400), ("36500d", 3.1536e9)]
)
def test_retention_may_be_none(given: str, kept: float) -> None:
    assert read_settings({"ICEKEEPER__AUDIT__RETENTION": given})[0].audit.retention == kept


@pytest.mark.parametrize("given", ["", "-1d", "36501d", "ever", "1e999"])
def test_retention_that_is_none_at_all(given: str) -> None:
    with pytest.raises(SettingsError, match="ICEKEEPER__AUDIT"):
        read_settings({"ICEKEEPER__AUDIT__RETENTION": given})
