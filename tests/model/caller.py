"""A process's requests to the catalog: send a request, classify its result and record it."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import requests

from tests.model.journal import Attempt, Fault, Record, Result
from tests.model.server_faults import Watch

TIMEOUT_SECONDS = 150
"""How long a request is sent again while the server is away or too busy."""

ONCE = 0.5
"""Share of the writes that carry an Idempotency-Key."""

AGAIN = 0.1
"""Share of the completed requests with a key that are sent once more."""

BUSY = {408, 429, 503}
IN_DOUBT = {"CommitStateUnknownException"}
BROKEN = ("CommitStateUnknownException", "The database cannot be reached")
"""The text of a response when the server has lost a connection to its database."""

TRY_AGAIN = {("CommitFailedException", "Commit conflict"), ("CommitFailedException", "The database is busy"),
             ("CommitFailedException", "The database cannot be reached"), ("RequestInProgress", "")}  # fmt: skip
"""Errors that do not depend on the request itself: type and beginning of the message."""

IN_USE = {("LocationAlreadyTaken", ""), ("InvalidLocation", "Unexpected files")}
"""Errors that a purge may resolve; they are not stored under a key. Type and beginning of the message."""

FLEETING = "write.metadata.delete-after-commit.enabled"
"""A table whose old metadata files are deleted: their contents are known only from responses."""


@dataclass(frozen=True, slots=True)
class Reply:
    result: Result
    status: int
    body: dict[str, Any]
    record: Record

    @property
    def error(self) -> str:
        return str(self.body.get("error", {}).get("type", ""))

    @property
    def message(self) -> str:
        return str(self.body.get("error", {}).get("message", ""))

    @property
    def is_passing(self) -> bool:
        """Whether it was rejected because of load, not because of its contents."""
        return self.status in BUSY or self._is_one_of(TRY_AGAIN)

    @property
    def is_of_the_moment(self) -> bool:
        """Whether the same request may succeed a moment later, also under its key."""
        return self._is_one_of(IN_USE)

    def _is_one_of(self, errors: set[tuple[str, str]]) -> bool:
        return any(self.error == error and self.message.startswith(start) for error, start in errors)


@dataclass
class Caller:
    """Sends requests below `api` for the process `number`, and keeps `records` of them.

    A request with a key is retried until a response arrives. Without a key, a lost response is `Result.UNKNOWN`, and
    `settle` waits until the dead server's operations have ended.
    """

    api: str
    number: int
    rng: random.Random
    watch: Watch
    records: list[Record] = field(default_factory=list)
    count: int = 0
    broken: int = 0
    """Responses that report a lost connection to the database."""
    last_kill: int = 0

    def open(self) -> None:
        self.session = requests.Session()

    def close(self) -> None:
        self.session.close()
        del self.session

    def token(self) -> str:
        """Return a new token for a request and its writes."""
        self.count += 1
        return f"p{self.number}-{self.count}"

    def write(
        self, op: str, what: str, method: str, path: str, body: Any = None, *, about: tuple[Any, ...] = ()
    ) -> Reply:
        key = str(UUID(int=self.rng.getrandbits(128), version=4)) if self.rng.random() < ONCE else None
        named = tuple(str(each) for each in about)
        text = "" if body is None else json.dumps(body, ensure_ascii=False)
        record = Record(op, what, named, method, path, text, key)
        self.records.append(record)
        reply = self._response_to(record)
        self._note(record, reply)
        if key is not None and not reply.is_of_the_moment and self.rng.random() < AGAIN:
            self._send_again(record, reply)
        return reply

    def read(self, path: str, *, method: str = "GET", what: str = "load", about: tuple[Any, ...] = ()) -> Reply:
        """Repeat a read until it has a meaningful response. Loads that found an object are recorded."""
        record = Record(self.token(), what, tuple(str(each) for each in about), method, path, "")
        until = time.monotonic() + TIMEOUT_SECONDS
        while True:
            response = self._attempt(record)
            if response is not None and response.status_code not in BUSY:
                break
            self._require_timeout(record, until)
        reply = _classified(response, record)
        self._note(record, reply)
        if record.location is not None:
            self.records.append(record)
        return reply

    def settle(self) -> None:
        """Wait until no operation from before a noticed kill can still take effect."""
        self.watch.wait_until_settled(self.last_kill)

    def _response_to(self, record: Record) -> Reply:
        until = time.monotonic() + TIMEOUT_SECONDS
        while True:
            response = self._attempt(record)
            if response is None:
                if record.attempts[-1].is_lost and record.key is None:
                    return Reply(Result.UNKNOWN, 0, {}, record)
            else:
                reply = _classified(response, record)
                if reply.status >= 500 and reply.error in IN_DOUBT:
                    record.attempts[-1].is_lost = True
                    if record.key is None:
                        return Reply(Result.UNKNOWN, reply.status, reply.body, record)
                elif record.key is None or response.ok or not reply.is_passing:
                    return reply
            self._require_timeout(record, until)

    def _attempt(self, record: Record) -> requests.Response | None:
        """Send the request once; return None when the server was not reached, or its response was lost."""
        headers = {"Content-Type": "application/json"} if record.body else {}
        if record.key is not None:
            headers["Idempotency-Key"] = record.key
        sent, response, reported, is_lost = time.monotonic(), None, "", False
        try:
            response = self.session.request(
                record.method, self.api + record.path, data=record.body.encode() or None, headers=headers, timeout=90
            )
            reported = str(response.status_code)
        except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
            was_sent = "NewConnectionError" not in repr(error)
            reported, is_lost = ("lost" if was_sent else "not reached"), was_sent
            self.last_kill = self.watch.kills_begun()
        record.attempts.append(Attempt(sent, time.monotonic(), reported, is_lost))
        if response is not None and response.status_code >= 400:
            record.attempts[-1].reported += " " + response.text[:200]
            self.broken += any(text in response.text for text in BROKEN)
            if response.status_code >= 500 and response.status_code not in BUSY:
                content = _json(response)
                if content.get("error", {}).get("type") not in IN_DOUBT:
                    raise Fault(f"{record.what} got {reported}: {response.text[:500]}", record.op, *record.about)
        return response

    def _require_timeout(self, record: Record, until: float) -> None:
        if time.monotonic() > until:
            last = record.attempts[-1].reported
            raise Fault(f"{record.what} had no response for {TIMEOUT_SECONDS} s, the last: {last}", record.op)
        time.sleep(0.02 + 0.1 * self.rng.random())

    def _note(self, record: Record, reply: Reply) -> None:
        record.result, record.status, record.error = reply.result, reply.status, reply.error
        record.is_kept = not reply.is_of_the_moment
        metadata = reply.body.get("metadata")
        if metadata is not None and reply.body.get("metadata-location") is not None:
            record.location = reply.body["metadata-location"]
            record.uuid = metadata.get("table-uuid") or metadata.get("view-uuid")
            if is_fleeting(metadata):
                record.document = metadata

    def _send_again(self, record: Record, first: Reply) -> None:
        """Assert that a retry gets the same response, without a further effect."""
        again = Record(self.token(), f"{record.what} again", (record.op, *record.about), record.method, record.path,
                       record.body, record.key)  # fmt: skip
        response = self._attempt(again)
        if response is None:
            return
        reply = _classified(response, again)
        if reply.is_passing:
            return
        self.records.append(again)
        self._note(again, reply)
        is_same_version = first.record.location == again.location or is_fleeting(first.body.get("metadata"))
        if (reply.status, reply.error) != (first.status, first.error) or not is_same_version:
            raise Fault(f"sent again with its key, {record.op} got another response", record.op, *record.about)


def is_fleeting(metadata: dict[str, Any] | None) -> bool:
    return metadata is not None and metadata.get("properties", {}).get(FLEETING) == "true"


def _classified(response: requests.Response, record: Record) -> Reply:
    result = Result.DONE if response.ok else Result.REFUSED
    return Reply(result, response.status_code, _json(response), record)


def _json(response: requests.Response) -> dict[str, Any]:
    if not response.content:
        return {}
    content: dict[str, Any] = response.json()
    return content
