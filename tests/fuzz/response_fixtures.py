"""Assertions that hold for every response to every request."""

from __future__ import annotations

from schemathesis.core.failures import FailureGroup
from schemathesis.core.transport import Response

from tests.fuzz.document_fixtures import documented_types, is_served, wire_types
from tests.fuzz.request_fixtures import Exchange
from tests.fuzz.target_fixtures import World
from tests.harness.fingerprint import Fingerprint, take_fingerprint

TOKENS = "/catalog/v1/oauth/tokens"
"""Its errors have the form of OAuth."""

SAFE = {"GET", "HEAD", "OPTIONS", "TRACE", "QUERY"}
EVERYWHERE = {(405, "MethodNotAllowedException"), (404, "NotFoundException"), (414, "UriTooLongException")}
"""Decided before or outside of an operation, so no operation documents them."""


class ResponseChecker:
    """Check exchanges with `world`, which was in the state `before` when each request was sent."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.before: Fingerprint = take_fingerprint(world.storage_root)

    def check(self, exchange: Exchange) -> None:
        """Raise AssertionError with the whole exchange."""
        status = exchange.response.status
        assert status < 500, f"the server failed:\n{exchange}"
        if status >= 400:
            self._check_envelope(exchange)
        else:
            self._check_success(exchange)
        if status >= 400 or exchange.method in SAFE:
            after = take_fingerprint(self._world.storage_root)
            assert after == self.before, f"a request that was not done changed something:\n{exchange}"

    def check_and_follow(self, exchange: Exchange) -> None:
        """As `check`, and keep the changed state for the next request."""
        self.check(exchange)
        if exchange.response.status < 400 and exchange.method not in SAFE:
            self.before = take_fingerprint(self._world.storage_root)

    @staticmethod
    def _check_envelope(exchange: Exchange) -> None:
        reply = exchange.response
        assert reply.headers["Content-Type"] == "application/json", str(exchange)
        document = reply.json()
        if exchange.path == TOKENS and reply.status in {400, 401}:
            assert set(document) == {"error", "error_description"}, str(exchange)
            documented = documented_types(exchange.method, exchange.path, reply.status)
            assert documented is not None, str(exchange)
            assert document["error"] in documented, f"docs/openapi/ does not name this error:\n{exchange}"
            return
        assert set(document) == {"error"}, str(exchange)
        error = document["error"]
        assert set(error) == {"message", "type", "code", "stack"}, str(exchange)
        assert error["code"] == reply.status, str(exchange)
        assert all(isinstance(text, str) for text in (error["message"], *error["stack"])), str(exchange)
        assert error["message"], str(exchange)
        wire_type = error["type"]
        kind = (reply.status, wire_type)
        assert kind in wire_types(), f"no error has this status and type:\n{exchange}"
        # The server omits the body of a response to HEAD, so it is not documented.
        if exchange.method != "HEAD" and kind not in EVERYWHERE and is_served(exchange.method, exchange.path):
            documented = documented_types(exchange.method, exchange.path, reply.status)
            assert documented is not None, f"docs/openapi/ does not name this status:\n{exchange}"
            assert wire_type in documented, f"docs/openapi/ does not name this type:\n{exchange}"

    @staticmethod
    def _check_success(exchange: Exchange) -> None:
        """According to the document that the case was generated from, unless the method was invented."""
        operation = exchange.case.operation
        if exchange.method.lower() != operation.method.lower():
            return
        reply = exchange.response
        response = Response(
            status_code=reply.status,
            headers={name: [value] for name, value in reply.headers.items()},
            content=reply.body,
            request=exchange.prepared,
            elapsed=0,
            verify=False,
        )
        try:
            operation.validate_response(response, case=exchange.case)
        except FailureGroup as failures:
            reasons = "\n".join(str(failure)[:1500] for failure in failures.exceptions)
            raise AssertionError(f"{reasons}\n{exchange}") from None
