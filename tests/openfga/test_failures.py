"""OpenFGA down, hanging, slow, with invalid responses or rejecting the API key: every check is denied, within the
limit, until it is available again.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs

import pytest

from management import health
from tenancy.authz import permissions
from tenancy.authz.actions import Can
from tenancy.authz.openfga import client as openfga_client
from tenancy.authz.openfga.client import ConnectionLimits, OpenFgaConnection, OpenFgaUnavailable
from tenancy.authz.openfga.store import StoreAndModel, install, openfga_store
from tenancy.authz.permissions import is_allowed
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import user
from tests.authz.parity.pair_fixtures import another_user, grant
from tests.harness.wsgi_client import call
from tests.openfga.conftest import ALICE, SECONDS
from tests.openfga_fixtures import choose_openfga, deliver_as_recorded
from tests.parts.openfga import OpenFga

pytestmark = pytest.mark.django_db


def may(tree: dict[str, ObjectRef]) -> bool:
    return is_allowed(ALICE, Can.READ_DATA, *tree["table"])


def require_closed(ask: Callable[[], object]) -> str:
    """Assert the reason in the log."""
    began = time.monotonic()
    with pytest.raises(OpenFgaUnavailable) as refused:
        ask()
    assert time.monotonic() - began < SECONDS
    assert (refused.value.status, refused.value.retry_after) == (503, 5)
    assert refused.value.message == "Permissions cannot be checked at the moment: nothing was changed, try again"
    return refused.value.reason


def back_again(tree: dict[str, ObjectRef]) -> None:
    """Wait until requests are let through again."""
    ends_at = time.monotonic() + SECONDS
    while True:
        try:
            assert may(tree)
        except OpenFgaUnavailable:
            assert time.monotonic() < ends_at
            time.sleep(0.05)
        else:
            return


def test_when_no_server_listens(tree: dict[str, ObjectRef], openfga: OpenFga) -> None:
    assert may(tree)
    with openfga.relay.refusing():
        assert "refused" in require_closed(lambda: may(tree))
    back_again(tree)


def test_when_it_hangs_the_first_wait_and_the_others_do_not(
    tree: dict[str, ObjectRef], openfga: OpenFga, monkeypatch: pytest.MonkeyPatch, requests_sent: list[str]
) -> None:
    monkeypatch.setattr(openfga_client, "RETRY_PAUSE_SECONDS", 60.0)
    with openfga.relay.silent():
        for _ in range(openfga_client.FAILURES_TO_OPEN):
            require_closed(lambda: may(tree))
        requests_sent.clear()
        for _ in range(20):
            assert "a moment ago" in require_closed(lambda: may(tree))
        assert requests_sent == []
    openfga_store()._breaker._next_at = 0
    back_again(tree)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"])
def test_a_timeout_has_one_reason(begun: bytes) -> None:
    """The closed connection is a consequence, not another reason."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def response() -> None:
            client, _ = listener.accept()
            with client:
                client.sendall(begun)
                while client.recv(4096):
                    pass

        threading.Thread(target=response, daemon=True).start()
        connection = OpenFgaConnection(ConnectionLimits(connect=1.0, whole=0.3))
        with pytest.raises(OpenFgaUnavailable) as failure:
            connection.request("GET", f"http://127.0.0.1:{listener.getsockname()[1]}/stores", body=None, headers={})
    assert failure.value.reason in {"ReadTimeoutError: no response in time", "TimeoutError: no response in time"}


NONSENSE = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n<html>hello</html> ",
    b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"result":null}',
    b'HTTP/1.1 200 OK\r\nContent-Length: 37\r\n\r\n{"result":{"0":{"allowed":"true"}}}  ',
    b'HTTP/1.1 200 OK\r\nContent-Length: 34\r\n\r\n{"result":{"1":{"allowed":true}}}  ',
    b'HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"result":{"0":{"allowed":true}}}',
    b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\n{}",
    b"\x00\x00\x12\x04\x00\x00\x00\x00\x00",
    b"",
]


