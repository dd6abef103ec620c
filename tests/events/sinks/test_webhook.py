"""Delivery to webhooks, with a real HTTP server that accepts, rejects, hangs, resets and redirects."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

import pytest

from events.sinks.definition import read_definition
from events.sinks.opening import open_sink
from events.sinks.port import DeliveryError, EventRejected
from events.sinks.webhook import WebhookSink, read_retry_after
from events.sinks.webhook_signature import create_signing_secret
from tests.documentation.command_block_fixtures import blocks_below
from tests.events.sinks.sample_events import HARD_TEXT, event, large_event, send_failing, send_until_delivered
from tests.parts.certificates import create_authority
from tests.parts.process import free_port
from tests.parts.webhook_receiver import HANG, RESET, Response, WebhookReceiver
from tests.storage.open_store_fixtures import use_storage_settings

TIMEOUT = 5.0
SHORT = 1.0
"""Timeout where the receiver does not respond."""


@pytest.fixture
def opened() -> Iterator[list[WebhookSink]]:
    sinks: list[WebhookSink] = []
    yield sinks
    for each in sinks:
        each.close()


def open_webhook(opened: list[WebhookSink], url: str, **members: Any) -> WebhookSink:
    document = {"type": "webhook", "url": url, "timeout-seconds": TIMEOUT}
    definition = read_definition(document | {name.replace("_", "-"): value for name, value in members.items()})
    assert "canary" not in repr(definition) + json.dumps(definition.describe())
    sink = open_sink(definition)
    assert isinstance(sink, WebhookSink)
    opened.append(sink)
    assert "canary" not in repr(vars(sink))
    return sink


@pytest.fixture
def is_genuine() -> Callable[..., bool]:
    """The function that docs/events.md shows to receivers."""
    (block,) = blocks_below("events.md", "Verify a signature")
    names: dict[str, Any] = {}
    exec(block.content, names)  # noqa: S102 - our own page
    found: Callable[..., bool] = names["is_genuine"]
    return found


def test_a_structured_request(webhook: WebhookReceiver, opened: list[WebhookSink]) -> None:
    sent = event(1, name=HARD_TEXT)
    assert open_webhook(opened, webhook.url).send([sent]) == {}
    (request,) = webhook.received
    assert (request.method, request.target) == ("POST", "/hook")
    assert json.loads(request.body) == {**sent.attributes, "data": {"n": 1}}
    assert request.headers.pop("host") == f"127.0.0.1:{webhook.port}"
    assert abs(int(request.headers.pop("webhook-timestamp")) - time.time()) < 5
    assert request.headers == {
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "keep-alive",
        "content-length": str(len(request.body)),
        "content-type": "application/cloudevents+json",
        "user-agent": "icekeeper",
        "webhook-id": sent.id,
    }


@pytest.mark.parametrize("data", [b'{"n":1}', b"null"])
def test_a_binary_request(webhook: WebhookReceiver, opened: list[WebhookSink], data: bytes) -> None:
    sent = event(1, data=data, name=HARD_TEXT, actor='{"type":"principal"}')
    assert open_webhook(opened, webhook.url, mode="binary").send([sent]) == {}
    (request,) = webhook.received
    assert request.body == data
    assert request.headers["content-type"] == "application/json"
    attributes = {name: value for name, value in request.headers.items() if name.startswith("ce-")}
    assert attributes["ce-name"] == "na%C3%AFve%20%2250%20%25%22%20%F0%9F%A7%8A%1Fx"
    assert attributes["ce-actor"] == "{%22type%22:%22principal%22}"
    decoded = {name.removeprefix("ce-"): unquote(value) for name, value in attributes.items()}
    expected = {name: str(value) for name, value in sent.attributes.items() if name != "datacontenttype"}
    assert decoded == expected


def test_query_and_headers_are_sent_but_never_shown(webhook: WebhookReceiver, opened: list[WebhookSink]) -> None:
    headers = {"Authorization": "Bearer canary-token", "X-Team": "canary team"}
    sink = open_webhook(opened, webhook.url, query="sig=canary-query%20x", headers=headers)
    assert sink.send([event(1)]) == {}
    (request,) = webhook.received
    assert request.target == "/hook?sig=canary-query%20x"
    assert (request.headers["authorization"], request.headers["x-team"]) == ("Bearer canary-token", "canary team")
    webhook.respond = lambda _: Response(500, body=b"canary body")
    messages = [send_failing(sink, [event(1)], seconds=TIMEOUT)]
    webhook.respond = lambda _: RESET
    messages.append(send_failing(sink, [event(1)], seconds=TIMEOUT))
    assert messages == ["the webhook responded with status 500", "the webhook refused or closed the connection"]


@pytest.mark.parametrize("mode", ["structured", "binary"])
def test_signatures_of_two_secrets(
    webhook: WebhookReceiver, opened: list[WebhookSink], is_genuine: Callable[..., bool], mode: str
) -> None:
    new, previous, other = (create_signing_secret() for _ in range(3))
    sink = open_webhook(opened, webhook.url, mode=mode, signing_secrets=[new, previous])
    assert sink.send([event(1)]) == {}
    (request,) = webhook.received
    headers, body = request.headers, request.body
    assert is_genuine(headers, body, new)
    assert is_genuine(headers, body, previous)
    assert not is_genuine(headers, body, other)
    assert not is_genuine(headers, body + b" ", new)
    assert not is_genuine(headers | {"webhook-id": event(2).id}, body, new)
    assert not is_genuine(headers | {"webhook-timestamp": str(int(headers["webhook-timestamp"]) - 1)}, body, new)
    assert is_genuine(headers, body, new, tolerance=30)
    assert not is_genuine(headers, body, new, tolerance=-1)
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        assert not is_genuine({each: value for each, value in headers.items() if each != name}, body, new)
    for value in ("", "now", "-1", "9" * 5000):
        assert not is_genuine(headers | {"webhook-timestamp": value}, body, new)
    for value in ("", "v1", "v1,", "v1,\xff"):
        assert not is_genuine(headers | {"webhook-signature": value}, body, new)


def test_a_thousand_events_in_the_order_of_their_object(webhook: WebhookReceiver, opened: list[WebhookSink]) -> None:
    """The engine passes one event of an object at once; each `send` ends when its events were acknowledged."""
    sink = open_webhook(opened, webhook.url, concurrency=8)
    assert (sink.max_events, sink.keeps_order) == (8, False)
    for first in range(0, 1000, 8):
        assert sink.send([event(number, key=f"key-{number % 8}") for number in range(first, first + 8)]) == {}
    bodies = [json.loads(request.body) for request in webhook.received]
    for key in range(8):
        positions = [int(each["position"]) for each in bodies if each["tabular-id"] == f"key-{key}"]
        assert positions == list(range(key, 1000, 8))
    assert 1 < webhook.concurrent <= 8


ERRORS: list[tuple[int, type[DeliveryError]]] = [
    *((status, DeliveryError) for status in (401, 403, 404, 408, 410, 425, 429, 500, 501, 502, 503, 504, 599)),
    *((status, EventRejected) for status in (400, 402, 405, 406, 409, 411, 413, 415, 418, 422, 451, 499)),
]


@pytest.mark.parametrize(("status", "kind"), ERRORS)
def test_an_error_status_is_temporary_or_final(
    webhook: WebhookReceiver, opened: list[WebhookSink], status: int, kind: type[DeliveryError]
) -> None:
    webhook.respond = lambda _: Response(status, {"Retry-After": "7"}, b"canary")
    (error,) = open_webhook(opened, webhook.url).send([event(1)]).values()
    assert (type(error), str(error)) == (kind, f"the webhook responded with status {status}")
    assert error.retry_after == (7.0 if status in {429, 503} else None)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_each_success_acknowledges(webhook: WebhookReceiver, opened: list[WebhookSink], status: int) -> None:
    webhook.respond = lambda _: Response(status, body=b"ok" if status != 204 else b"")
    sink = open_webhook(opened, webhook.url)
    assert sink.send([event(1)]) == sink.send([event(2)]) == {}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(webhook: WebhookReceiver, opened: list[WebhookSink], status: int) -> None:
    with WebhookReceiver() as target:
        webhook.respond = lambda _: Response(status, {"Location": target.url})
        message = send_failing(open_webhook(opened, webhook.url), [event(1)], seconds=TIMEOUT)
        assert message == f"the webhook responded with status {status}: redirects are not followed"
        assert target.received == []


def test_a_requested_pause_ends_the_delivery(webhook: WebhookReceiver, opened: list[WebhookSink]) -> None:
    webhook.respond = lambda _: Response(429, {"Retry-After": "30"})
    errors = open_webhook(opened, webhook.url, concurrency=1).send([event(number) for number in range(5)])
    assert [error.retry_after for error in errors.values()] == [30.0] * 5
    assert len(webhook.received) == 1


def test_one_rejected_event_does_not_stop_the_others(webhook: WebhookReceiver, opened: list[WebhookSink]) -> None:
    rejected = event(2).id
    webhook.respond = lambda request: Response(422 if request.headers["webhook-id"] == rejected else 204)
    errors = open_webhook(opened, webhook.url).send([event(number) for number in range(5)])
    assert {index: type(error) for index, error in errors.items()} == {2: EventRejected}
    assert len(webhook.received) == 5


def test_a_receiver_that_hangs_costs_the_timeout(webhook: WebhookReceiver, opened: list[WebhookSink]) -> None:
    webhook.respond = lambda _: HANG
    sink = open_webhook(opened, webhook.url, concurrency=2, timeout_seconds=SHORT)
    message = send_failing(sink, [event(number) for number in range(6)], seconds=SHORT + 3)
    assert message == "the webhook did not respond in time"
    webhook.respond = lambda _: Response()
    send_until_delivered(sink, [event(1)], seconds=10)


def test_a_response_without_end_costs_the_timeout(opened: list[WebhookSink]) -> None:
    """Single bytes reset the timeout of a socket, but not the deadline."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                with suppress(OSError):  # until the client disconnects
                    while True:
                        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                        time.sleep(0.05)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        sink = open_webhook(opened, f"http://127.0.0.1:{listener.getsockname()[1]}/", timeout_seconds=SHORT)
        assert "in time" in send_failing(sink, [event(1)], seconds=SHORT + 3)
        sink.close()
        thread.join(5)


