"""The attributes of CloudEvents: Lakekeeper's for tables and views, with what its consumers expect."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from events.cloud_events import Payload, StoredEvent, cloud_event_of, gap_event
from tests.events.event_fixtures import SERVER_ID

W, ROLE = "01999999-0000-7000-8000-000000000002", "01999999-0000-7000-8000-000000000003"
STORED = StoredEvent(
    position=7, event_id="01999999-0000-7000-8000-000000000004", object_key="table:own", sequence=3,
    type="createTable", time="2026-01-31T12:00:00.001500Z", public_id="uuid", names='["a", "b", "orders"]',
    project_id="p", warehouse_id=W, actor="oidc~alice", assumed_role=None, request_id="r", event_count=2,
    event_index=1, data='{"name":"orders"}',
)  # fmt: skip


def document(payload: Payload = Payload.FULL, **changed: Any) -> dict[str, Any]:
    event = cloud_event_of(STORED._replace(**changed), server_id=SERVER_ID, payload=payload)
    found: dict[str, Any] = json.loads(event.structured)
    assert found.pop("data") == json.loads(event.data)
    assert found == event.attributes
    return found


def test_a_created_table() -> None:
    assert document() == {
        "specversion": "1.0",
        "id": "01999999-0000-7000-8000-000000000004",
        "source": f"uri:iceberg-catalog-service:{SERVER_ID}",
        "type": "createTable",
        "datacontenttype": "application/json",
        "time": "2026-01-31T12:00:00.001500Z",
        "subject": "uuid",
        "project-id": "p",
        "warehouse-id": W,
        "tabular-type": "table",
        "tabular-id": "uuid",
        "name": "orders",
        "namespace": "a.b",
        "prefix": W,
        "num-events": 2,
        "sequence-number": 1,
        "trace-id": "r",
        "actor": '{"type":"principal","principal":"oidc~alice"}',
        "objectkey": "table:own",
        "objectsequence": "3",
        "position": "7",
    }


@pytest.mark.parametrize(
    ("event_type", "object_type", "namespace", "prefix"),
    [
        ("updateTable", "table", "a\x1fb", ""),
        ("renameTable", "table", "a\x1fb", ""),
        ("undropTabulars", "view", "a\x1fb", ""),
        ("renameView", "view", "a.b", ""),
        ("updateView", "view", "a.b", W),
        ("dropTable", "table", "a.b", W),
        ("renameGenericTable", "generic-table", "a.b", W),
    ],
)
def test_both_spellings_of_namespaces(event_type: str, object_type: str, namespace: str, prefix: str) -> None:
    found = document(type=event_type, object_key=f"{object_type}:own")
    assert (found["tabular-type"], found["namespace"], found["prefix"]) == (object_type, namespace, prefix)


def test_actors() -> None:
    assert json.loads(document(assumed_role=ROLE)["actor"]) == {
        "type": "role",
        "principal": "oidc~alice",
        "assumed-role": ROLE,
    }
    assert document(actor="anonymous")["actor"] == '{"type":"anonymous"}'
    assert document(actor="internal")["actor"] == '{"type":"internal"}'


def test_payloads() -> None:
    summary = document(Payload.SUMMARY)
    assert (summary["name"], summary["namespace"]) == ("orders", "a.b")
    without_names = document(Payload.IDS)
    assert (without_names["name"], without_names["namespace"]) == ("", "")
    assert "orders" not in json.dumps(without_names)
    for payload in (Payload.SUMMARY, Payload.IDS):
        assert cloud_event_of(STORED, server_id=SERVER_ID, payload=payload).data == b"null"


def test_other_objects() -> None:
    role = document(type="createRole", object_key="role:r", public_id="r", names='["writers"]', warehouse_id=None)
    assert role["name"] == "writers"
    assert not {"tabular-type", "tabular-id", "namespace", "prefix", "warehouse-id"} & role.keys()
    namespace = document(type="createNamespace", object_key="namespace:n", names='["a", "b"]')
    assert (namespace["name"], namespace["namespace"], namespace["warehouse-id"]) == ("b", "a", W)
    assert "name" not in document(Payload.IDS, object_key="namespace:n", names='["a", "b"]')


def test_names_that_utf_8_does_not_have_are_replaced() -> None:
    found = document(names=json.dumps(["\ud800", "quote\"'", "ünï\\ud"]), type="updateTable")
    assert (found["namespace"], found["name"]) == ("?\x1fquote\"'", "ünï\\ud")


def test_deleted_events() -> None:
    event = gap_event(UUID(W), 3, 9, server_id=SERVER_ID)
    assert json.loads(event.structured) == {
        "specversion": "1.0",
        "id": W,
        "source": f"uri:iceberg-catalog-service:{SERVER_ID}",
        "type": "eventsDeleted",
        "datacontenttype": "application/json",
        "position": "9",
        "data": {"first-position": 3, "last-position": 9, "reason": "retention"},
    }
    assert event.position == 9
