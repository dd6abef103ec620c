"""No secret of an event sink is returned, recorded or logged, whatever goes wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from events.models import EventSink
from storage.models import Secret
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.test_warehouse_storage import rows
from tests.management.warehouse_request_fixtures import keep_secrets
from tests.security.canary_fixtures import CANARY, leaks
from tests.security.test_canaries import at_debug, run

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("bootstrapped")]

api = ApiClient("/management/v1/event-sinks")
NKEY = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
CREDENTIALS = (
    f"-----BEGIN NATS USER JWT-----\nx.{CANARY}.y\n------END NATS USER JWT------\n"
    f"-----BEGIN USER NKEY SEED-----\n{NKEY}\n------END USER NKEY SEED------\n"
)
NATS = {"type": "nats", "addresses": ["nats://127.0.0.1:9"], "subject": "a", "timeout-seconds": 1}
KAFKA = {"bootstrap.servers": "127.0.0.1:9", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN"}

CONFIGURATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "webhook": (
        {"type": "webhook", "url": "http://127.0.0.1:9/hook", "timeout-seconds": 1},
        {"query": f"key={CANARY}", "headers": {"Authorization": f"Bearer {CANARY}"}},
    ),
    "nats with a password": (NATS | {"user": "icekeeper"}, {"password": CANARY}),
    "nats with a token": (NATS, {"token": CANARY}),
    "kafka": (
        {"type": "kafka", "topic": "t", "timeout-seconds": 3},
        {"settings": KAFKA | {"sasl.username": "icekeeper", "sasl.password": CANARY}},
    ),
}


def broken(configuration: dict[str, Any], secrets: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Configurations that are invalid at each secret in turn, and at another member with all secrets."""
    for member in secrets:
        for wrong in (7, [CANARY], [[CANARY]], {CANARY: CANARY}, f"{CANARY}\x00", CANARY * 20_000):
            yield configuration | secrets | {member: wrong}
    yield configuration | secrets | {"timeout-seconds": CANARY}
    yield configuration | secrets | {"credentials": CREDENTIALS.replace(NKEY, CANARY)}
    yield configuration | secrets | {"signing-secrets": [f"whsec_{CANARY}"]}
    yield {"type": "log"} | secrets


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_no_secret_of_a_sink_is_returned_recorded_or_logged(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_secrets(monkeypatch)
    configuration, secrets = CONFIGURATIONS[kind]
    whole = {**configuration, **secrets}
    body = {"name": "a", "configuration": whole}
    out: list[bytes] = []
    with at_debug() as log:
        created = api.post("", body)
        assert created.status == 201, created.body
        own = ApiClient(f"/management/v1/event-sinks/{created.json()['id']}")
        responses: list[Response] = [
            created, own.get(), api.get(), own.post("/test"), own.put("", created.json() | {"name": "b"}),
            own.put("", created.json() | body | {"version": 2}), api.post("", body),
            api.post("", raw=json.dumps(body).encode()[:-1]),
            *(api.post("", {"name": "c", "configuration": each}) for each in broken(configuration, secrets)),
            *(own.put("", created.json() | {"version": 3, "configuration": each})
              for each in broken(configuration, secrets)),
        ]  # fmt: skip
        assert [each.status for each in responses[:5]] == [201, 200, 200, 502, 200]
        out += [run("events", "status"), run("events", "status", "--json"), run("events", "test", "a")]
        out.append(rows())
        row = EventSink.objects.get(name="a")
        out += [repr(row).encode(), str(vars(row)).encode()]
        Secret.objects.update(ciphertext=b"broken")
        responses += [own.get(), own.post("/test"), own.put("", created.json() | {"version": 3})]
        out += [run("events", "test", "a"), run("check_secrets")]
        responses.append(own.delete())
    out += [each.body + repr(each.headers).encode() for each in responses]
    out.append(rows())
    assert not leaks("\n".join(log.written).encode())
    assert [leak for each in out for leak in leaks(each)] == []