def test_a_large_response_is_not_read(webhook: WebhookReceiver, opened: list[WebhookSink]) -> None:
    webhook.respond = lambda _: Response(200, body=b"x" * 2_000_000)
    message = send_failing(open_webhook(opened, webhook.url), [event(1)], seconds=TIMEOUT)
    assert message == "the webhook sent more than 1048576 bytes"


def test_a_dead_receiver_is_an_error_once(opened: list[WebhookSink]) -> None:
    sink = open_webhook(opened, f"http://127.0.0.1:{free_port()}/", concurrency=1)
    with pytest.raises(DeliveryError, match=r"^the webhook refused or closed the connection$"):
        sink.send([event(number) for number in range(3)])


def test_a_restart_in_the_middle(opened: list[WebhookSink]) -> None:
    """The second receiver has the port of the first one; the connection that was kept is replaced."""
    first = WebhookReceiver().__enter__()
    sink = open_webhook(opened, first.url)
    assert sink.send([event(1)]) == {}
    first.__exit__()
    assert send_failing(sink, [event(2)], seconds=TIMEOUT) == "the webhook refused or closed the connection"
    with WebhookReceiver(port=first.port) as second:
        send_until_delivered(sink, [event(2)], seconds=5)
        assert [request.headers["webhook-id"] for request in second.received] == [event(2).id]


