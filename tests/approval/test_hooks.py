"""HTTP hooks: what a receiver gets, its decisions, and receivers that hang, fail or respond with nonsense."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import connections

from catalog.models import ChangeRule
from catalog.services.approval import hook_client
from catalog.services.approval.configuration import InvalidRule, Purpose
from catalog.services.approval.hook_client import HookFailed, Receiver
from catalog.services.change_rules import RuleContent, update_change_rule
from icekeeper.kernel.errors.types import RequestTimeout
from icekeeper.kernel.request_context import deadline
from storage.models import Secret
from storage.network.endpoints import EndpointNotPermitted
from storage.secrets.port import SecretUnreadable
from tenancy.actor import INTERNAL
from tests.approval.conftest import CreateRule
from tests.authz.view_owner_fixtures import VIEW
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import keep_secrets, use_settings
from tests.parts.recorder import Recorder, Reply

pytestmark = pytest.mark.django_db

CreateTable = Callable[..., dict[str, Any]]
T = "/namespaces/ns/tables/t"
SIGNING_KEY = b"0123456789abcdef0123456789abcdef"
SIGNING_SECRET = f"whsec_{base64.b64encode(SIGNING_KEY).decode()}"
SECRET = {"signing-secrets": [SIGNING_SECRET], "headers": {"Authorization": "Bearer very-secret"}}
ALLOWED, DENIED = {"allowed": True}, {"allowed": False, "reason": "ask the data office first"}


def reply(document: Any, status: int = 200, pause: float | None = None) -> Reply:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return Reply(status, {"content-type": "application/json", "content-length": str(len(body))}, body, pause)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch, storage_root: object) -> Iterator[Recorder]:
    """A receiver that allows every change."""
    keep_secrets(monkeypatch)
    endpoints = settings.ICEKEEPER.storage.model_copy(
        update={"allow_http_endpoints": True, "allow_private_endpoints": True}
    )
    use_settings(monkeypatch, storage=endpoints)
    with Recorder(0) as started:
        started.answerer = lambda *_: reply(ALLOWED)
        yield started


@pytest.fixture
def create_hook(receiver: Recorder, create_rule: CreateRule) -> CreateRule:
    def create(**more: Any) -> ChangeRule:
        configuration = {"url": f"{receiver.endpoint}changes", "timeout-seconds": 0.5, **more.pop("configuration", {})}
        return create_rule("http-hook", configuration, name="data office", **more)

    return create


def set_property(catalog: ApiClient, value: str = "b") -> Response:
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": value}}]}
    return catalog.post(T, body)


def respond(receiver: Recorder, *replies: Reply | None) -> None:
    """Respond with each of the replies, then with the last one."""
    left = list(replies)
    receiver.answerer = lambda *_: left.pop(0) if len(left) > 1 else left[0]


def test_a_receiver_gets_the_change_and_decides(
    catalog: ApiClient, create_table: CreateTable, receiver: Recorder, create_hook: CreateRule
) -> None:
    uuid = create_table("t")["metadata"]["table-uuid"]
    rule = create_hook(secret=SECRET, configuration={"include-metadata": True})
    assert set_property(catalog).status == 200
    (request,) = receiver.requests
    assert (request.method, request.target) == ("POST", "/changes")
    assert request.headers["content-type"] == "application/cloudevents+json"
    assert request.headers["authorization"] == "Bearer very-secret"
    event = json.loads(request.body)
    signed = f"{event['id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    signature = base64.b64encode(hmac.new(SIGNING_KEY, signed, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{signature}"
    assert request.headers["webhook-id"] == event["id"]
    assert abs(int(request.headers["webhook-timestamp"]) - time.time()) < 60
    data = event.pop("data")
    assert event.keys() == {"specversion", "id", "source", "type", "time", "datacontenttype", "subject"}
    assert (event["type"], event["subject"]) == ("io.icekeeper.change-proposed.v1", "table ns.t")
    metadata = data.pop("current-metadata"), data.pop("proposed-metadata")
    assert [each["properties"].get("a") for each in metadata] == [None, "b"]
    request_id = data.pop("request-id")
    assert request_id
    warehouse_id = catalog.base.rpartition("/")[2]
    assert data == {
        "action": "commit", "object-type": "table", "actor": {"user": "anonymous", "role": None},
        "project-id": data["project-id"], "warehouse-id": warehouse_id, "namespace": ["ns"], "name": "t", "id": uuid,
        "diff": {"properties": {"set": {"a": "b"}, "removed": [], "count": 1}},
        "updates": [{"action": "set-properties", "updates": {"a": "b"}}],
        "rule": {"id": str(rule.pk), "name": "data office"},
    }  # fmt: skip
    respond(receiver, reply(DENIED))
    refused = set_property(catalog, "c")
    text = "Rule 'data office' rejects the change of table ns.t: ask the data office first"
    assert refused.refused(409, "ContractViolation", text)
    assert b"very-secret" not in refused.body


def test_secrets_in_properties_are_hidden(
    catalog: ApiClient, create_table: CreateTable, receiver: Recorder, create_hook: CreateRule
) -> None:
    create_table("t")
    assert catalog.post("/namespaces/ns/views", VIEW | {"name": "v"}).status == 200
    create_hook(configuration={"include-metadata": True})
    secrets = {"s3.secret-access-key": "hunter2-a", "jdbc.url": "jdbc:x://u:hunter2-b@host/", "owner": "sales"}
    hidden = {"s3.secret-access-key": "********", "jdbc.url": "********", "owner": "sales"}
    for member in ("updates", "updated"):
        body = {"requirements": [], "updates": [{"action": "set-properties", member: secrets}]}
        assert catalog.post(T, body).status == 200
        assert catalog.post("/namespaces/ns/views/v", body).status == 200
        secrets = {name: value.replace("hunter2", "hunter2x") for name, value in secrets.items()} | {"owner": "sales"}
    assert catalog.post("/namespaces", {"namespace": ["n"], "properties": secrets}).status == 200
    assert len(receiver.requests) == 5
    for request in receiver.requests:
        assert b"hunter2" not in request.body
        data = json.loads(request.body)["data"]
        assert hidden.items() <= data["proposed-metadata"]["properties"].items()
        if data["object-type"] != "namespace":
            (update,) = data["updates"]
            assert (update.get("updates") or update["updated"]) == hidden


NONSENSE: dict[str, tuple[Reply | None, str]] = {
    "closed connection": (None, "the hook refused or closed the connection"),
    "status 500": (reply(ALLOWED, 500), "the hook responded with status 500"),
    "redirect": (Reply(302, {"location": "http://127.0.0.1:1/", "content-length": "0"}, b""), "with status 302"),
    "no JSON": (reply(b"allowed"), "the response of the hook is not a JSON object"),
    "a list": (reply([ALLOWED]), "the response of the hook is not a JSON object"),
    "duplicate members": (reply(b'{"allowed": false, "allowed": true}'), "is not a JSON object"),
    "not a boolean": (reply({"allowed": "yes"}), 'the response of the hook is not {"allowed": true or false'),
    "no decision": (reply({}), 'the response of the hook is not {"allowed": true or false'),
    "another reason": (reply({"allowed": False, "reason": 7}), "the response of the hook is not"),
    "10 MB": (reply(b" " * 10_000_000 + b"{}"), "the hook sent more than 65536 bytes"),
    "invalid UTF-8": (reply(b'{"allowed": true, "reason": "\xff"}'), "is not a JSON object"),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_nonsense_is_decided_by_on_failure(
    case: str, catalog: ApiClient, create_table: CreateTable, receiver: Recorder, create_hook: CreateRule
) -> None:
    sent, message = NONSENSE[case]
    create_table("t")
    rule = create_hook()
    respond(receiver, sent)
    refused = set_property(catalog)
    assert refused.refused(409, "ContractViolation", "the rule could not be checked: ")
    assert message in refused.error["message"]
    assert receiver.endpoint not in refused.error["message"]
    update(rule, on_failure="allow")
    assert set_property(catalog).status == 200


def update(rule: ChangeRule, **changed: Any) -> ChangeRule:
    content = {"name": rule.name, "configuration": rule.configuration} | changed
    return update_change_rule(
        actor=INTERNAL, rule_id=rule.pk, version=rule.version, content=RuleContent(**content), keeps_secret=True
    )


def test_a_receiver_that_hangs_costs_its_timeout_once(
    catalog: ApiClient, create_table: CreateTable, receiver: Recorder, create_hook: CreateRule,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    create_table("t")
    create_hook()
    is_over = Event()

    def hang(*_: Any) -> Reply:
        is_over.wait(30)
        return reply(ALLOWED)

    receiver.answerer = hang
    started = time.monotonic()
    assert set_property(catalog).refused(409, "ContractViolation", "the hook did not respond within 0.5 s")
    assert time.monotonic() - started < 20, "the receiver hangs for 30 s"
    for _ in range(5):
        refused = set_property(catalog)
        assert refused.refused(409, "ContractViolation", "the hook failed before and is not asked for another")
    assert len(receiver.requests) == 1
    is_over.set()
    respond(receiver, reply(ALLOWED))
    monkeypatch.setattr(hook_client, "time", ShiftedTime(31))
    assert set_property(catalog).status == 200, "one probe after the pause"
    assert set_property(catalog, "c").status == 200
    assert len(receiver.requests) == 3


class ShiftedTime:
    """The module `time`, some seconds ahead."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def monotonic(self) -> float:
        return time.monotonic() + self._seconds

    def time(self) -> float:
        return time.time()


