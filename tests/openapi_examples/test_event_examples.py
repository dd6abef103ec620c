"""The AsyncAPI document has an example of each type of events: an event of a real change, recorded.

`UPDATE_OPENAPI_EXAMPLES=1` updates the examples, and `make openapi` then writes them into the document.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from jsonschema import Draft202012Validator, FormatChecker

from events.cloud_events import GAP_TYPE, Payload, cloud_event_of, gap_event
from events.outbox import EventFilter, read_batch
from management.openapi import event_document
from management.openapi.event_document import (
    RECORDED,
    build_event_document,
    event_types,
    read_event_examples,
)
from tenancy.changes.kinds import Change
from tenancy.selectors.projects import server_id
from tests.events.event_fixtures import newest_position
from tests.harness.prepared import clear_process_caches
from tests.harness.wsgi_client import call
from tests.openapi_examples import event_story
from tests.openapi_examples.conftest import STORIES, a_warehouse
from tests.openapi_examples.stand_ins import StandIns
from tests.openapi_examples.story import Story

pytestmark = pytest.mark.django_db
Event = dict[str, Any]
AN_ID = UUID("019bc0fd-89c0-7c3d-8cca-313d06e7a5ef")


def written_events(payload: Payload) -> list[Event]:
    """Return the events of a story."""
    rows = read_batch(
        "default", after=0, through=newest_position(), event_filter=EventFilter(), payload=payload, limit=10_000
    ).events
    return [json.loads(cloud_event_of(each, server_id=server_id(), payload=payload).structured) for each in rows]


@pytest.fixture
def events(play_story: Any, monkeypatch: pytest.MonkeyPatch) -> dict[Payload, list[Event]]:
    """The events of all stories, each of which has a new server, and one that reports deleted events."""
    found: dict[Payload, list[Event]] = {payload: [] for payload in Payload}
    names = [*STORIES, "management"]
    for number, name in enumerate(names):
        if number == len(names) - 1:
            monkeypatch.setitem(STORIES, name, [a_warehouse, event_story.play])
        before = transaction.savepoint()
        play_story(name, Story)
        for payload in Payload:
            found[payload] += written_events(payload)
        transaction.savepoint_rollback(before)
        clear_process_caches()
    gap: Event = json.loads(gap_event(AN_ID, 4711, 5200, server_id=AN_ID).structured)
    return {payload: [*of_payload, gap] for payload, of_payload in found.items()}


def first_of_each_type(events: list[Event]) -> dict[str, Event]:
    return {each["type"]: each for each in reversed(events)}


def validator(document: dict[str, Any], name: str) -> Draft202012Validator:
    """Return the validator of the message `name`, which also rejects attributes that no schema describes."""
    payload = {**document["components"]["messages"][name]["payload"], "unevaluatedProperties": False}
    return Draft202012Validator({**payload, "components": document["components"]}, format_checker=FormatChecker())


def test_each_type_has_an_example_of_a_real_event(events: dict[Payload, list[Event]], storage_root: Path) -> None:
    real = first_of_each_type(events[Payload.FULL])
    assert real.keys() == {*event_types(), GAP_TYPE}
    if os.environ.get("UPDATE_OPENAPI_EXAMPLES") == "1":
        stand_ins = StandIns(storage_root)
        examples = {name: stand_ins.instead_of(real[name], f"event {name}") for name in sorted(real)}
        RECORDED.write_text(json.dumps(examples, indent=2) + "\n")
    examples = read_event_examples()
    assert examples.keys() == real.keys()
    for name, event in real.items():
        assert examples[name].keys() == event.keys(), name
        assert type(examples[name]["data"]) is type(event["data"]), name


def test_all_events_match_the_document(events: dict[Payload, list[Event]]) -> None:
    document = build_event_document()
    validators = {name: validator(document, name) for name in document["components"]["messages"]}
    for payload, of_payload in events.items():
        assert len(of_payload) > 150
        for event in of_payload:
            misfits = [f"{event['type']}: {each.message}" for each in validators[event["type"]].iter_errors(event)]
            assert not misfits, payload


def test_examples_match_the_document() -> None:
    document = build_event_document()
    for name, message in document["components"]["messages"].items():
        [example] = message["examples"]
        assert list(validator(document, name).iter_errors(example["payload"])) == []
        wrong = {**example["payload"], "position": 7, "unknown": 1}
        assert len(list(validator(document, name).iter_errors(wrong))) >= 2, name


def test_each_kind_of_change_has_a_message() -> None:
    messages = build_event_document()["components"]["messages"]
    assert messages.keys() == {each.value.event_type for each in Change} | {GAP_TYPE}
    assert messages["renameTable"]["summary"] == "Change table.renamed, table.moved"


def test_references_lead_somewhere() -> None:
    document = build_event_document()

    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if "$ref" in value else []
            return own + [each for member in value.values() for each in references(member)]
        return [each for member in value for each in references(member)] if isinstance(value, list) else []

    found = references(document)
    assert len(found) > 200
    for reference in found:
        target: Any = document
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]


def test_a_kind_without_an_example_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = read_event_examples()
    del examples["dropTable"]
    monkeypatch.setattr(event_document, "read_event_examples", lambda: examples)
    with pytest.raises(LookupError, match="no example of the events dropTable"):
        build_event_document()
    monkeypatch.setattr(event_document, "read_event_examples", lambda: read_event_examples() | {"eatTable": {}})
    with pytest.raises(LookupError, match="unknown events: eatTable"):
        build_event_document()


def test_the_server_returns_the_document() -> None:
    response = call("GET", "/api-docs/events/v1/asyncapi.json")
    assert (response.status, response.headers["Content-Type"]) == (200, "application/json")
    assert response.json() == build_event_document()