class Talker:
    """A server that sends the same bytes on every connection, one by one with `pause` between them."""

    def __init__(self, said: bytes, pause: float = 0.0) -> None:
        self._said, self._pause = said, pause
        self.taken = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.taken += 1
            threading.Thread(target=self._talk, args=(client,), daemon=True).start()

    def _talk(self, client: socket.socket) -> None:
        with client:
            try:
                client.recv(65_536)
                if not self._pause:
                    client.sendall(self._said)
                    return
                for byte in self._said:
                    client.sendall(bytes([byte]))
                    time.sleep(self._pause)
            except OSError:
                return


@pytest.fixture
def talking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Talker]]:
    """Replace OpenFGA, whose store and model are cached already, by such a server."""
    started: list[Talker] = []

    def talk(said: bytes, pause: float = 0.0) -> Talker:
        location = openfga_store().resolve()
        started.append(Talker(said, pause))
        choose_openfga(monkeypatch, endpoint=started[-1].url)
        openfga_store()._target, openfga_store()._has_responded = location, True
        return started[-1]

    yield talk
    for each in started:
        each.close()


@pytest.mark.parametrize("said", NONSENSE, ids=range(len(NONSENSE)))
def test_when_it_talks_nonsense(tree: dict[str, ObjectRef], talking: Callable[..., Talker], said: bytes) -> None:
    talking(said)
    require_closed(lambda: may(tree))


def test_on_a_new_connection_nothing_is_sent_twice(tree: dict[str, ObjectRef], talking: Callable[..., Talker]) -> None:
    talker = talking(b"")
    require_closed(lambda: may(tree))
    assert talker.taken == 1


def test_when_it_drips(tree: dict[str, ObjectRef], talking: Callable[..., Talker]) -> None:
    talking(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b" " * 5000, 0.02)
    require_closed(lambda: may(tree))


def test_when_its_head_drips(tree: dict[str, ObjectRef], talking: Callable[..., Talker]) -> None:
    talking(b"HTTP/1.1 200 OK\r\n" + b"X-More: more\r\n" * 500, 0.02)
    require_closed(lambda: may(tree))