def test_dripping_responses_end_with_the_timeout(
    catalog: ApiClient, create_table: CreateTable, receiver: Recorder, create_hook: CreateRule
) -> None:
    create_table("t")
    create_hook(on_failure="allow")
    respond(receiver, reply(b" " * 1000 + b'{"allowed": false}', pause=0.05))
    started = time.monotonic()
    assert set_property(catalog).status == 200
    assert time.monotonic() - started < 20, "the whole response takes 50 s"


def test_failures_in_a_row_pause_the_hook_and_a_success_ends_the_row(
    catalog: ApiClient, create_table: CreateTable, receiver: Recorder, create_hook: CreateRule
) -> None:
    create_table("t")
    rule = create_hook()
    failed, allowed = reply(ALLOWED, 500), reply(ALLOWED)
    respond(receiver, failed, failed, allowed, failed, failed, failed, allowed)
    results = [set_property(catalog, str(number)).status for number in range(8)]
    assert results == [409, 409, 200, 409, 409, 409, 409, 409]
    assert len(receiver.requests) == 6
    update(rule)
    assert set_property(catalog, "x").status == 200, "an updated rule begins without failures"


def test_a_slow_receiver_occupies_few_threads() -> None:
    """The others fail at once, with the message that they wait for the hook."""
    slow, is_over = Receiver(), Event()

    def ask() -> str:
        try:
            with slow.admit(0.3):
                is_over.wait(10)
        except HookFailed as error:
            return str(error)
        return "asked"

    with ThreadPoolExecutor(40) as pool:
        asked = [pool.submit(ask) for _ in range(40)]
        time.sleep(0.6)
        rejected = [each.result() for each in asked if each.done()]
        is_over.set()
        results = [each.result() for each in asked]
    assert results.count("asked") == hook_client.MAX_CONCURRENT
    assert len(rejected) == 40 - hook_client.MAX_CONCURRENT
    assert set(rejected) <= {"too many requests wait for the hook", "too many requests to hooks are running"}


