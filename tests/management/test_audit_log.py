"""Each administrative change writes one audit log line with the user and the token; rejected requests write none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, OperationalError
from pytest_django import DjangoCaptureOnCommitCallbacks

from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.request_context import end_request
from storage.models import Warehouse
from tenancy import maintenance
from tenancy.actor import INTERNAL, Actor
from tenancy.authn.own_tokens.stored_tokens import read_token
from tenancy.changes.kinds import Change
from tenancy.models import Server
from tenancy.selectors.projects import get_project
from tenancy.services import registration
from tenancy.services.access_tokens import create_token
from tenancy.services.roles import create_role
from tenancy.services.server import appoint_administrator, bootstrap, reopen_bootstrap
from tenancy.services.users import delete_user, register_user
from tests.harness.log_lines import LogLines, log_lines
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.recorded_changes import record
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import KEY, S3, keep_secrets, refuse
from tests.token_fixtures import TokenClient, new_token

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

Reported = Callable[[Callable[[], Any]], list[dict[str, Any]]]
REQUEST_ID = "0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44"
NOWHERE = "0198e0f4-3f6e-7c31-8c7d-000000000000"
api = ApiClient("/management/v1")


@pytest.fixture
def lines() -> Iterator[LogLines]:
    end_request()  # ends the request context of another test
    with log_lines("icekeeper.audit") as written:
        yield written


@pytest.fixture
def reported(lines: LogLines, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks) -> Reported:
    """Return the audit lines of `act`, with its transactions treated as committed."""

    def of(act: Callable[[], Any]) -> list[dict[str, Any]]:
        with django_capture_on_commit_callbacks(execute=True):
            act()
        return lines.read()

    return of


def the_one(found: list[dict[str, Any]]) -> dict[str, Any]:
    [line] = found
    assert (line["level"], line["logger"]) == ("INFO", "icekeeper.audit")
    return {name: line[name] for name in line if name not in {"timestamp", "level", "logger", "request_id"}}


def changes(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines without those of errors."""
    return [line for line in found if line["message"] not in {"access.denied", "sign-in.refused"}]


def id_of(token: str) -> str:
    text = read_token(token)
    assert text is not None
    return str(text.token_id)


def good(response: Response) -> Any:
    assert response.status in {200, 201, 204}, response.body
    return response.json() if response.body else None


# --- user and token --------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_the_line_names_the_user_the_token_and_the_request(alice: TokenClient, lines: LogLines) -> None:
    lines.read()
    client = CallerClient("/management/v1", alice.token)
    response = client.post("/service-account", {"name": "robot"}, **{"x-request-id": REQUEST_ID})
    [line] = lines.read()
    assert line.pop("timestamp") > "2026"
    assert line == {
        "level": "INFO", "logger": "icekeeper.audit", "message": "service-account.created", "request_id": REQUEST_ID,
        "id": response.json()["id"], "by": "local~alice", "access_token": id_of(alice.token), "named": "robot",
    }  # fmt: skip


def test_an_assumed_role_is_recorded_with_the_user(
    bootstrapped: None, callers: NamedCallers, reported: Reported
) -> None:
    role = create_role(actor=INTERNAL, project=get_project(None), name="staff")
    callers.user("anna")
    anna = CallerClient("/management/v1", "anna")
    header = {"x-assume-role": str(role.pk)}
    line = the_one(reported(lambda: good(anna.post("/project", {"project-name": "p"}, **header))))
    assert line["by"] == f"role {role.pk} assumed by oidc~anna"
    assert "access_token" not in line


# --- one line for each change ------------------------------------------------------------------------------------


def test_tokens(alice: TokenClient, reported: Reported, lines: LogLines) -> None:
    created: list[dict[str, Any]] = []
    own = {"by": "local~alice", "access_token": id_of(alice.token)}

    def post(target: str, body: dict[str, Any]) -> None:
        created.append(good(alice.post(target, body)))

    first = the_one(reported(lambda: post("/token", {"name": "laptop", "scopes": ["catalog"]})))
    about = {"user": "local~alice", "named": "laptop", "scopes": "catalog"}
    assert first.pop("expires_at") is not None
    assert first == {"message": "access-token.created", "id": created[0]["id"], **own, **about}

    second = the_one(reported(lambda: post(f"/token/{created[0]['id']}/rotate", {"overlap-seconds": 0})))
    assert second.pop("expires_at") is not None
    ids = {"id": created[0]["id"], "replaced_by": created[1]["id"]}
    assert second == {"message": "access-token.rotated", **ids, **own, **about}

    target = f"/token/{created[1]['id']}"
    third = the_one(reported(lambda: alice.delete(target)))
    assert third == {"message": "access-token.revoked", "id": created[1]["id"], **own, "user": "local~alice"}
    assert reported(lambda: good(alice.delete(target))) == [], "it is already revoked"


