"""Authentication, permissions and TLS of NATS, through configurations as the API and the environment have them."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from events.sinks.configuration import NatsSecrets
from events.sinks.definition import SinkDefinition, read_definition
from events.sinks.opening import open_sink
from events.sinks.port import Sink
from events.sinks.server_configuration import ServerNatsConfiguration
from tests.events.sinks.nats_accounts import Accounts, create_accounts
from tests.events.sinks.nats_subscriber import Subscriber
from tests.events.sinks.sample_events import event, send_failing
from tests.parts.certificates import create_authority
from tests.parts.nats import Nats

pytestmark = pytest.mark.part("nats")

USERS = """
jetstream {}
authorization { users: [
  { user: app, password: canary-password }
  { user: limited, password: canary-password, permissions: { publish: { allow: ["allowed"] } } }
] }
"""
TOKEN = "authorization { token: canary-token }"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    with Nats(tmp_path_factory.mktemp("nats-users"), USERS) as server:
        yield server


@pytest.fixture(scope="module")
def token_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    with Nats(tmp_path_factory.mktemp("nats-token"), TOKEN) as server:
        yield server


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate of an authority; a server certificate for 127.0.0.1 is in its folder."""
    return create_authority(tmp_path_factory.mktemp("authority"))[0]


@pytest.fixture(scope="module")
def tls_server(authority: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    files = f'cert_file: "{authority.with_name("server.pem")}", key_file: "{authority.with_name("server.key")}"'
    with Nats(tmp_path_factory.mktemp("nats-tls"), f"tls {{ {files} }}\n{TOKEN}") as server:
        yield server


@pytest.fixture
def opened() -> Iterator[list[Sink]]:
    sinks: list[Sink] = []
    yield sinks
    for each in sinks:
        each.close()


def open_with(opened: list[Sink], server: Nats, **members: Any) -> Sink:
    document = {"type": "nats", "addresses": [server.url], "subject": "lake", "timeout-seconds": 5} | members
    definition = read_definition(document)
    assert "canary" not in repr(definition)
    assert "canary" not in json.dumps(definition.describe())
    sink = open_sink(definition)
    opened.append(sink)
    assert "canary" not in repr(vars(sink))
    return sink


def test_user_and_password(server: Nats, opened: list[Sink]) -> None:
    options = {"user": "app", "password": "canary-password"}
    with Subscriber(server.url, "lake", **options) as subscriber:
        assert open_with(opened, server, **options).send([event(1)]) == {}
        assert subscriber.wait_for(1) == [event(1).structured]


@pytest.mark.parametrize(
    "members",
    [
        {"user": "app", "password": "canary-wrong"},
        {"user": "other", "password": "canary-password"},
        {"token": "canary-wrong"},
        {},
    ],
)
def test_a_wrong_login_is_an_error(server: Nats, opened: list[Sink], members: dict[str, Any]) -> None:
    message = send_failing(open_with(opened, server, **members), [event(1)], seconds=4)
    assert message == "NATS: Authorization Violation"


def test_a_token(token_server: Nats, opened: list[Sink]) -> None:
    with Subscriber(token_server.url, "lake", token="canary-token") as subscriber:
        assert open_with(opened, token_server, token="canary-token").send([event(1)]) == {}
        assert subscriber.wait_for(1) == [event(1).structured]
    assert send_failing(open_with(opened, token_server, token="canary-no"), [event(1)], seconds=4) == (
        "NATS: Authorization Violation"
    )


@pytest.mark.parametrize("jetstream", [False, True])
def test_a_subject_without_permission_is_an_error(server: Nats, opened: list[Sink], jetstream: bool) -> None:
    """The server reports it without relation to a message, and acknowledges what was sent."""
    sink = open_with(opened, server, user="limited", password="canary-password", jetstream=jetstream)
    for _ in range(2):
        message = send_failing(sink, [event(1), event(2)], seconds=4)
        assert message == 'NATS: permissions violation for publish to "lake"'
    allowed = open_with(opened, server, user="limited", password="canary-password", subject="allowed")
    assert allowed.send([event(1)]) == {}


def test_tls_with_a_private_authority(tls_server: Nats, authority: Path, opened: list[Sink]) -> None:
    address = tls_server.url.replace("nats://", "tls://")
    context = ssl.create_default_context(cafile=authority)
    with Subscriber(address, "lake", token="canary-token", tls=context) as subscriber:
        for each in (address, tls_server.url):  # with `nats://` the server requires TLS
            sink = open_with(
                opened, tls_server, addresses=[each], token="canary-token", **{"ca-certificates": authority.read_text()}
            )
            assert sink.send([event(1)]) == {}
        assert subscriber.wait_for(2) == [event(1).structured] * 2


@pytest.mark.parametrize("scheme", ["nats", "tls"])
def test_an_unknown_certificate_is_an_error(tls_server: Nats, opened: list[Sink], scheme: str) -> None:
    address = tls_server.url.replace("nats://", f"{scheme}://")
    message = send_failing(
        open_with(opened, tls_server, addresses=[address], token="canary-token"), [event(1)], seconds=1
    )
    assert message.startswith("NATS: the TLS certificate of the server is not valid: unable to get local issuer")


@pytest.mark.parametrize("by_authority", [False, True])
def test_credentials_are_not_sent_without_tls(opened: list[Sink], authority: Path, by_authority: bool) -> None:
    """A server that offers no TLS, or an attacker in between, gets nothing."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(5)
                connection.sendall(b'INFO {"server_id":"x","version":"2.9.10","auth_required":true}\r\n')
                try:
                    received.append(connection.recv(4096))
                except OSError:
                    received.append(b"")

        thread = Thread(target=serve, daemon=True)
        thread.start()
        scheme = "nats" if by_authority else "tls"
        document = {
            "type": "nats",
            "addresses": [f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"],
            "subject": "lake",
            "token": "canary-token",
            **({"ca-certificates": authority.read_text()} if by_authority else {}),
        }
        sink = open_sink(read_definition(document))
        opened.append(sink)
        assert send_failing(sink, [event(1)], seconds=4) == "NATS: the server does not offer TLS"
        thread.join(5)
    assert received == [b""]


@pytest.fixture(scope="module")
def accounts() -> Accounts:
    return create_accounts()


@pytest.fixture(scope="module")
def operator_server(accounts: Accounts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    with Nats(tmp_path_factory.mktemp("nats-jwt"), accounts.configuration) as server:
        yield server


def test_credentials(operator_server: Nats, accounts: Accounts, opened: list[Sink], tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    file.write_text(accounts.credentials)
    with Subscriber(operator_server.url, "lake", user_credentials=str(file)) as subscriber:
        carriage_returns = accounts.credentials.replace("\n", "\r\n")
        for each in (accounts.credentials, carriage_returns):
            sink = open_with(opened, operator_server, credentials=each)
            assert sink.send([event(1)]) == {}
            assert accounts.seed not in repr(vars(sink))
        assert subscriber.wait_for(2) == [event(1).structured] * 2
    other = open_with(opened, operator_server, credentials=create_accounts().credentials)
    assert send_failing(other, [event(1)], seconds=4) == "NATS: Authorization Violation"


def test_a_credentials_file_is_read_for_each_connection(
    operator_server: Nats, accounts: Accounts, opened: list[Sink], tmp_path: Path
) -> None:
    file = tmp_path / "user.creds"
    configuration = ServerNatsConfiguration(addresses=[operator_server.url], subject="lake", credentials_file=file)
    sink = open_sink(SinkDefinition(configuration, NatsSecrets()))
    opened.append(sink)
    missing = f"NATS: {file} cannot be read: No such file or directory"
    assert send_failing(sink, [event(1)], seconds=4) == missing
    file.write_text("canary")
    invalid = (
        "NATS: the credentials file must be the content of a credentials file (.creds) with a user JWT and its seed"
    )
    assert send_failing(sink, [event(1)], seconds=4) == invalid
    file.write_text(accounts.credentials)
    assert sink.send([event(1)]) == {}


def test_an_authority_file_of_the_server(tls_server: Nats, authority: Path, opened: list[Sink], tmp_path: Path) -> None:
    address = tls_server.url.replace("nats://", "tls://")
    for file, message in ((authority, None), (tmp_path / "none.pem", "cannot be read: No such file or directory")):
        configuration = ServerNatsConfiguration(addresses=[address], subject="lake", ca_file=file)
        sink = open_sink(SinkDefinition(configuration, NatsSecrets(token="canary-token")))
        opened.append(sink)
        if message is None:
            assert sink.send([event(1)]) == {}
        else:
            assert message in send_failing(sink, [event(1)], seconds=4)