def test_one_probe_goes_first_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, is_over = Receiver(), Event()
    with pytest.raises(HookFailed), tried.admit(1):
        raise hook_client._TimedOut("late")
    monkeypatch.setattr(hook_client, "time", ShiftedTime(31))

    def ask() -> bool:
        try:
            with tried.admit(1):
                is_over.wait(10)
        except HookFailed:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask) for _ in range(4)]
        time.sleep(0.2)
        is_over.set()
        assert sorted(each.result() for each in asked) == [False, False, False, True]


@pytest.mark.parametrize("seconds", [0.3, 1.5], ids=["before a connection would time out", "after it"])
def test_the_deadline_of_the_request_is_the_limit_and_no_failure_of_the_hook(
    seconds: float, receiver: Recorder
) -> None:
    is_over, asked = Event(), Receiver()

    def hang(*_: Any) -> Reply:
        is_over.wait(30)
        return reply(ALLOWED)

    def ask(timeout: float) -> str | None:
        return hook_client.ask(
            receiver.endpoint, b"{}", message_id="1", secret_id=None, timeout=timeout, receiver=asked
        )

    receiver.answerer = hang
    started = time.monotonic()
    with deadline(time.monotonic() + seconds), pytest.raises(RequestTimeout):
        ask(10)
    assert time.monotonic() - started < 9, "the timeout of the hook is 10 s"
    is_over.set()
    respond(receiver, reply(ALLOWED))
    assert ask(10) is None, "the hook is not paused"
    is_over.clear()
    receiver.answerer = hang
    with deadline(time.monotonic() + 30), pytest.raises(HookFailed, match=r"did not respond within 0\.2 s"):
        ask(0.2)
    is_over.set()
    with pytest.raises(HookFailed, match="is not asked for another"):
        ask(0.2)


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest", "http://metadata.google.internal/"])
def test_forbidden_addresses(url: str, receiver: Recorder, create_rule: CreateRule) -> None:
    with pytest.raises(EndpointNotPermitted, match=r"configuration\.url"):
        create_rule("http-hook", {"url": url})


