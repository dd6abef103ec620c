"""The API of event sinks: their configuration, filters, versions, secrets and permissions."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from events.models import DeadLetter, EventSink
from events.services import sinks as services
from icekeeper.kernel.ids import new_id, parse_id
from storage.models import Secret, Warehouse
from storage.secrets.port import SecretMissing
from storage.secrets.stores import read_secret
from tenancy.authz.actions import Can
from tenancy.models import AuditRecord, OutboxEvent, OutboxState
from tests.events.event_fixtures import publish_everything, update
from tests.harness.fingerprint import Fingerprint
from tests.harness.threads import at_once
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.event_sink_fixtures import (
    LOG,
    SECRET_NAMES,
    SECRETS,
    WEBHOOK,
    WEBHOOK_WITH_SECRETS,
    api,
    create_sink,
    read_sink,
)
from tests.management.warehouse_request_fixtures import keep_secrets, refuse, use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("bootstrapped"), pytest.mark.both_databases]
in_threads = pytest.mark.django_db(transaction=True, serialized_rollback=True)

Everything = Callable[[], Fingerprint]
MISSING = "0198e0f4-3f6e-7c31-8c7d-000000000000"
PROJECT = "00000000-0000-0000-0000-000000000000"
NO_CONFIGURATION = "InvalidEventSinkConfiguration"


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_secrets(monkeypatch)


def put(sink: dict[str, Any], **changed: Any) -> Response:
    return api.put(f"/{sink['id']}", sink | changed)


def actions() -> list[str]:
    return list(
        AuditRecord.objects.filter(object_type="event-sink").order_by("at", "id").values_list("event", flat=True)
    )


# --- create, list, get ------------------------------------------------------------------------------------------------


def test_a_sink_is_created_and_read() -> None:
    update("a", "b")
    newest = publish_everything()
    created = create_sink("pipeline", WEBHOOK_WITH_SECRETS, payload="ids", filter={"types": ["updateTable"]})
    assert parse_id(created["id"]) is not None
    assert created == {
        "id": created["id"],
        "name": "pipeline",
        "type": "webhook",
        "configuration": {
            **WEBHOOK,
            "mode": "structured",
            "concurrency": 8,
            "timeout-seconds": 10.0,
            "configured-secrets": SECRET_NAMES,
        },
        "filter": {"types": ["updateTable"]},
        "payload": "ids",
        "version": 1,
        "is-from-settings": False,
        "created-at": created["created-at"],
        "updated-at": created["updated-at"],
        "delivery": {
            "status": "delivering",
            "position": newest,
            "lag": 1,
            "lag-seconds": created["delivery"]["lag-seconds"],
            "delivered": 0,
            "failures": 0,
            "dead-letters": 0,
        },
    }
    found = read_sink(created)
    assert found | {"delivery": None} == created | {"delivery": None}
    row = EventSink.objects.get()
    assert row.secret_id is not None
    assert read_secret(row.secret_id) == {
        "query": f"key={SECRETS[1]}",
        "headers": {"Authorization": SECRETS[0]},
        "signing-secrets": [SECRETS[2]],
    }


def test_sinks_are_listed_by_name() -> None:
    for name in ("b", "c", "a"):
        create_sink(name, WEBHOOK_WITH_SECRETS)
    response = api.get()
    assert [each["name"] for each in response.json()["event-sinks"]] == ["a", "b", "c"]
    assert [each["configuration"]["configured-secrets"] for each in response.json()["event-sinks"]] == [
        SECRET_NAMES
    ] * 3


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ({"from": "latest"}, "newest"),
        ({"from": "earliest"}, "deleted"),
        ({"time": "1970-01-01T00:00:00Z"}, "deleted"),
        ({"time": "8999-12-31T23:00:00Z"}, "newest"),
        (None, "newest"),
    ],
)
def test_deliveries_begin_where_the_request_says(start: dict[str, Any] | None, expected: str) -> None:
    update("a", "b", "c")
    newest = publish_everything()
    OutboxState.objects.update(deleted_through=newest - 2)
    OutboxEvent.objects.filter(position__lte=newest - 2).delete()
    created = create_sink(**({} if start is None else {"start": start}))
    assert created["delivery"]["position"] == {"newest": newest, "deleted": newest - 2}[expected]


def test_a_paused_sink_and_one_without_a_worker_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    paused = create_sink("paused", is_paused=True)
    assert paused["delivery"]["status"] == "paused"
    sink = create_sink("sink")
    publish_everything()
    EventSink.objects.update(position=publish_everything())
    assert read_sink(sink)["delivery"]["status"] == "up-to-date"
    EventSink.objects.update(failures=3, last_error="the webhook responded with status 500")
    found = read_sink(sink)["delivery"]
    assert (found["status"], found["failures"], found["last-error"]) == (
        "failing",
        3,
        "the webhook responded with status 500",
    )
    monkeypatch.setattr("events.selectors.sinks.CLAIM_SECONDS", -60.0)
    assert read_sink(sink)["delivery"]["status"] == "stopped"
    assert read_sink(paused)["delivery"]["status"] == "paused"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "name"),
        ({"name": "a"}, "configuration"),
        ({"name": 1, "configuration": LOG}, "name"),
        ({"name": "", "configuration": LOG}, "name"),
        ({"name": " a", "configuration": LOG}, "name: must not begin"),
        ({"name": "a" * 129, "configuration": LOG}, "name: longer than 128 characters"),
        ({"name": "a\u0000", "configuration": LOG}, "name"),
        ({"name": "a", "configuration": [LOG]}, "configuration"),
        ({"name": "a", "configuration": LOG, "payload": "everything"}, "payload: must be one of full, summary, ids"),
        ({"name": "a", "configuration": LOG, "is-paused": "yes"}, "is-paused"),
        ({"name": "a", "configuration": LOG, "filtr": {}}, "filtr"),
        ({"name": "a", "configuration": LOG, "start": {}}, "start: exactly one of position, time and from"),
        ({"name": "a", "configuration": LOG, "start": {"position": 0, "from": "latest"}}, "start: exactly one of"),
        ({"name": "a", "configuration": LOG, "start": {"from": "now"}}, "start.from"),
        ({"name": "a", "configuration": LOG, "start": {"time": "9500-01-01T00:00:00Z"}}, "start: time: must be"),
        ({"name": "a", "configuration": LOG, "start": {"time": "0001-01-01T00:00:00+01:00"}}, "start"),
        ({"name": "a", "configuration": LOG, "start": {"time": "yesterday"}}, "start.time"),
        ({"name": "a", "configuration": LOG, "start": {"position": True}}, "start.position"),
        ({"name": "a", "configuration": LOG, "start": {"position": 2**62}}, "position: must be from 0 to"),
        ({"name": "a", "configuration": LOG, "start": {"position": 2**62 + 1}}, "start.position"),
        ({"name": "a", "configuration": LOG, "start": {"position": -1}}, "start.position"),
    ],
)
def test_invalid_requests_change_nothing(body: dict[str, Any], message: str, everything: Everything) -> None:
    before = everything()
    assert api.post("", body).refused(400, "BadRequestException", message)
    assert everything() == before


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({}, "type: must be one of nats, kafka, webhook, log"),
        ({"type": ["log"]}, "type: must be one of"),
        ({"type": "log", "x" * 3000: 1}, f"{'x' * 100}: Extra inputs"),
        ({"type": "webhook"}, "url: Field required"),
        (WEBHOOK | {"url": "https://hidden@127.0.0.1/"}, "url: must be an http or https URL"),
        (WEBHOOK | {"url": "https://127.0.0.1/?key=hidden"}, "url: must not contain a query"),
        (WEBHOOK | {"mode": "hidden"}, "mode: Input should be"),
        (WEBHOOK | {"headers": {"a\nhidden": "b"}}, "headers"),
        (WEBHOOK | {"headers": {"a": "hidden\n"}}, "headers"),
        (WEBHOOK | {"signing-secrets": ["hidden"]}, "signing-secrets"),
        (WEBHOOK | {"timeout-seconds": 61}, "timeout-seconds"),
        ({"type": "nats", "addresses": ["nats://hidden:hidden@127.0.0.1"], "subject": "a"}, "addresses.0"),
        ({"type": "nats", "addresses": ["127.0.0.1"], "subject": "a.*"}, "subject"),
        ({"type": "nats", "addresses": ["127.0.0.1"], "subject": "a", "user": "u\u0000"}, "user: must be text"),
        ({"type": "nats", "addresses": ["127.0.0.1"], "subject": "a", "password": "hidden"}, "user and password"),
        ({"type": "kafka", "topic": "t", "settings": {}}, "bootstrap.servers is missing"),
        (
            {
                "type": "kafka",
                "topic": "t",
                "settings": {"bootstrap.servers": "127.0.0.1", "plugin.library.paths": "h"},
            },
            "plugin.library.paths is not a setting that the API allows",
        ),
    ],
)
def test_invalid_configurations_are_explained_without_values(
    configuration: dict[str, Any], message: str, everything: Everything, caplog: pytest.LogCaptureFixture
) -> None:
    before = everything()
    response = api.post("", {"name": "a", "configuration": configuration})
    assert response.refused(400, NO_CONFIGURATION, message)
    assert b"hidden" not in response.body.replace(b"a\\nhidden", b"")
    assert len(response.body) < 1500
    assert everything() == before


def test_addresses_are_checked_as_those_of_stores(monkeypatch: pytest.MonkeyPatch, everything: Everything) -> None:
    before = everything()
    metadata = {"type": "webhook", "url": "http://169.254.169.254/latest"}
    assert api.post("", {"name": "a", "configuration": metadata}).refused(400, "EndpointNotPermitted", "url")
    strict = settings.ICEKEEPER.storage.model_copy(
        update={"allow_private_endpoints": False, "allow_http_endpoints": False}
    )
    use_settings(monkeypatch, storage=strict)
    for configuration, member in (
        (WEBHOOK, "url"),
        ({"type": "webhook", "url": "http://192.0.2.1/"}, "url"),
        ({"type": "nats", "addresses": ["tls://10.0.0.1:4222"], "subject": "a"}, "addresses"),
        ({"type": "kafka", "topic": "t", "settings": {"bootstrap.servers": "10.0.0.1:9092"}}, "bootstrap.servers"),
    ):
        assert api.post("", {"name": "a", "configuration": configuration}).refused(400, "EndpointNotPermitted", member)
    assert everything() == before


def test_names_of_hosts_must_be_resolved(monkeypatch: pytest.MonkeyPatch, everything: Everything) -> None:
    monkeypatch.setattr("storage.network.endpoints.resolve", lambda endpoint, seconds: None)
    before = everything()
    body = {"name": "a", "configuration": {"type": "webhook", "url": "https://hooks.example.com/"}}
    assert api.post("", body).refused(400, NO_CONFIGURATION, "url: the name of the host cannot be resolved")
    assert everything() == before


def test_a_name_is_unique(everything: Everything) -> None:
    create_sink("a", WEBHOOK_WITH_SECRETS)
    other = create_sink("b")
    before = everything()
    body = {"name": "a", "configuration": WEBHOOK_WITH_SECRETS}
    assert api.post("", body).refused(409, "EventSinkNameAlreadyExists", "a")
    assert put(other, name="a").refused(409, "EventSinkNameAlreadyExists", "a")
    assert everything() == before


@in_threads
def test_the_number_of_sinks_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MAX_SINKS", 3)
    for name in ("a", "b"):
        create_sink(name)

    def create(name: str) -> Callable[[], int]:
        return lambda: api.post("", {"name": name, "configuration": LOG}).status

    assert sorted(at_once(create("c"), create("d"))) == [201, 409]
    assert api.post("", {"name": "e", "configuration": LOG}).refused(409, "TooManyEventSinks", "at most 3")
    assert EventSink.objects.count() == 3


# --- filters ----------------------------------------------------------------------------------------------------------


def test_a_filter_is_stored_and_returned(warehouse: Warehouse) -> None:
    given = {
        "projects": [PROJECT],
        "warehouses": [str(warehouse.pk)],
        "namespaces": [["a", "b.c"], ["d"]],
        "types": ["createTable", "dropTable"],
    }
    assert create_sink(filter=given)["filter"] == given
    assert create_sink("all", filter={"types": [], "projects": []})["filter"] == {}


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            {"types": ["createTable", "created"]},
            "filter.types[1]: 'created' is not a type of events: /api-docs/events/v1/asyncapi.json lists them",
        ),
        ({"types": [None]}, "filter.types"),
        ({"types": "createTable"}, "filter.types"),
        ({"types": ["createTable"] * 101}, "filter.types"),
        ({"projects": ["nothing"]}, "filter.projects[0]: 'nothing' does not exist"),
        ({"projects": ["\u0000"]}, "filter.projects"),
        ({"warehouses": [MISSING]}, f"filter.warehouses[0]: '{MISSING}' does not exist"),
        ({"warehouses": ["x"]}, "filter.warehouses[0]: 'x' is not a UUID"),
        ({"warehouses": [1]}, "filter.warehouses"),
        ({"namespaces": ["a"]}, "filter.namespaces"),
        ({"namespaces": [["a"], []]}, "filter.namespaces[1]: must have from 1 to 32 levels"),
        ({"namespaces": [["a"] * 33]}, "filter.namespaces[0]: must have from 1 to 32 levels"),
        ({"namespaces": [["\u202e"]]}, "filter.namespaces[0]: character U+202E"),
        ({"namespace": [["a"]]}, "filter.namespace"),
        ([], "filter"),
    ],
)
def test_invalid_filters_name_the_member(wanted: Any, message: str, everything: Everything) -> None:
    sink = create_sink()
    before = everything()
    assert api.post("", {"name": "a", "configuration": LOG, "filter": wanted}).refused(
        400, "BadRequestException", message
    )
    assert put(sink, filter=wanted).refused(400, "BadRequestException", message)
    assert everything() == before


def test_a_filter_may_keep_what_was_deleted(warehouse: Warehouse) -> None:
    sink = create_sink(filter={"warehouses": [str(warehouse.pk)]})
    assert ApiClient("/management/v1").delete(f"/warehouse/{warehouse.pk}").status in {200, 204}
    assert put(sink, name="renamed").status == 200
    body = {"name": "b", "configuration": LOG, "filter": sink["filter"]}
    assert api.post("", body).refused(400, "BadRequestException", "filter.warehouses[0]")


# --- update and delete ------------------------------------------------------------------------------------------------


def test_the_response_of_a_get_can_be_changed_and_sent_back() -> None:
    sink = create_sink("a", WEBHOOK_WITH_SECRETS, filter={"types": ["createTable"]}, payload="ids")
    EventSink.objects.update(position=7, failures=2, delivered=5, lease=3)
    former = EventSink.objects.get()
    changed = put(read_sink(sink), name="b", payload="summary", filter={})
    assert changed.status == 200, changed.body
    expected = {"name": "b", "payload": "summary", "filter": {}, "version": 2}
    assert {name: changed.json()[name] for name in expected} == expected
    assert changed.json()["configuration"] == sink["configuration"]
    row = EventSink.objects.get()
    assert (row.position, row.failures, row.delivered, row.lease) == (7, 0, 5, 4)
    assert former.secret_id is not None
    assert row.secret_id not in {None, former.secret_id}
    assert row.secret_id is not None
    assert read_secret(row.secret_id)["query"] == f"key={SECRETS[1]}"
    with pytest.raises(SecretMissing):
        read_secret(former.secret_id)


def test_secrets_are_kept_replaced_and_removed() -> None:
    sink = create_sink("a", WEBHOOK_WITH_SECRETS)
    steps: list[tuple[dict[str, Any], list[str], dict[str, Any]]] = [
        (
            {"query": None},
            SECRET_NAMES[1:],
            {"headers": {"Authorization": SECRETS[0]}, "signing-secrets": [SECRETS[2]]},
        ),
        (
            {"headers": {"X-Key": "new"}, "signing-secrets": None},
            ["headers.Authorization", "headers.X-Key"],
            {"headers": {"Authorization": SECRETS[0], "X-Key": "new"}},
        ),
        ({"headers": {"Authorization": None}}, ["headers.X-Key"], {"headers": {"X-Key": "new"}}),
        ({"headers": None}, [], {}),
    ]
    for version, (changed, names, secrets) in enumerate(steps, 1):
        response = put(sink, version=version, configuration=WEBHOOK | changed)
        assert response.status == 200, response.body
        assert response.json()["configuration"]["configured-secrets"] == names
        secret_id = EventSink.objects.get().secret_id
        assert ({} if secret_id is None else read_secret(secret_id)) == secrets
    assert EventSink.objects.get().secret_id is None


def test_a_new_destination_needs_the_secrets_again(everything: Everything) -> None:
    """Otherwise an administrator of sinks could read a secret by sending it to a server of their own."""
    sink = create_sink("a", WEBHOOK_WITH_SECRETS)
    before = everything()
    elsewhere = WEBHOOK | {"url": "https://127.0.0.1:10/hook"}
    refused = put(sink, configuration=elsewhere)
    assert refused.refused(400, NO_CONFIGURATION, "headers.Authorization: must be given again")
    assert put(sink, configuration=elsewhere | {"query": None, "headers": None}).refused(
        400, NO_CONFIGURATION, "signing-secrets: must be given again"
    )
    assert everything() == before
    changed = put(sink, configuration=WEBHOOK_WITH_SECRETS | elsewhere)
    assert changed.status == 200, changed.body
    assert changed.json()["configuration"]["url"] == elsewhere["url"]


def test_another_version_is_a_conflict(everything: Everything) -> None:
    sink = create_sink("a", WEBHOOK_WITH_SECRETS)
    assert put(sink, name="b").status == 200
    before = everything()
    assert put(sink, name="c").refused(409, "EventSinkChanged", "version 2")
    for version in (None, 0, "2", True):
        assert put(sink, name="c", version=version).refused(400, "BadRequestException", "version")
    assert everything() == before


@in_threads
def test_one_of_two_concurrent_updates_succeeds() -> None:
    sink = create_sink("a", WEBHOOK_WITH_SECRETS)
    responses = at_once(lambda: put(sink, name="b"), lambda: put(sink, name="c"))
    assert sorted(each.status for each in responses) == [200, 409]
    row = EventSink.objects.get()
    assert (row.version, row.name) == (2, next(each for each in responses if each.status == 200).json()["name"])
    assert row.secret_id is not None
    assert read_secret(row.secret_id)["signing-secrets"] == [SECRETS[2]]
    assert Secret.objects.count() == 1


@pytest.mark.parametrize("missing", ["name", "configuration", "filter", "payload", "version"])
def test_an_update_needs_all_members(missing: str, everything: Everything) -> None:
    sink = create_sink()
    before = everything()
    body = {key: value for key, value in sink.items() if key != missing}
    assert api.put(f"/{sink['id']}", body).refused(400, "BadRequestException", missing)
    assert everything() == before


def test_the_type_cannot_be_changed(everything: Everything) -> None:
    sink = create_sink()
    before = everything()
    assert put(sink, configuration=WEBHOOK).refused(400, NO_CONFIGURATION, "type: the sink has the type log")
    assert everything() == before


def test_a_sink_is_deleted_with_its_secret_and_dead_letters() -> None:
    kept = create_sink("kept", WEBHOOK_WITH_SECRETS)
    sink = create_sink("a", WEBHOOK_WITH_SECRETS)
    row = EventSink.objects.get(name="a")
    DeadLetter.objects.create(sink=row, position=1, event_id=new_id(), type="t", object_key="k", error="e", event="{}")
    assert api.delete(f"/{sink['id']}").status == 204
    assert api.delete(f"/{sink['id']}").refused(404, "EventSinkNotFound", sink["id"])
    assert [each["id"] for each in api.get().json()["event-sinks"]] == [kept["id"]]
    assert not DeadLetter.objects.exists()
    assert row.secret_id is not None
    with pytest.raises(SecretMissing):
        read_secret(row.secret_id)


def test_sinks_of_the_settings_are_shown_and_not_updated(
    monkeypatch: pytest.MonkeyPatch, everything: Everything
) -> None:
    use_settings(monkeypatch, log_cloudevents=True)
    services.create_sinks_of_settings()
    (sink,) = api.get().json()["event-sinks"]
    assert (sink["name"], sink["type"], sink["is-from-settings"]) == ("log", "log", True)
    assert sink["configuration"] == {"type": "log", "configured-secrets": []}
    before = everything()
    assert put(sink, name="b").refused(409, "EventSinkOfSettings", "log")
    assert everything() == before
    use_settings(monkeypatch, log_cloudevents=None)
    assert read_sink(sink)["configuration"] == {"type": "log", "configured-secrets": []}
    assert api.delete(f"/{sink['id']}").status == 204


# --- what is recorded, and permissions --------------------------------------------------------------------------------


def test_secrets_are_in_no_response_record_event_or_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    sink = create_sink("a", WEBHOOK_WITH_SECRETS)
    changed = put(sink, name="b", configuration=WEBHOOK_WITH_SECRETS | {"query": "key=hidden-3"})
    failed = api.post(f"/{sink['id']}/test")
    assert failed.refused(502, "EventNotDelivered", "The test event was not delivered: the webhook ")
    listed = api.get()
    api.delete(f"/{sink['id']}")
    assert actions() == ["event-sink.created", "event-sink.updated", "event-sink.deleted"]
    records = list(AuditRecord.objects.values_list("details", flat=True))
    events = list(OutboxEvent.objects.values_list("data", "names"))
    seen = str([sink, changed.body, failed.body, listed.body, records, events, caplog.text, caplog.records])
    for secret in (*SECRETS, "hidden"):
        assert secret not in seen
    assert "127.0.0.1:9" in str(records)


def test_every_operation_needs_the_permission(monkeypatch: pytest.MonkeyPatch, everything: Everything) -> None:
    sink = create_sink()
    before = everything()
    refuse(monkeypatch, *(set(Can) - {Can.MANAGE_EVENT_SINKS}))
    own = f"/{sink['id']}"
    for response in (
        api.get(),
        api.get(own),
        api.get(f"{own}/dead-letters"),
        api.get(f"{own}/dead-letters/1"),
        api.post("", {"name": "b", "configuration": LOG}),
        put(sink, name="b"),
        api.delete(own),
        *(api.post(f"{own}/{action}", {}) for action in ("pause", "resume", "skip", "test")),
        api.post(f"{own}/replay", {"from": "earliest"}),
        api.post(f"{own}/dead-letters/redeliver", {}),
        api.post(f"{own}/dead-letters/delete", {}),
        api.get(f"/{MISSING}"),
        api.post(f"/{MISSING}/pause"),
    ):
        assert response.refused(403, "ServerActionForbidden"), response.body
    assert everything() == before


def test_unknown_sinks_are_not_found(everything: Everything) -> None:
    sink = create_sink()
    before = everything()
    for own in (f"/{MISSING}", "/x", "/%0A", f"/{'a' * 3000}"):
        for response in (
            api.get(own),
            api.get(f"{own}/dead-letters"),
            api.get(f"{own}/dead-letters/1"),
            api.put(own, sink),
            api.delete(own),
            *(api.post(f"{own}/{action}", {}) for action in ("pause", "resume", "skip", "test")),
            api.post(f"{own}/replay", {"from": "earliest"}),
            api.post(f"{own}/dead-letters/redeliver", {}),
            api.post(f"{own}/dead-letters/delete", {}),
        ):
            assert response.refused(404, "EventSinkNotFound"), response.body
            assert len(response.body) < 500
    assert everything() == before
