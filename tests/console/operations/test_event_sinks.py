"""Event sinks in the console: list, page, forms with secrets that are only written, and questions before changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest

from events.models import DeadLetter, EventSink
from events.services.sinks import SinkSettings, create_sink
from events.sinks.port import DeliveryError
from storage.models import Warehouse
from storage.secrets.stores import read_secret
from tenancy.actor import INTERNAL
from tenancy.models import AuditRecord, Project
from tests.console.conftest import Open
from tests.console.sign_in.browser import Browser, Page
from tests.console.test_rights import Ids, grants, ids  # noqa: F401 - fixtures
from tests.events.event_fixtures import SinkInMemory, accept, publish_everything, update
from tests.harness.fingerprint import Fingerprint
from tests.management.warehouse_request_fixtures import keep_secrets

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.both_databases]

Everything = Callable[[], Fingerprint]
SECRET = "Bearer s3cr3t-1"
URL = "https://127.0.0.1:9/hook"
FORM = {"action": "save", "name": "pipeline", "url": URL, "mode": "binary", "concurrency": "4", "payload": "ids"}


@pytest.fixture
def admin(grants: None, open_as: Open, monkeypatch: pytest.MonkeyPatch) -> Browser:  # noqa: F811
    keep_secrets(monkeypatch)
    monkeypatch.setattr("tenancy.authz.permissions.is_instance_admin", lambda actor: actor.user_id == "oidc~instance")
    return open_as("instance")


def shown(number: int) -> str:
    """Return a number as the text of a page has it."""
    return f"{number:,}".replace(",", " ")


@pytest.fixture
def sink(admin: Browser) -> EventSink:
    update("before")
    publish_everything()
    configuration = {"type": "webhook", "url": URL, "headers": {"Authorization": SECRET}, "query": "key=s3cr3t-2"}
    return create_sink(actor=INTERNAL, wanted=SinkSettings(name="pipeline", configuration=configuration))


def at(sink: EventSink, page: str = "") -> str:
    return f"/ui/event-sink/{sink.pk}/{page}"


def main_text(page: Page) -> str:
    """Return the text of a page without its markup."""
    assert page.status in {200, 400, 409}, page.text[:2000]
    text = re.sub(r"<[^>]+>", " ", page.text.partition('id="ik-main"')[2])
    return re.sub(r"\s+", " ", unescape(text))


def letter(sink: EventSink, position: int = 7) -> DeadLetter:
    return DeadLetter.objects.create(
        sink=sink, position=position, event_id=sink.pk, type="updateTable", object_key="table:a",
        error="the webhook responded with status 422", event='{"type": "updateTable", "subject": "<a>"}',
    )  # fmt: skip


# --- list and page ----------------------------------------------------------------------------------------------------


def test_the_list_shows_the_progress(admin: Browser, sink: EventSink) -> None:
    letter(sink)
    EventSink.objects.update(failures=2, last_error="the webhook responded with status 503", position=1)
    lag = publish_everything() - 1
    text = main_text(admin.get("/ui/event-sink/"))
    assert re.search(rf"pipeline Webhook failing 1 {shown(lag)} .* ago 1 the webhook responded with status 503", text)
    part = admin.get("/ui/event-sink/?part=list")
    assert part.text.startswith("{#") is False
    assert "<html" not in part.text
    assert at(sink) in part.text


def test_a_server_without_sinks_says_what_they_are_for(admin: Browser) -> None:
    assert "A sink sends events to a webhook, NATS, Kafka or the log." in main_text(admin.get("/ui/event-sink/"))


def test_the_page_has_no_secrets(admin: Browser, sink: EventSink) -> None:
    letter(sink)
    for page in ("", "edit/", "replay/", "skip/", "delete/", "dead-letters/delete/", "dead-letter/7/", "?part=live"):
        shown = admin.get(at(sink, page))
        assert shown.status == 200, page
        assert "s3cr3t" not in shown.text, page
    text = main_text(admin.get(at(sink)))
    assert '"configured-secrets": [ "query", "headers.Authorization" ]' in text
    assert "none: all events" in text


def test_overviews_name_sinks_that_need_attention(
    admin: Browser, sink: EventSink, open_as: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "pipeline" not in main_text(admin.get("/ui/"))
    letter(sink)
    assert "Events were rejected by pipeline 1 dead letter" in main_text(admin.get("/ui/"))
    EventSink.objects.update(failures=1, last_error="status 503")
    text = main_text(admin.get("/ui/"))
    assert re.search(r"Events are not delivered to pipeline for .*, the last error is status 503", text)
    monkeypatch.setattr("events.selectors.sinks.CLAIM_SECONDS", -60.0)
    assert "No worker delivers events to pipeline" in main_text(admin.get("/ui/"))
    assert "pipeline" not in main_text(open_as("lead").get("/ui/"))


def test_only_who_manages_sinks_has_the_entry(admin: Browser, open_as: Open) -> None:
    assert 'href="/ui/event-sink/"' in admin.get("/ui/").text
    page = open_as("lead").get("/ui/")
    assert 'href="/ui/event-sink/"' not in page.text
    assert 'href="/ui/event/"' in page.text
    assert 'href="/ui/event/"' not in open_as("engineer").get("/ui/").text


# --- forms ------------------------------------------------------------------------------------------------------------


def test_a_webhook_is_created(admin: Browser, warehouse: Warehouse) -> None:
    fields = FORM | {
        "headers": f"Authorization: {SECRET}\r\nX-Key:a:b", "query": "key=s3cr3t-2", "timeout-seconds": "2.5",
        "projects": Project.objects.get().pk, "warehouses": str(warehouse.pk), "namespaces": "a.b\r\n\r\nc\\.d",
        "types": "updateTable\r\ndropTable", "start": "earliest",
    }  # fmt: skip
    created = admin.post("/ui/event-sink/add/?type=webhook", fields)
    row = EventSink.objects.get()
    assert (created.status, created.header("Location")) == (302, at(row))
    assert row.configuration == {
        "type": "webhook", "url": URL, "mode": "binary", "concurrency": 4, "timeout-seconds": 2.5,
    }  # fmt: skip
    assert row.secret_id is not None
    assert read_secret(row.secret_id) == {
        "headers": {"Authorization": SECRET, "X-Key": "a:b"}, "query": "key=s3cr3t-2",
    }  # fmt: skip
    assert row.filter == {
        "projects": [warehouse.project_id], "warehouses": [str(warehouse.pk)], "namespaces": [["a", "b"], ["c.d"]],
        "types": ["updateTable", "dropTable"],
    }  # fmt: skip
    assert (row.payload, row.position) == ("ids", 0)
    assert "Event sink pipeline is created." in main_text(admin.get(at(row)))


@pytest.mark.parametrize(
    ("kind", "fields", "configuration", "secrets"),
    [
        ("log", {}, {"type": "log"}, {}),
        (
            "nats",
            {"addresses": "127.0.0.1\ntls://127.0.0.1:1", "subject": "a.b", "jetstream": "true", "token": "s3cr3t"},
            {
                "type": "nats", "addresses": ["nats://127.0.0.1:4222", "tls://127.0.0.1:1"], "subject": "a.b",
                "jetstream": True, "timeout-seconds": 10.0,
            },
            {"token": "s3cr3t"},
        ),
        (
            "kafka",
            {
                "topic": "t", "settings": "bootstrap.servers=127.0.0.1:9092\nclient.id = a=b",
                "secret-settings": "sasl.password=s3cr3t", "timeout-seconds": "5",
            },
            {
                "type": "kafka", "topic": "t", "timeout-seconds": 5.0,
                "settings": {"bootstrap.servers": "127.0.0.1:9092", "client.id": "a=b"},
            },
            {"settings": {"sasl.password": "s3cr3t"}},
        ),
    ],
)  # fmt: skip
def test_each_type_has_its_form(
    admin: Browser, kind: str, fields: dict[str, str], configuration: dict[str, Any], secrets: dict[str, Any]
) -> None:
    sent = {"action": "save", "name": "new", "payload": "full", "start": "latest", **fields}
    assert admin.post(f"/ui/event-sink/add/?type={kind}", sent).status == 302
    row = EventSink.objects.get()
    assert row.configuration == configuration
    assert ({} if row.secret_id is None else read_secret(row.secret_id)) == secrets
    assert row.filter == {}
    edit = admin.get(at(row, "edit/"))
    assert "s3cr3t" not in edit.text
    again = admin.post(at(row, "edit/"), {**sent, "version": "1", "token": "", "secret-settings": ""})
    assert again.status == 302, main_text(again)
    row = EventSink.objects.get()
    assert row.configuration == configuration
    assert ({} if row.secret_id is None else read_secret(row.secret_id)) == secrets


def test_the_type_is_chosen_with_what_was_entered(admin: Browser) -> None:
    page = admin.post("/ui/event-sink/add/?type=nats", {"action": "show", "name": "lake", "subject": "x"})
    assert page.status == 200
    assert 'value="lake"' in page.text
    assert 'name="subject"' in page.text
    assert 'name="url"' not in page.text
    assert 'name="version"' not in page.text
    assert "Stored secrets stay" not in page.text
    assert admin.get("/ui/event-sink/add/?type=mail").status == 400


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": ""}, "Invalid name: must not be empty"),
        ({"url": "ftp://x"}, "Must be an http or https URL"),
        ({"concurrency": "many"}, "Must be a number"),
        ({"timeout-seconds": "nan"}, "Must be a number"),
        ({"headers": "s3cr3t-header"}, "Each line has a name, “:” and a value"),
        ({"signing-secrets": "s3cr3t-secret"}, "Signing-secrets.0: must be whsec_"),
        ({"warehouses": "x"}, "Must be some of the choices"),
        ({"types": "created"}, "Filter.types[0]: 'created' is not a type of events"),
        ({"payload": "all"}, "Must be one of the choices"),
        ({"start": "now"}, "Must be one of the choices"),
    ],
)
def test_errors_keep_what_was_entered_but_no_secrets(
    admin: Browser, changed: dict[str, str], message: str, everything: Everything
) -> None:
    before = everything()
    fields = {**FORM, "start": "latest", "query": "key=s3cr3t-2", "namespaces": "sales", **changed}
    page = admin.post("/ui/event-sink/add/?type=webhook", fields)
    assert page.status == 400
    assert message in main_text(page)
    assert "sales" in page.text
    assert not re.search("s3cr3t", page.text)
    assert everything() == before


def test_stored_secrets_are_kept_and_removed(admin: Browser, sink: EventSink) -> None:
    edit = admin.get(at(sink, "edit/"))
    assert 'name="remove" value="headers.Authorization"' in edit.text
    fields = {**FORM, "version": "1", "headers": "", "query": ""}
    assert admin.post(at(sink, "edit/"), fields).status == 302
    row = EventSink.objects.get()
    assert (row.version, row.secret_names) == (2, ["query", "headers.Authorization"])
    removed = {**fields, "version": "2", "remove": ["query", "headers.Authorization"], "headers": "X-Key: new"}
    assert admin.post(at(sink, "edit/"), removed).status == 302
    row = EventSink.objects.get()
    assert row.secret_id is not None
    assert read_secret(row.secret_id) == {"headers": {"X-Key": "new"}}
    foreign = {**fields, "version": "3", "remove": "url"}
    assert admin.post(at(sink, "edit/"), foreign).status == 400


def test_a_change_by_another_user_is_not_overwritten(admin: Browser, sink: EventSink) -> None:
    fields = {**FORM, "version": "1", "name": "mine"}
    assert admin.post(at(sink, "edit/"), {**fields, "name": "theirs"}).status == 302
    page = admin.post(at(sink, "edit/"), fields)
    assert page.status == 409
    assert "What you entered is still in the form" in main_text(page)
    assert 'name="version" value="2"' in page.text
    assert 'value="mine"' in page.text
    assert EventSink.objects.get().name == "theirs"
    assert admin.post(at(sink, "edit/"), {**fields, "version": "2"}).status == 302
    assert EventSink.objects.get().name == "mine"
    for version in ("", "x", "-1", "9" * 30):
        assert admin.post(at(sink, "edit/"), {**fields, "version": version}).status == 400


def test_a_sink_of_the_settings_has_no_form(admin: Browser, sink: EventSink) -> None:
    EventSink.objects.update(is_from_settings=True)
    page = admin.get(at(sink))
    assert "Configured by the environment of the server" in main_text(page)
    assert at(sink, "edit/") not in page.text
    assert admin.get(at(sink, "edit/")).status == 409


# --- control ----------------------------------------------------------------------------------------------------------


def test_deliveries_are_paused_and_resumed(admin: Browser, sink: EventSink) -> None:
    assert admin.post(at(sink), {"action": "pause"}).status == 302
    assert EventSink.objects.get().is_paused
    page = admin.get(at(sink))
    assert "Deliveries to pipeline are paused." in main_text(page)
    assert 'value="resume"' in page.text
    assert 'value="pause"' not in page.text
    assert admin.post(at(sink), {"action": "resume"}).status == 302
    assert not EventSink.objects.get().is_paused
    EventSink.objects.update(failures=1, last_error="down")
    assert "Try now" in main_text(admin.get(at(sink)))


@pytest.mark.parametrize("error", [None, DeliveryError("the webhook responded with status 500")])
def test_a_test_event_is_sent(
    admin: Browser, sink: EventSink, error: DeliveryError | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = SinkInMemory(accept if error is None else lambda _: error, keeps_order=True)
    monkeypatch.setattr("events.services.sinks.open_sink_of", lambda row: receiver)
    page = admin.post(at(sink), {"action": "test"})
    if error is None:
        assert page.status == 302
        assert "pipeline accepted the test event." in main_text(admin.get(at(sink)))
    else:
        assert page.status == 409
        assert "The test event was not delivered: the webhook responded with status 500" in main_text(page)


def test_events_are_replayed_after_a_question(admin: Browser, sink: EventSink) -> None:
    update("a")
    newest = publish_everything()
    assert f"Events after 0, up to {shown(newest)}, are kept." in main_text(admin.get(at(sink, "replay/")))
    for start, expected in (
        ({"start": "earliest"}, 0),
        ({"start": "latest"}, newest),
        ({"start": "position", "position": "1"}, 1),
        ({"start": "time", "time": "1970-01-02T00:00"}, 0),
    ):
        assert admin.post(at(sink, "replay/"), {"action": "replay", **start}).status == 302
        assert EventSink.objects.get().position == expected
    for start, message in (
        ({"start": "position", "position": "x"}, "Must be a position"),
        ({"start": "position", "position": "9" * 19}, f"Must be from 0 to {newest}"),
        ({"start": "time", "time": "soon"}, "Must be a time"),
        ({}, "Choose where deliveries begin."),
    ):
        page = admin.post(at(sink, "replay/"), {"action": "replay", **start})
        assert page.status == 400
        assert message in main_text(page)
    assert EventSink.objects.get().position == 0


def test_an_event_is_skipped_after_a_question(admin: Browser, sink: EventSink) -> None:
    assert "The next event becomes a dead letter" in main_text(admin.get(at(sink, "skip/")))
    publish_everything()
    assert admin.post(at(sink, "skip/"), {"action": "delete"}).status == 302
    found = DeadLetter.objects.get()
    assert found.error == "Skipped by oidc~instance."
    assert EventSink.objects.get().position == found.position


def test_without_an_event_the_question_says_so(admin: Browser, sink: EventSink) -> None:
    EventSink.objects.update(position=publish_everything())
    page = admin.post(at(sink, "skip/"), {"action": "delete"})
    assert page.status == 409
    assert "has no event to deliver" in main_text(page)


def test_dead_letters_are_shown_sent_again_and_deleted(admin: Browser, sink: EventSink) -> None:
    letter(sink, 7), letter(sink, 8)
    shown = main_text(admin.get(at(sink, "dead-letter/7/")))
    assert "the webhook responded with status 422" in shown
    assert '"subject": "<a>"' in shown
    assert admin.post(at(sink, "dead-letter/7/"), {"action": "redeliver"}).status == 302
    assert list(DeadLetter.objects.order_by("position").values_list("is_redelivered", flat=True)) == [True, False]
    assert "1 event is sent again." in main_text(admin.get(at(sink)))
    assert admin.post(at(sink), {"action": "redeliver"}).status == 302
    assert "2 events are sent again." in main_text(admin.get(at(sink)))
    assert "Delete dead letter 8?" in main_text(admin.get(at(sink, "dead-letters/delete/?position=8")))
    assert admin.post(at(sink, "dead-letters/delete/?position=8"), {"action": "delete"}).status == 302
    assert DeadLetter.objects.get().position == 7
    assert admin.post(at(sink, "dead-letters/delete/"), {"action": "delete"}).status == 302
    assert not DeadLetter.objects.exists()
    assert admin.get(at(sink, "dead-letter/7/")).status == 404
    assert admin.get(at(sink, f"dead-letter/{9**30}/")).status == 404
    assert admin.get(at(sink, "dead-letters/delete/?position=x")).status == 400


def test_a_sink_is_deleted_with_its_name(admin: Browser, sink: EventSink) -> None:
    wrong = admin.post(at(sink, "delete/"), {"action": "delete", "typed_name": "other"})
    assert wrong.status == 400
    assert EventSink.objects.exists()
    done = admin.post(at(sink, "delete/"), {"action": "delete", "typed_name": "pipeline"})
    assert (done.status, done.header("Location")) == (302, "/ui/event-sink/")
    assert not EventSink.objects.exists()
    record = AuditRecord.objects.get(event="event-sink.deleted")
    assert record.actor == "oidc~instance"


def test_forms_need_the_permission(admin: Browser, sink: EventSink, open_as: Open, everything: Everything) -> None:
    letter(sink)
    before = everything()
    lead = open_as("lead")
    before = everything()
    for page, fields in (
        ("", {"action": "pause"}), ("", {"action": "resume"}), ("", {"action": "test"}), ("", {"action": "redeliver"}),
        ("edit/", {**FORM, "version": "1"}), ("replay/", {"action": "replay", "start": "latest"}),
        ("skip/", {"action": "delete"}), ("delete/", {"action": "delete", "typed_name": "pipeline"}),
        ("dead-letters/delete/", {"action": "delete"}), ("dead-letter/7/", {"action": "redeliver"}),
    ):  # fmt: skip
        assert lead.post(at(sink, page), fields).status == 403, page
    assert lead.post("/ui/event-sink/add/", {**FORM, "start": "latest"}).status == 403
    assert everything() == before