def test_an_address_that_is_forbidden_later_is_not_asked(
    catalog: ApiClient, create_table: CreateTable, receiver: Recorder, create_hook: CreateRule,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    create_table("t")
    create_hook()
    endpoints = settings.ICEKEEPER.storage.model_copy(update={"allow_private_endpoints": False})
    use_settings(monkeypatch, storage=endpoints)
    assert set_property(catalog).refused(409, "ContractViolation", "private networks are not allowed")
    assert receiver.requests == []


def test_no_transaction_is_open_while_a_hook_is_asked(
    catalog: ApiClient, create_table: CreateTable, receiver: Recorder, create_hook: CreateRule,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Of all writes: the depth of blocks is the one of the test itself."""
    create_table("t")
    create_hook()
    depth, seen = len(connections["default"].savepoint_ids), []
    ask = hook_client._post

    def look(*arguments: Any) -> Any:
        seen.append(len(connections["default"].savepoint_ids))
        return ask(*arguments)

    monkeypatch.setattr(hook_client, "_post", look)
    to_u = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "u"}}
    assert set_property(catalog).status == 200
    change = {"identifier": {"namespace": ["ns"], "name": "t"}, "requirements": [], "updates": [
        {"action": "set-properties", "updates": {"x": "y"}}]}  # fmt: skip
    assert catalog.post("/transactions/commit", {"table-changes": [change]}).status == 204
    assert catalog.post("/tables/rename", to_u).status == 204
    assert catalog.post("/namespaces", {"namespace": ["n"]}).status == 200
    assert catalog.post("/namespaces/n/properties", {"updates": {"x": "y"}}).status == 200
    create_table("v")
    assert catalog.delete("/namespaces/ns/tables/u").status == 204
    assert catalog.delete("/namespaces/ns?recursive=true").status == 204
    assert seen == [depth] * 8


def test_what_is_dropped_together_is_one_question(
    catalog: ApiClient, create_table: CreateTable, receiver: Recorder, create_hook: CreateRule
) -> None:
    for name in ("a", "b", "c"):
        create_table(name)
    create_hook()
    assert catalog.delete("/namespaces/ns?recursive=true").status == 204
    (request,) = receiver.requests
    data = json.loads(request.body)["data"]
    assert (data["object-type"], data["contents"]) == ("namespace", {"count": 3, "first": ["ns.a", "ns.b", "ns.c"]})


def test_after_a_rejection_no_further_hook_is_asked(
    catalog: ApiClient, create_table: CreateTable, receiver: Recorder, create_rule: CreateRule
) -> None:
    create_table("t")
    for name, mode in (("one", "dry-run"), ("two", "enforce"), ("three", "enforce")):
        create_rule("http-hook", {"url": f"{receiver.endpoint}{name}"}, name=name, mode=mode)
    respond(receiver, reply(DENIED))
    refused = set_property(catalog)
    assert refused.error["message"] == "Rule 'two' rejects the change of table ns.t: ask the data office first"
    assert [each.target for each in receiver.requests] == ["/one", "/two"]
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    assert catalog.post(T, body, **{"x-icekeeper-override-rules": "agreed"}).status == 200
    assert [each.target for each in receiver.requests[2:]] == ["/one", "/two", "/three"]


def test_large_metadata_is_left_out(
    catalog: ApiClient, create_table: CreateTable, receiver: Recorder, create_hook: CreateRule,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    create_table("t")
    create_hook(configuration={"include-metadata": True})
    monkeypatch.setattr("catalog.services.approval.kinds.http_hook.MAX_BODY_BYTES", 1200)
    assert set_property(catalog).status == 200
    data = json.loads(receiver.requests[0].body)["data"]
    assert data["left-out"] == ["proposed-metadata", "current-metadata"]
    assert data["diff"]["properties"]["count"] == 1


def test_secrets_are_replaced_and_deleted(receiver: Recorder, create_hook: CreateRule) -> None:
    rule = create_hook(secret=SECRET)
    (stored,) = Secret.objects.all()
    assert b"very-secret" not in bytes(stored.ciphertext)
    rule = update(rule, secret=None)
    assert Secret.objects.get().pk == stored.pk, "it is kept"
    content = RuleContent(name=rule.name, configuration=rule.configuration, secret={"headers": {"X-Other": "1"}})
    rule = update_change_rule(
        actor=INTERNAL, rule_id=rule.pk, version=rule.version, content=content, keeps_secret=False
    )
    assert Secret.objects.get().pk == rule.secret_id != stored.pk
    content = RuleContent(name=rule.name, configuration=rule.configuration)
    update_change_rule(actor=INTERNAL, rule_id=rule.pk, version=rule.version, content=content, keeps_secret=False)
    assert Secret.objects.count() == 0


def test_a_secret_that_cannot_be_read_is_a_failure_of_the_hook(
    catalog: ApiClient, create_table: CreateTable, receiver: Recorder, create_hook: CreateRule,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    create_table("t")
    reads = []

    def fail(secret_id: object) -> Any:
        reads.append(secret_id)
        raise SecretUnreadable("very-secret")

    monkeypatch.setattr(hook_client, "read_secret", fail)
    rule = create_hook(secret=SECRET, mode="dry-run")
    assert set_property(catalog).status == 200
    rule = update(rule, on_failure="allow")
    assert set_property(catalog, "c").status == 200
    rule = update(rule)
    for _ in range(hook_client.MAX_FAILURES):
        refused = set_property(catalog, "d")
        assert refused.refused(409, "ContractViolation", "the secret of the hook cannot be read")
        assert b"very-secret" not in refused.body
    assert set_property(catalog, "d").refused(409, "ContractViolation", "is not asked for another")
    assert (len(reads), receiver.requests) == (2 + hook_client.MAX_FAILURES, [])


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        ({"signing-secrets": ["short"]}, r"secret.signing-secrets: must be whsec_ and 24 to 64 random bytes"),
        (
            {"signing-secrets": [SIGNING_SECRET] * 3},
            "secret.signing-secrets: list should have at most 2 items",
        ),
        ({"headers": {"Host": "a"}}, "secret.headers: the header Host is set by the server"),
        ({"headers": {"X-A": "a\r\nX-B: b"}}, "secret.headers: the value of the header X-A must be"),
        ({"password": "x"}, "secret.password: extra inputs are not permitted"),
    ],
)
def test_invalid_secrets(secret: dict[str, Any], message: str, create_hook: CreateRule) -> None:
    with pytest.raises(InvalidRule, match=message):
        create_hook(secret=secret)


def test_a_receiver_has_one_state_for_each_version() -> None:
    rule_id = uuid4()
    state = hook_client.receiver_of(rule_id, 1, Purpose.WRITES)
    assert state is hook_client.receiver_of(rule_id, 1, Purpose.WRITES)
    assert state is not hook_client.receiver_of(rule_id, 2, Purpose.WRITES)


def test_an_evaluation_does_not_pause_the_hook_for_writes(
    catalog: ApiClient, create_table: CreateTable, receiver: Recorder, create_hook: CreateRule, rules: ApiClient
) -> None:
    uuid = create_table("t")["metadata"]["table-uuid"]
    rule = create_hook()
    respond(receiver, reply(ALLOWED, 500))
    question = {"warehouse-id": catalog.base.rpartition("/")[2], "table-id": uuid, "updates": []}
    for _ in range(hook_client.MAX_FAILURES):
        found = rules.post(f"/{rule.pk}/test", question).json()
        assert found == {"allowed": False, "violations": [], "failure": "the hook responded with status 500"}
    assert "is not asked for another" in rules.post(f"/{rule.pk}/test", question).json()["failure"]
    respond(receiver, reply(ALLOWED))
    assert set_property(catalog).status == 200