def test_users(alice: TokenClient, reported: Reported) -> None:
    bob = {"id": "oidc~bob", "name": "Bob", "user-type": "human", "email": "bob@example.com"}
    again = {"name": "Bob the Second", "user-type": "human"}
    client = CallerClient("/management/v1", alice.token)
    line: dict[str, Any] = {}
    for act, message in (
        (lambda: client.post("/user", bob), "user.created"),
        (lambda: client.post("/user", {**bob, "update-if-exists": True}), "user.updated"),
        (lambda: client.put("/user/oidc~bob", again), "user.updated"),
        (lambda: call_command("block_user", "oidc~bob", stdout=StringIO()), "user.blocked"),
        (lambda: call_command("unblock_user", "oidc~bob", stdout=StringIO()), "user.unblocked"),
        (lambda: client.delete("/user/oidc~bob"), "user.deleted"),
    ):
        line = the_one(reported(act))
        assert (line["message"], line["id"]) == (message, "oidc~bob")
        assert "example.com" not in str(line)
    assert line["tokens_revoked"] == 0
    new_token("local~bob")
    assert the_one(reported(lambda: client.delete("/user/local~bob")))["tokens_revoked"] == 1


def test_service_accounts(alice: TokenClient, reported: Reported) -> None:
    ids: list[str] = []
    line = the_one(reported(lambda: ids.append(good(alice.post("/service-account", {"name": "robot"}))["id"])))
    assert (line["message"], line["id"], line["named"]) == ("service-account.created", ids[0], "robot")
    create_token(actor=INTERNAL, user_id=ids[0], name="t")
    line = the_one(reported(lambda: alice.delete(f"/service-account/{ids[0]}")))
    assert (line["message"], line["id"], line["tokens_revoked"]) == ("service-account.deleted", ids[0], 1)


def test_roles_and_their_members(bootstrapped: None, reported: Reported) -> None:
    register_user(actor=INTERNAL, user_id="oidc~bob", name="Bob", user_type="human")
    inner = str(create_role(actor=INTERNAL, project=get_project(None), name="inner").pk)
    ids: list[str] = []
    line = the_one(reported(lambda: ids.append(good(api.post("/role", {"name": "staff"}))["id"])))
    role = f"/role/{ids[0]}"
    assert line == {
        "message": "role.created", "id": ids[0], "by": "anonymous", "project": str(get_project(None).pk),
        "named": "staff", "ident": f"lakekeeper~{ids[0]}",
    }  # fmt: skip
    members = {"members": [{"type": "user", "id": "oidc~bob"}, {"type": "role", "id": inner}]}
    source = {"provider-id": "oidc", "source-id": "staff"}
    for act, expected in (
        (lambda: api.post(role, {"name": "staff"}), {"message": "role.updated", "named": "staff"}),
        (lambda: api.put(f"{role}/source-system", source), {"message": "role.updated", "ident": "oidc~staff"}),
        (
            lambda: api.post(f"{role}/members", members),
            {"message": "role.members-added", "users": ["oidc~bob"], "roles": [inner]},
        ),
        (
            lambda: api.delete(f"{role}/members/user/oidc~bob"),
            {"message": "role.members-removed", "users": ["oidc~bob"], "roles": []},
        ),
        (lambda: api.post(f"{role}/members", members), {"message": "role.members-added", "users": ["oidc~bob"]}),
        (
            lambda: api.delete(f"{role}/members/role/{inner}"),
            {"message": "role.members-removed", "users": [], "roles": [inner]},
        ),
        (lambda: api.delete(role), {"message": "role.deleted", "named": "staff"}),
    ):
        line = the_one(reported(lambda act=act: good(act())))
        assert {name: line.get(name) for name in expected} == expected
        assert line["id"] == ids[0]


def test_projects(bootstrapped: None, reported: Reported) -> None:
    line: dict[str, Any] = {}
    for act, message in (
        (lambda: api.post("/project", {"project-name": "Lab", "project-id": "lab"}), "project.created"),
        (lambda: api.post("/project/lab/rename", {"new-name": "Laboratory"}), "project.renamed"),
        (lambda: api.delete("/project/lab"), "project.deleted"),
    ):
        line = the_one(reported(lambda act=act: good(act())))
        assert (line["message"], line["id"]) == (message, "lab")
    assert line["named"] == "Laboratory"


