"""Real receivers of events: NATS, Kafka and a webhook, one server of each kind for the whole run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.parts.certificates import create_authority
from tests.parts.kafka import Kafka
from tests.parts.nats import Nats
from tests.parts.webhook_receiver import WebhookReceiver

KAFKA_USER, KAFKA_PASSWORD = "icekeeper", "canary-kafka-password"


@pytest.fixture(scope="session")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    """A server with JetStream and without authentication."""
    with Nats(tmp_path_factory.mktemp("nats") / "home") as server:
        yield server


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker; its second listener needs TLS and `KAFKA_USER`. The authority is `authority.pem` in its folder."""
    home = tmp_path_factory.mktemp("kafka")
    create_authority(home)
    keys = home / "keys.pem"
    keys.write_text((home / "server.key").read_text() + (home / "server.pem").read_text())
    secured = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys),
        "sasl.enabled.mechanisms": "PLAIN",
        "plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_{KAFKA_USER}="{KAFKA_PASSWORD}";',
    }
    with Kafka(home, secured=secured) as broker:
        yield broker


@pytest.fixture
def webhook() -> Iterator[WebhookReceiver]:
    """A new receiver that responds with 204."""
    with WebhookReceiver() as receiver:
        yield receiver