def test_a_large_event_is_sent_whole(webhook: WebhookReceiver, opened: list[WebhookSink]) -> None:
    sent = large_event(1, 5_000_000)
    assert open_webhook(opened, webhook.url, timeout_seconds=10).send([sent]) == {}
    assert webhook.received[0].body == sent.structured


def test_tls_needs_a_known_authority(
    tmp_path: Path, opened: list[WebhookSink], monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, context = create_authority(tmp_path)
    with WebhookReceiver(context) as receiver:
        untrusted = open_webhook(opened, receiver.url)
        expected = "the webhook has no valid TLS certificate for its host, or no TLS"
        assert send_failing(untrusted, [event(1)], seconds=TIMEOUT) == expected
        use_storage_settings(monkeypatch, ca_bundle=authority)
        assert open_webhook(opened, receiver.url).send([event(1)]) == {}
        assert len(receiver.received) == 1


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"allow_private_endpoints": False}, "private networks are not allowed"),
        ({"allow_http_endpoints": False}, "must be an https address"),
        ({"allowed_endpoints": []}, "this address is not in ICEKEEPER__STORAGE__ALLOWED_ENDPOINTS"),
    ],
)
def test_addresses_are_checked_at_each_delivery(
    webhook: WebhookReceiver,
    opened: list[WebhookSink],
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    reason: str,
) -> None:
    sink = open_webhook(opened, webhook.url)
    assert sink.send([event(1)]) == {}
    use_storage_settings(monkeypatch, **settings)
    assert reason in send_failing(sink, [event(2)], seconds=TIMEOUT)
    assert len(webhook.received) == 1


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/latest/meta-data", "http://metadata.google.internal/", "http://[::ffff:a9fe:a9fe]/"]
)
def test_metadata_services_are_never_contacted(opened: list[WebhookSink], url: str) -> None:
    message = send_failing(open_webhook(opened, url), [event(1)], seconds=TIMEOUT)
    assert message in {
        "url: connections to this address are not allowed",
        "url: connections to this host are not allowed",
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        (" 12 ", 12.0),
        ("86400", 3600.0),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("9" * 30, None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
def test_retry_after(text: str | None, seconds: float | None) -> None:
    assert read_retry_after(text) == seconds


def test_retry_after_as_a_date() -> None:
    found = read_retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True))
    assert found is not None
    assert 57 < found <= 60