def test_warehouses(bootstrapped: None, reported: Reported, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_secrets(monkeypatch)
    ids: list[str] = []
    body = {"warehouse-name": "s3", "storage-profile": S3, "storage-credential": KEY}
    line = the_one(reported(lambda: ids.append(good(api.post("/warehouse", body))["warehouse-id"])))
    assert (line["message"], line["id"], line["named"]) == ("warehouse.created", ids[0], "s3")
    assert line["credential_type"] == "access-key"
    own = f"/warehouse/{ids[0]}"
    soft = {"type": "soft", "expiration-seconds": 5}
    elsewhere = {**S3, "endpoint": "https://s3.example.com"}
    changes: list[tuple[str, dict[str, Any] | None, dict[str, Any]]] = [
        ("rename", {"new-name": "other"}, {"name": "other"}),
        ("deactivate", None, {"status": "inactive"}),
        ("activate", None, {"status": "active"}),
        ("delete-profile", {"delete-profile": soft}, {"delete_profile": soft}),
        ("format-version-policy", {"allowed-format-versions": [2]}, {"allowed_format_versions": [2]}),
        ("protection", {"protected": True}, {"protected": True}),
        ("protection", {"protected": False}, {"protected": False}),
        (
            "storage",
            {"storage-profile": elsewhere, "storage-credential": KEY},
            {"credential_type": "access-key", "storage_profile": ["endpoint"]},
        ),
        ("storage-credential", {}, {"credential_type": None, "storage_profile": []}),
    ]
    for change, sent, expected in changes:
        line = the_one(reported(lambda change=change, sent=sent: good(api.post(f"{own}/{change}", sent))))
        assert (line["message"], line["id"], line["changed"]) == ("warehouse.updated", ids[0], expected), change
        assert "a-secret" not in str(line)
    assert reported(lambda: good(api.post(f"{own}/rename", {"new-name": "other"}))) == [], "nothing was changed"
    line = the_one(reported(lambda: good(api.delete(own))))
    assert (line["message"], line["id"], line["named"]) == ("warehouse.deleted", ids[0], "other")


def test_the_server(db: None, reported: Reported) -> None:
    server = str(Server.objects.get().server_id)
    ann = {"user": "oidc~ann", "privilege": "admin"}
    bob = {"user": "oidc~bob", "privilege": "operator"}
    switched = {"message": "server.maintenance-switched", "by": "internal"}
    try:
        for act, expected in (
            (
                lambda: bootstrap(actor=Actor(user_id="oidc~ann"), accept_terms_of_use=True),
                {"message": "server.bootstrapped", "by": "oidc~ann", **ann},
            ),
            (
                lambda: appoint_administrator(actor=INTERNAL, user_id="oidc~bob", is_operator=True),
                {"message": "server.administrator-appointed", "by": "internal", **bob},
            ),
            (lambda: reopen_bootstrap(actor=INTERNAL), {"message": "server.bootstrap-reopened"}),
            (lambda: call_command("maintenance", "on", stdout=StringIO()), {**switched, "is_on": True}),
            (lambda: call_command("maintenance", "off", stdout=StringIO()), {**switched, "is_on": False}),
        ):
            (line,) = (each for each in reported(act) if each["message"] != "user.created")
            assert {name: line.get(name) for name in expected} == expected
            assert line["id"] == server
        assert reported(lambda: call_command("maintenance", "off", stdout=StringIO())) == []
    finally:
        maintenance.switch.is_on = False


def test_commands_that_create_and_revoke_tokens(access_tokens: None, reported: Reported) -> None:
    out = StringIO()
    arguments = ("create_token", "--user", "local~bob", "--create-user")
    created = reported(lambda: call_command(*arguments, stdout=out, stderr=StringIO()))
    token = out.getvalue().strip()
    assert [(line["message"], line["id"], line["by"]) for line in created] == [
        ("user.created", "local~bob", "internal"), ("access-token.created", id_of(token), "internal"),
    ]  # fmt: skip
    assert token[27:] not in str(created)
    ended = the_one(reported(lambda: call_command("revoke_token", "--user", "local~bob", stdout=StringIO())))
    assert (ended["message"], ended["id"]) == ("access-token.revoked", id_of(token))


# --- no line without a change -----------------------------------------------------------------------------------------


def test_rejected_requests_write_no_line(
    warehouse: Warehouse, alice: TokenClient, reported: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = CallerClient("/management/v1", alice.token)
    role = str(create_role(actor=INTERNAL, project=get_project(None), name="staff").pk)
    requests: list[tuple[str, str, Any]] = [
        ("POST", "/token", {"name": "t", "scopes": ["admin"]}),
        ("POST", f"/token/{NOWHERE}/rotate", {}),
        ("DELETE", f"/token/{NOWHERE}", None),
        ("POST", "/user", {"id": "local~alice", "name": "A", "user-type": "human"}),
        ("DELETE", "/user/oidc~unknown", None),
        ("POST", "/service-account", {"name": " "}),
        ("DELETE", f"/service-account/{NOWHERE}", None),
        ("POST", "/role", {"name": "STAFF"}),
        ("POST", f"/role/{NOWHERE}", {"name": "x"}),
        ("POST", f"/role/{role}/members", {"members": [{"type": "user", "id": "oidc~unknown"}]}),
        ("POST", f"/role/{role}/members", {"members": []}),
        ("DELETE", f"/role/{role}/members/user/oidc~unknown", None),
        ("POST", "/project", {"project-name": "Default Project"}),
        ("DELETE", f"/project/{warehouse.project_id}", None),
        ("POST", f"/warehouse/{NOWHERE}/rename", {"new-name": "x"}),
        ("POST", f"/warehouse/{warehouse.pk}/rename", {"new-name": ""}),
        ("POST", "/bootstrap", {"accept-terms-of-use": True}),
    ]
    for method, target, body in requests:
        act = {"POST": lambda t=target, b=body: client.post(t, b), "DELETE": lambda t=target: client.delete(t)}[method]
        assert changes(reported(act)) == [], (method, target)
    refuse(monkeypatch)
    for method, target, body in (
        ("POST", "/service-account", {"name": "robot"}),
        ("POST", "/project", {"project-name": "p"}),
        ("DELETE", f"/warehouse/{warehouse.pk}", None),
    ):
        act = {"POST": lambda t=target, b=body: client.post(t, b), "DELETE": lambda t=target: client.delete(t)}[method]
        assert changes(reported(act)) == [], (method, target)


def test_rolled_back_changes_write_no_line(alice: TokenClient, reported: Reported) -> None:
    def create_and_fail() -> None:
        with write_transaction():
            create_token(actor=INTERNAL, user_id="local~alice", name="t")
            delete_user(actor=INTERNAL, user_id="local~alice")
            raise OperationalError("the disk is full")

    def try_it() -> None:
        with pytest.raises(OperationalError):
            create_and_fail()

    assert reported(try_it) == []
    assert alice.get("/token").status == 200


def test_a_repeated_attempt_writes_one_line(
    alice: TokenClient, reported: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another request creates the row at the same time; the first attempt is rolled back."""
    real, attempts = registration._put_once, []

    def losing_at_first(*args: Any) -> Any:
        attempts.append(real(*args))
        if len(attempts) == 1:
            raise IntegrityError("another transaction was faster")
        return attempts[-1]

    monkeypatch.setattr(registration, "_put_once", losing_at_first)
    line = the_one(reported(lambda: good(alice.post("/user", {"id": "oidc~bob", "name": "B", "user-type": "human"}))))
    assert (line["message"], len(attempts)) == ("user.created", 2)


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_the_line_is_written_after_the_commit_only(lines: LogLines) -> None:
    with write_transaction():
        register_user(actor=INTERNAL, user_id="oidc~bob", name="Bob", user_type="human")
        assert lines.read() == []
    assert the_one(lines.read())["id"] == "oidc~bob"
    with pytest.raises(IntegrityError):
        _delete_and_fail()
    assert lines.read() == []
    record(Change.USER_UPDATED, actor=INTERNAL, subject="oidc~bob")
    assert the_one(lines.read())["message"] == "user.updated"


def _delete_and_fail() -> None:
    with write_transaction():
        delete_user(actor=INTERNAL, user_id="oidc~bob")
        raise IntegrityError("at the commit")


# --- content of a line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ['"},{"logger":"icekeeper.audit', "a\\nb", "\u0085x", "\ud800", "\x1b[2J", "\n{}\n"])
def test_no_log_line_can_be_forged(bootstrapped: None, lines: LogLines, reported: Reported, name: str) -> None:
    """Names may contain any character."""
    found = reported(lambda: record(Change.PROJECT_CREATED, actor=INTERNAL, subject=name, named=name))
    assert the_one(found)["message"] == "project.created"


def test_no_secret_is_in_any_line(
    bootstrapped: None,
    alice: TokenClient,
    lines: LogLines,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    keep_secrets(monkeypatch)
    texts = [alice.token]
    with django_capture_on_commit_callbacks(execute=True):
        token = good(alice.post("/token", {"name": "t"}))
        new = good(alice.post(f"/token/{token['id']}/rotate", {}))
        texts += [token["token"], new["token"]]
        body = {"warehouse-name": "w", "storage-profile": S3, "storage-credential": KEY}
        created = good(alice.post("/warehouse", body))
        good(alice.post(f"/warehouse/{created['warehouse-id']}/storage-credential", {"storage-credential": KEY}))
    written = lines.text
    assert len(lines.read()) == 4
    for secret in (*(text[27:] for text in texts), KEY["secret-access-key"]):
        assert secret not in written
