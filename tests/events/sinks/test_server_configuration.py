"""Sinks of the environment of the server."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings

from events.sinks.configuration import KafkaSecrets, LogConfiguration, NatsSecrets
from events.sinks.definition import read_definition
from events.sinks.opening import open_sink, require_permitted_addresses
from events.sinks.port import DeliveryError
from events.sinks.server_configuration import ServerKafkaConfiguration, ServerNatsConfiguration, sinks_of_settings
from icekeeper.conf.environment import read_settings
from storage.network.endpoints import EndpointNotPermitted
from tests.events.sinks.kafka_topic import read_topic
from tests.events.sinks.nats_subscriber import Subscriber
from tests.events.sinks.sample_events import event
from tests.parts.kafka import Kafka
from tests.parts.nats import Nats


def use_environment(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    own, unread = read_settings({name if "__" in name else f"LAKEKEEPER__{name}": text
                                 for name, text in variables.items()})  # fmt: skip
    assert unread == []
    monkeypatch.setattr(settings, "ICEKEEPER", own)


def test_without_variables_there_are_no_sinks(monkeypatch: pytest.MonkeyPatch) -> None:
    use_environment(monkeypatch)
    assert sinks_of_settings() == {}


def test_the_variables_of_lakekeeper(monkeypatch: pytest.MonkeyPatch) -> None:
    use_environment(
        monkeypatch,
        NATS_ADDRESS="nats://nats-1:4222,tls://nats-2",
        NATS_TOPIC="iceberg",
        NATS_USER="test",
        NATS_PASSWORD="canary-1",
        KAFKA_TOPIC="iceberg",
        KAFKA_CONFIG='{"bootstrap.servers"="kafka:9092","sasl.password"="canary-2","ssl.key.location"="/canary-3"}',
        LOG_CLOUDEVENTS="true",
        ICEKEEPER__EVENTS__NATS_JETSTREAM="true",
        ICEKEEPER__EVENTS__NATS_CA_BUNDLE="/ca.pem",
    )
    sinks = sinks_of_settings()
    assert list(sinks) == ["nats", "kafka", "log"]
    assert sinks["nats"] == (
        ServerNatsConfiguration(
            addresses=["nats://nats-1:4222", "tls://nats-2:4222"],
            subject="iceberg",
            jetstream=True,
            user="test",
            ca_file=Path("/ca.pem"),
        ),
        NatsSecrets(password="canary-1"),
    )
    assert sinks["kafka"] == (
        ServerKafkaConfiguration(topic="iceberg", settings={"bootstrap.servers": "kafka:9092"}),
        KafkaSecrets(settings={"sasl.password": "canary-2", "ssl.key.location": "/canary-3"}),
    )
    assert isinstance(sinks["log"].configuration, LogConfiguration)
    for each in sinks.values():
        assert "canary" not in repr(each) + repr(each.describe())


def test_an_unusable_file_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_environment(monkeypatch, KAFKA_TOPIC="t", KAFKA_CONFIG_FILE=str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"^LAKEKEEPER__KAFKA_CONFIG_FILE cannot be read: No such file or directory$"):
        sinks_of_settings()


def test_addresses_of_the_operator_are_not_restricted(monkeypatch: pytest.MonkeyPatch) -> None:
    use_environment(
        monkeypatch,
        NATS_ADDRESS="169.254.169.254",
        NATS_TOPIC="t",
        KAFKA_TOPIC="t",
        KAFKA_CONFIG='{"bootstrap.servers"="169.254.169.254:9092"}',
    )
    for each in sinks_of_settings().values():
        require_permitted_addresses(each.configuration)


@pytest.mark.part("nats")
def test_nats_of_the_environment(nats: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    use_environment(monkeypatch, NATS_ADDRESS=nats.url, NATS_TOPIC="environment")
    sink = open_sink(sinks_of_settings()["nats"])
    with Subscriber(nats.url, "environment") as subscriber:
        assert sink.send([event(1)]) == {}
        assert subscriber.wait_for(1) == [event(1).structured]
    sink.close()


@pytest.mark.part("kafka")
def test_kafka_of_the_environment(kafka: Kafka, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`message.timeout.ms`, which examples of librdkafka set, has no effect."""
    file = tmp_path / "kafka.properties"
    file.write_text(f"bootstrap.servers={kafka.bootstrap}\nmessage.timeout.ms=1\nssl.key.password=canary\n")
    use_environment(monkeypatch, KAFKA_TOPIC="environment", KAFKA_CONFIG_FILE=str(file))
    sink = open_sink(sinks_of_settings()["kafka"])
    assert sink.send([event(1)]) == {}
    sink.close()
    assert [each.value() for each in read_topic(kafka.bootstrap, "environment", key="key-1")] == [event(1).data]


@pytest.mark.parametrize(
    "document",
    [
        {"type": "nats", "addresses": ["nats://127.0.0.1:1", "nats://169.254.169.254"], "subject": "t"},
        {"type": "nats", "addresses": ["nats://[::ffff:169.254.169.254]:4222"], "subject": "t"},
        {"type": "kafka", "topic": "t", "settings": {"bootstrap.servers": "127.0.0.1:1,169.254.169.254:9092"}},
        {
            "type": "kafka",
            "topic": "t",
            "settings": {
                "bootstrap.servers": "127.0.0.1:1",
                "security.protocol": "SASL_SSL",
                "sasl.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": "http://metadata.google.internal/token",
            },
        },
        {"type": "webhook", "url": "http://100.100.100.200/"},
    ],
)
def test_addresses_of_the_api_are_restricted(document: dict[str, object]) -> None:
    definition = read_definition(document)
    with pytest.raises(EndpointNotPermitted, match="are not allowed"):
        require_permitted_addresses(definition.configuration)
    sink = open_sink(definition)
    with pytest.raises(DeliveryError, match="are not allowed"):
        sink.send([event(1)])
    sink.close()


@pytest.mark.parametrize(
    ("allowed", "reason"),
    [
        ("127.0.0.1", None),
        ("127.0.0.1:4222", None),
        ("127.0.0.1:4223", "not in ICEKEEPER__STORAGE__ALLOWED_ENDPOINTS"),
        ("https://127.0.0.1:4222", "not in ICEKEEPER__STORAGE__ALLOWED_ENDPOINTS"),
        ("[]", "not in ICEKEEPER__STORAGE__ALLOWED_ENDPOINTS"),
    ],
)
def test_allowed_endpoints_apply_to_other_protocols(
    monkeypatch: pytest.MonkeyPatch, allowed: str, reason: str | None
) -> None:
    """An entry with a scheme is for HTTP alone."""
    use_environment(
        monkeypatch,
        ICEKEEPER__STORAGE__ALLOWED_ENDPOINTS=allowed,
        ICEKEEPER__STORAGE__ALLOW_PRIVATE_ENDPOINTS="false",
        ICEKEEPER__STORAGE__ALLOW_HTTP_ENDPOINTS="false",
    )
    configuration = read_definition({"type": "nats", "addresses": ["127.0.0.1"], "subject": "t"}).configuration
    if reason is None:
        require_permitted_addresses(configuration)
    else:
        with pytest.raises(EndpointNotPermitted, match=reason):
            require_permitted_addresses(configuration)
