"""The feed as Server-Sent Events, and long polls, in this process: without a server, whose threads and sockets
`test_feed_of_a_server` has."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from threading import Event, Thread
from typing import Any

import pytest
from django.db import OperationalError

from events.publication import State, read_state
from events.selectors import feed, feed_waits, publication_watch
from events.selectors.publication_watch import PublicationWatch
from icekeeper.kernel.errors.types import Unauthorized
from icekeeper.kernel.http import client_link
from management.api.events import views
from tests.events.event_fixtures import newest_position, update
from tests.events.feed_fixtures import api, delete_through, event_of, messages, page, publish
from tests.harness.wsgi_client import call

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
STREAM = {"accept": "text/event-stream"}


class Script:
    """Instead of the watch and the client of a request: each wait runs the next step, and the client leaves after them.

    Everything is in the thread and the transaction of the test.
    """

    def __init__(self, *steps: Callable[[], object]) -> None:
        self.steps = list(steps)
        self.waits: list[int] = []
        self.drained = 0

    def wait(self, position: int, *, until: float, has_ended: Callable[[], bool]) -> bool:
        self.waits.append(position)
        if self.steps:
            self.steps.pop(0)()
        return read_state().published > position

    def has_ended(self) -> bool:
        return not self.steps

    def drain(self) -> None:
        self.drained += 1


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Script]:
    def of(*steps: Callable[[], object]) -> Script:
        script = Script(*steps)
        monkeypatch.setattr(publication_watch.publication_watch, "wait", script.wait)
        monkeypatch.setattr(views, "client_link", lambda meta: script)
        return script

    return of


@pytest.fixture
def start(bootstrapped: None) -> int:
    update("first")
    return publish()


def write(*subjects: str) -> Callable[[], object]:
    def step() -> None:
        update(*subjects)
        publish()

    return step


# --- streams ---------------------------------------------------------------------------------------------------------


def test_a_stream_begins_now_and_has_each_event(start: int, play: Callable[..., Script]) -> None:
    script = play(write("a", "b"), write("c"), lambda: None)
    response = api.get("", **STREAM)
    assert response.status == 200
    assert {name: response.headers[name] for name in ("Content-Type", "Cache-Control", "X-Accel-Buffering")} == {
        "Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no",
    }  # fmt: skip
    assert not {"Content-Length", "Content-Encoding"} & response.headers.keys()
    first, *events = messages(response)
    assert first == {"retry": "2000", "id": str(start)}
    assert [event_of(each) for each in events] == page(f"after={start}")["events"]
    assert len(events) == 3
    assert script.drained == 2, "before each wait"


def test_a_client_that_accepts_json_gets_a_page(start: int) -> None:
    response = api.get("?after=0", accept="application/json, text/event-stream;q=0.5")
    assert (response.status, response.headers["Content-Type"]) == (200, "application/json")


def test_a_stream_continues_after_the_last_event(start: int, play: Callable[..., Script]) -> None:
    update(*"abcd")
    publish()
    for query, last in (
        (f"?after={start + 2}", None),
        ("", start + 2),
        ("?after=0", start + 2),
        ("?after=7", start),
    ):
        play(lambda: None)
        headers = STREAM if last is None else {**STREAM, "last-event-id": str(last)}
        first, *events = messages(api.get(query, **headers))
        begin = start + 2 if last is None else last
        assert first["id"] == str(begin)
        assert [int(each["id"]) for each in events] == list(range(begin + 1, newest_position() + 1))
    play(lambda: None)
    assert len(messages(api.get("?since=2020-01-01T00:00:00Z&type=updateTable", **STREAM))) == 6


def test_a_stream_has_filters_payload_and_gaps(start: int, play: Callable[..., Script]) -> None:
    update(*"abcd")
    publish()
    delete_through(start + 2)
    play(lambda: None)
    _, gap, event = messages(api.get(f"?after={start}&objectId=d&payload=ids", **STREAM))
    assert (gap["event"], gap["id"]) == ("eventsDeleted", str(start + 2))
    assert (event_of(event)["subject"], event_of(event)["data"]) == ("d", None)


def test_a_silent_stream_is_kept_alive_with_its_cursor(
    start: int, play: Callable[..., Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_waits, "KEEP_ALIVE_SECONDS", 0.0)
    play(write("a"), lambda: None)
    update("b")
    publish()
    response = api.get("?objectId=none", **STREAM)
    assert messages(response)[1:] == [
        {"": "keep-alive", "id": str(start + 1)},
        {"": "keep-alive", "id": str(start + 2)},
    ]
    assert b": keep-alive\nid: " in response.body


def test_a_stream_sends_events_of_bounded_size(
    start: int, play: Callable[..., Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_waits, "STREAM_PAGE_BYTES", 20)
    update(*"abcde")
    publish()
    script = play(lambda: None)
    events = [event_of(each)["subject"] for each in messages(api.get(f"?after={start}", **STREAM))[1:]]
    assert (events, script.drained) == (list("abcde"), 3), "each has 10 bytes of data"


def test_a_stream_ends_in_time(start: int, play: Callable[..., Script], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_waits, "MAX_STREAM_SECONDS", 0.0)
    play(write("a"))
    assert len(messages(api.get("", **STREAM))) == 1


def test_a_stream_ends_with_the_token(start: int, play: Callable[..., Script], monkeypatch: pytest.MonkeyPatch) -> None:
    def reject(*_: Any, **__: Any) -> None:
        raise Unauthorized("The token has expired")

    monkeypatch.setattr(feed_waits, "RECHECK_SECONDS", 0.0)
    script = play(
        write("a"), lambda: monkeypatch.setattr(views, "authenticate_request", reject), write("b"), *[list] * 9
    )
    response = api.get("", **STREAM)
    assert [event_of(each)["subject"] for each in messages(response)[1:]] == ["a"]
    assert len(script.steps) == 10


def test_a_stream_ends_with_the_permission(
    start: int, play: Callable[..., Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_waits, "RECHECK_SECONDS", 0.0)
    deny = partial(monkeypatch.setattr, feed.Feed, "is_allowed", lambda _: False)
    play(write("a"), deny, write("b"), *[list] * 9)
    assert [event_of(each)["subject"] for each in messages(api.get("", **STREAM))[1:]] == ["a"]


def test_a_stream_ends_with_an_error_of_the_database(
    start: int, play: Callable[..., Script], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("lost")

    play(write("a"), lambda: monkeypatch.setattr(feed, "read_state", fail), *[list] * 9)
    assert [event_of(each)["subject"] for each in messages(api.get("", **STREAM))[1:]] == ["a"]
    assert "a stream of events ended: lost" in caplog.text


def test_head_has_the_headers_and_no_stream(start: int) -> None:
    response = call("HEAD", "/management/v1/events", headers=STREAM)
    assert (response.status, response.headers["Content-Type"]) == (200, "text/event-stream")
    assert response.body == b""


@pytest.mark.parametrize("query", ["limit=1", "wait=1"])
def test_parameters_of_pages_are_not_for_streams(start: int, query: str) -> None:
    assert api.get(f"?{query}", **STREAM).refused(400, "BadRequestException", "not for streams")


def test_a_stream_from_a_cursor_in_the_future(start: int) -> None:
    assert api.get(f"?after={start + 1}", **STREAM).refused(400, "UnknownEventCursor")


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/html, application/json;q=0.9", "", "text/*"])
def test_other_clients_get_json(start: int, accept: str) -> None:
    assert page("after=latest", accept=accept)["next"] == str(start)


# --- long polls ------------------------------------------------------------------------------------------------------


def test_a_long_poll_returns_the_next_event(start: int, play: Callable[..., Script]) -> None:
    script = play(write("a"), write("b", "c"), lambda: None)
    read = page("after=latest&wait=30&objectId=b")
    assert [each["subject"] for each in read["events"]] == ["b"]
    assert (script.waits, read["next"]) == ([start, start + 1], str(start + 3))


def test_a_long_poll_returns_old_events_at_once(start: int, play: Callable[..., Script]) -> None:
    script = play()
    assert page(f"after={start - 1}&wait=30")["events"]
    assert script.waits == []


def test_a_long_poll_ends_without_an_event(start: int, play: Callable[..., Script]) -> None:
    script = play(lambda: None)
    assert page(f"after={start}&wait=30") == {"events": [], "next": str(start), "has-more": False}
    assert script.waits == [start]


def test_a_long_poll_ends_with_the_permission(
    start: int, play: Callable[..., Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_waits, "RECHECK_SECONDS", -1.0)
    monkeypatch.setattr(feed.Feed, "is_allowed", lambda _: False)
    play(write("a"))
    assert page(f"after={start}&wait=30")["events"] == []


# --- the limit -------------------------------------------------------------------------------------------------------


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[PublicationWatch]:
    """A watch with one slot."""
    watch = PublicationWatch(max_waiting=1)
    monkeypatch.setattr(views, "publication_watch", watch)
    monkeypatch.setattr(feed_waits, "publication_watch", watch)
    yield watch
    slot = watch.reserve_slot()
    assert slot is not None, "each request has released its slot"


def test_too_many_requests_do_not_wait(full: PublicationWatch, start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    slot = full.reserve_slot()
    assert slot is not None
    response = api.get(f"?after={start}&wait=30")
    assert (response.status, response.headers["Retry-After"]) == (200, "2")
    assert response.json() == {"events": [], "next": str(start), "has-more": False}
    busy = api.get("", **STREAM)
    assert busy.refused(503, "SlowDownException", "Too many requests")
    assert busy.headers["Retry-After"] == "2"
    slot.release()
    slot.release()
    monkeypatch.setattr(feed_waits, "MAX_STREAM_SECONDS", 0.0)
    for _ in range(3):
        assert api.get("", **STREAM).status == 200


# --- the watch -------------------------------------------------------------------------------------------------------


def test_one_thread_looks_while_requests_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication_watch, "POLL_SECONDS", 0.01)
    state, looks, has_failed = [7], list[float](), Event()

    def read() -> State:
        looks.append(time.monotonic())
        if len(looks) == 2:
            has_failed.set()
            raise OperationalError("lost")
        return State(state[0], 0, 0)

    monkeypatch.setattr(publication_watch, "ERROR_PAUSE_SECONDS", 0.01)
    watch = PublicationWatch(read)
    assert watch.is_idle()
    assert watch.wait(6, until=time.monotonic() + 30, has_ended=lambda: False), "it is published"
    found: list[bool] = []
    threads = [
        Thread(target=lambda: found.append(watch.wait(7, until=time.monotonic() + 30, has_ended=lambda: False)))
        for _ in range(5)
    ]
    for each in threads:
        each.start()
    assert has_failed.wait(10)
    assert not watch.is_idle()
    state[0] = 8
    for each in threads:
        each.join(10)
    assert found == [True] * 5
    assert not watch.wait(8, until=time.monotonic() + 0.05, has_ended=lambda: False)
    assert not watch.wait(8, until=time.monotonic() + 30, has_ended=lambda: True)
    give_up = time.monotonic() + 10
    while not watch.is_idle():
        assert time.monotonic() < give_up
        time.sleep(0.005)
    count = len(looks)
    time.sleep(0.05)
    assert len(looks) == count, "no request waits"


def test_requests_that_no_server_received_have_a_link() -> None:
    link = client_link.client_link({})
    link.drain()
    assert not link.has_ended()