def test_with_a_wrong_key(tree: dict[str, ObjectRef], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenFga(tmp_path / "home", preshared_key="canary-right-key") as guarded:
        choose_openfga(monkeypatch, endpoint=guarded.url, api_key="canary-right-key")
        install(openfga_store())
        deliver_as_recorded(openfga_store())
        assert may(tree)
        choose_openfga(monkeypatch, endpoint=guarded.url, api_key="canary-wrong-key")
        reason = require_closed(lambda: may(tree))
        assert "401" in reason
        assert "canary" not in reason
        assert "canary" not in repr(openfga_store().__dict__)


def test_when_its_store_is_created_again(tree: dict[str, ObjectRef]) -> None:
    """The process discards the cached ids of the old store without a restart."""
    assert may(tree)
    store = openfga_store()
    store._target = StoreAndModel("01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert may(tree)
    assert store._target == store.resolve()


def test_where_nothing_was_installed_it_says_what_to_do(
    tree: dict[str, ObjectRef], openfga: OpenFga, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_openfga(monkeypatch, store_name="nothing here")
    assert "run manage.py migrate" in require_closed(lambda: may(tree))
    choose_openfga(monkeypatch, store_name="nothing here", authorization_model_version="0.1")
    with pytest.raises(OpenFgaUnavailable):
        install(openfga_store())


def test_a_token_with_too_many_roles_is_refused(tree: dict[str, ObjectRef]) -> None:
    from tenancy.authz.openfga.backend import MAX_CONTEXTUAL_TUPLES, TooManyTokenRoles
    from tests.authz.tree_fixtures import role

    names = [f"r{number}" for number in range(MAX_CONTEXTUAL_TUPLES)]
    for name in names:
        role(name, source=name)
    grant(tree["table"], "select", user_id=another_user("oidc~many"))
    deliver_as_recorded(openfga_store())
    assert is_allowed(user("many", *names[:90]), Can.READ_DATA, *tree["table"])
    with pytest.raises(TooManyTokenRoles):
        is_allowed(user("many", *names), Can.READ_DATA, *tree["table"])


def test_what_one_object_costs(tree: dict[str, ObjectRef], requests_sent: list[str]) -> None:
    """One request for all checks of it, and statements only where it might be visible because of an object below it."""
    from tenancy.authz.permission_epoch import permission_epoch
    from tests.harness.statement_counts import counting

    may(tree)
    asked = [(action, tree["table"]) for action in (Can.GET_METADATA, Can.READ_DATA, Can.WRITE_DATA, Can.GRANT_SELECT)]
    permission_epoch.poll()
    try:
        permissions.check_permissions(ALICE, asked)
        requests_sent.clear()
        with counting() as costs:
            assert permissions.check_permissions(ALICE, asked) == [True, True, True, True]
        assert (requests_sent, dict(costs)) == (["batch-check"], {})
        permissions.check_permissions(ALICE, [(Can.USE, tree["wh"])])  # from now on alice's roles are cached
        requests_sent.clear()
        with counting() as costs:
            assert permissions.check_permissions(ALICE, [(Can.USE, tree["wh"]), (Can.LIST_EVERYTHING, tree["wh"])]) == [
                True,
                True,
            ]
        assert (requests_sent, dict(costs)) == (["batch-check"], {"statements": 1})
        requests_sent.clear()
        many = [(each, ref) for ref in tree.values() for each in (Can.GET_METADATA, Can.READ_GRANTS)]
        permissions.check_permissions(
            ALICE, [(action, ref) for _, ref in many for action in (Can.GET_METADATA, Can.READ_GRANTS)]
        )
        assert requests_sent == ["batch-check"]
    finally:
        permission_epoch.invalidate()


class TokenEndpoint(BaseHTTPRequestHandler):
    """A stand-in for an identity provider: returns the tokens of `tokens` in order, and then the last one
    permanently.
    """

    tokens: ClassVar[list[str]] = []
    forms: ClassVar[list[dict[str, list[str]]]] = []

    def do_POST(self) -> None:
        self.forms.append(parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        token = self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]
        body = json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": 3600}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_with_client_credentials(tree: dict[str, ObjectRef], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One token for many requests, and another one as soon as OpenFGA rejects it."""
    TokenEndpoint.tokens, TokenEndpoint.forms = ["canary-old", "canary-new"], []
    endpoint = ThreadingHTTPServer(("127.0.0.1", 0), TokenEndpoint)
    threading.Thread(target=endpoint.serve_forever, daemon=True).start()
    with OpenFga(tmp_path / "home", preshared_key="canary-new") as guarded:
        choose_openfga(
            monkeypatch,
            endpoint=guarded.url,
            client_id="me",
            client_secret="canary-secret",
            token_endpoint=f"http://127.0.0.1:{endpoint.server_port}/token",
            scope="fga",
        )
        install(openfga_store())
        deliver_as_recorded(openfga_store())
        assert may(tree)
        asked = {"grant_type": ["client_credentials"], "client_id": ["me"], "client_secret": ["canary-secret"]}
        assert TokenEndpoint.forms == [{**asked, "scope": ["fga"]}] * 2
        assert "canary" not in repr(openfga_store().__dict__) + repr(openfga_store()._credential.__dict__["_client"])
        endpoint.shutdown()
        endpoint.server_close()
        assert may(tree)  # the token is cached
        openfga_store()._credential.renew()
        assert "refused" in require_closed(lambda: may(tree))


def test_health_reports_it(by_openfga: object, openfga: OpenFga, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_database_checks", lambda: ())
    seen = []
    for away in (contextlib.nullcontext(), openfga.relay.refusing(), contextlib.nullcontext()):
        health._authorization_checks.cache_clear()
        openfga_store()._breaker._failures = 0
        with away:
            response = call("GET", "/health")
        seen.append((response.status, [(each["name"], each["status"]) for each in response.json()["services"]["auth"]]))
    health._authorization_checks.cache_clear()
    assert seen == [(200, [("openfga", "ok")]), (503, [("openfga", "error")]), (200, [("openfga", "ok")])]
