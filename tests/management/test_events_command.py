"""`manage.py events`: status and control of the deliveries to sinks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now

from events.models import DeadLetter, EventSink
from events.services.sinks import SinkSettings, create_sink
from icekeeper.kernel.ids import new_id
from tenancy import maintenance
from tenancy.actor import INTERNAL
from tests.events.event_fixtures import SinkInMemory, accept, publish_everything, update
from tests.harness.fingerprint import Fingerprint

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("bootstrapped"), pytest.mark.both_databases]

Everything = Callable[[], Fingerprint]


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("events", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def sink() -> EventSink:
    update("a")
    publish_everything()
    return create_sink(actor=INTERNAL, wanted=SinkSettings(name="pipeline", configuration={"type": "log"}))


def letter(sink: EventSink, position: int, error: str = "status 400") -> DeadLetter:
    return DeadLetter.objects.create(
        sink=sink,
        position=position,
        event_id=new_id(),
        type="updateTable",
        object_key="table:a",
        error=error,
        event="{}",
    )


def test_the_status_of_all_sinks_is_a_table(sink: EventSink) -> None:
    create_sink(actor=INTERNAL, wanted=SinkSettings(name="a\u00a0log", configuration={"type": "log"}), is_paused=True)
    newest = publish_everything()
    EventSink.objects.update(position=newest, delivered=1234)
    EventSink.objects.filter(pk=sink.pk).update(
        position=newest - 1, failures=2, last_error="down\n\x1b[31m" + "x" * 200
    )
    letter(sink, 1)
    lines = run("status").splitlines()
    assert [re.split(r"  +", line) for line in lines] == [
        ["NAME", "TYPE", "STATUS", "POSITION", "LAG", "AGE", "DELIVERED", "DEAD LETTERS", "LAST ERROR"],
        ["a\\u00a0log", "log", "paused", str(newest), "0", "0 s", "1234", "0"],
        [
            "pipeline", "log", "failing", str(newest - 1), "1", lines[2].split("  1  ")[1].split("  ")[0].strip(),
            "1234", "1", "down\\u000a\\u001b[31m" + "x" * 60 + "...",
        ],
    ]  # fmt: skip
    assert run("status", "pipeline").splitlines()[1:] == [re.sub(r"^pipeline +", "pipeline  ", lines[2])]


def test_the_status_as_json_is_that_of_the_api(sink: EventSink) -> None:
    (line,) = run("status", "--json").splitlines()
    found = json.loads(line)
    assert found["id"] == str(sink.pk)
    assert found["delivery"]["position"] == sink.position
    assert json.loads(run("status", str(sink.pk), "--json"))["name"] == "pipeline"


def test_without_sinks_the_status_says_so() -> None:
    assert run("status") == "There are no event sinks.\n"
    assert run("status", "--json") == ""


def test_a_sink_is_paused_and_resumed(sink: EventSink) -> None:
    assert run("pause", "pipeline") == "pipeline: deliveries are paused.\n"
    assert EventSink.objects.get().is_paused
    assert run("pause", "pipeline") == "pipeline: deliveries are paused.\n"
    assert json.loads(run("resume", str(sink.pk), "--json")) == {"sink": str(sink.pk)}
    assert not EventSink.objects.get().is_paused


def test_events_are_replayed(sink: EventSink) -> None:
    update("b")
    newest = publish_everything()
    assert run("replay", "pipeline", "--position", "1") == "pipeline: deliveries begin after position 1.\n"
    assert json.loads(run("replay", "pipeline", "--latest", "--json")) == {"sink": str(sink.pk), "position": newest}
    assert run("replay", "pipeline", "--earliest") == "pipeline: deliveries begin after position 0.\n"
    at = (sink.created_at + timedelta(days=1)).isoformat()
    assert run("replay", "pipeline", "--time", at) == f"pipeline: deliveries begin after position {newest}.\n"
    assert EventSink.objects.get().position == newest


def test_an_event_is_skipped_and_its_dead_letter_redelivered(sink: EventSink) -> None:
    update("b")
    publish_everything()
    assert run("replay", "pipeline", "--position", str(sink.position))
    skipped = json.loads(run("skip", "pipeline", "--json"))
    assert run("skip", "pipeline").startswith("pipeline: the event at position ")
    found = DeadLetter.objects.get(position=skipped["position"])
    at = f"{found.at:%Y-%m-%d %H:%M:%S} UTC"
    first = run("dead-letters", "pipeline").splitlines()[0]
    assert first == "\t".join([str(found.position), at, found.type, found.object_key, "", "Skipped by internal."])
    assert (
        run("redeliver", "pipeline", "--positions", str(found.position))
        == "pipeline: dead letters to be sent again: 1.\n"
    )
    assert "\tto be sent again\t" in run("dead-letters", "pipeline").splitlines()[0]
    assert json.loads(run("dead-letters", "pipeline", "--json", "--limit", "1"))["is-redelivered"] is True
    assert run("delete-dead-letters", "pipeline") == "pipeline: dead letters deleted: 2.\n"
    assert run("dead-letters", "pipeline") == ""


def test_what_dead_letters_contain_breaks_no_line(sink: EventSink) -> None:
    letter(sink, 7, "bad\n\tevent\x1b]0;")
    (line,) = run("dead-letters", "pipeline").splitlines()
    assert line.endswith("bad\\u000a\\u0009event\\u001b]0;")


def test_a_test_event_is_sent(sink: EventSink, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = SinkInMemory(accept, keeps_order=True)
    monkeypatch.setattr("events.services.sinks.open_sink_of", lambda row: receiver)
    assert run("test", "pipeline") == "pipeline: the receiver accepted the test event.\n"
    assert [each.type for each in receiver.received] == ["testEventSink"]


def test_a_test_event_needs_the_settings_of_the_sink(sink: EventSink) -> None:
    EventSink.objects.update(is_from_settings=True)
    message = "this process has no settings of the sink pipeline: set the environment variables of the server"
    with pytest.raises(CommandError, match=message):
        run("test", "pipeline")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pause",), "`pause` needs the name or id of a sink"),
        (("pause", "other"), "Event sink other does not exist"),
        (("pause", "0198e0f4-3f6e-7c31-8c7d-000000000000"), "Event sink 0198e0f4"),
        (("pause", ""), "must not be empty"),
        (("replay", "pipeline"), "`replay` needs one of --position"),
        (("status", "--latest"), "`replay` needs one of --position"),
        (("replay", "pipeline", "--time", "yesterday"), "--time takes a time with a zone"),
        (("replay", "pipeline", "--time", "2026-01-31T12:00:00"), "--time takes a time with a zone"),
        (("replay", "pipeline", "--time", "0001-01-01T00:00:00+23:00"), "--time takes a time with a zone"),
        (("replay", "pipeline", "--position", "1000000000"), "position: must be from 0 to"),
        (("replay", "pipeline", "--latest", "--earliest"), "not allowed with"),
        (("pause", "pipeline", "--positions", "1"), "--positions is for `redeliver` and `delete-dead-letters`"),
        (("dead-letters", "pipeline", "--limit", "0"), "--limit takes 1 or more"),
        (("skip", "pipeline"), "Event sink pipeline has no event to deliver"),
        (("delete", "pipeline"), "invalid choice"),
    ],
)
def test_errors_change_nothing(
    arguments: tuple[str, ...], message: str, sink: EventSink, everything: Everything
) -> None:
    before = everything()
    with pytest.raises(CommandError, match=re.escape(message)):
        run(*arguments)
    assert everything() == before


def test_nothing_is_changed_in_maintenance_mode(sink: EventSink, everything: Everything) -> None:
    letter(sink, 1)
    call_command("maintenance", "on", stdout=StringIO())
    try:
        before = everything()
        for arguments in (("pause",), ("replay", "--earliest"), ("redeliver",), ("delete-dead-letters",), ("test",)):
            with pytest.raises(CommandError, match="Maintenance mode is read-only: nothing is changed"):
                run(arguments[0], "pipeline", *arguments[1:])
        assert everything() == before
        assert "pipeline" in run("status")
        assert run("dead-letters", "pipeline")
    finally:
        call_command("maintenance", "off", stdout=StringIO())
        maintenance.switch.is_on = False


def test_a_lease_ends_with_a_change(sink: EventSink) -> None:
    EventSink.objects.update(lease=5, leased_until=Now() + timedelta(minutes=2))
    run("pause", "pipeline")
    row: Any = EventSink.objects.annotate(read_at=Now()).get()
    assert row.lease == 6
    assert row.leased_until <= row.read_at
