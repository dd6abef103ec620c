"""Settings of librdkafka that the API allows: none that reads a file, loads a library or runs a command."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException, Producer

from events.sinks.kafka_settings import (
    PUBLIC_SETTINGS,
    SECRET_SETTINGS,
    check_api_settings,
    check_settings,
    is_secret,
    list_servers,
)

SERVERS = {"bootstrap.servers": "kafka:9092"}

DANGEROUS = (
    "plugin.library.paths",
    "ssl.key.location",
    "ssl.certificate.location",
    "ssl.ca.location",
    "ssl.ca.certificate.stores",
    "ssl.crl.location",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.engine.location",
    "ssl.engine.id",
    "ssl.providers",
    "https.ca.location",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.keytab",
    "sasl.kerberos.principal",
    "sasl.kerberos.service.name",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.metadata.authentication.type",
    "enable.sasl.oauthbearer.unsecure.jwt",
    "builtin.features",
    "metadata.broker.list",
    "debug",
    "log_level",
    "interceptor.classes",
    "message.timeout.ms",
    "transactional.id",
    "error_cb",
    "oauth_cb",
    "logger",
    "dr_msg_cb",
    "on_delivery",
)


@pytest.mark.parametrize("name", DANGEROUS)
def test_the_api_does_not_allow_it(name: str) -> None:
    with pytest.raises(ValueError, match=r"^.+ is not a setting that the API allows") as denied:
        check_api_settings(SERVERS | {name: "canary"})
    assert str(denied.value).startswith(name)
    assert "canary" not in str(denied.value)
    assert is_secret(name)


def test_no_setting_of_the_api_names_a_file() -> None:
    words = ("location", "file", "path", "cmd", "keytab", "engine", "provider", "plugin", "_cb", "directory", "stores")
    assert [name for name in PUBLIC_SETTINGS | SECRET_SETTINGS if any(word in name for word in words)] == []


@pytest.mark.parametrize("name", sorted(PUBLIC_SETTINGS | SECRET_SETTINGS))
def test_librdkafka_knows_it(name: str) -> None:
    """Its value may be invalid, but the name must exist in the version that is installed."""
    message = ""
    try:
        Producer({name: "no such value"})
    except KafkaException as error:
        message = str(error)
    assert "No such configuration property" not in message


@pytest.mark.parametrize("name", sorted(PUBLIC_SETTINGS))
def test_a_public_setting_has_no_secret(name: str) -> None:
    assert not is_secret(name)
    assert not any(word in name for word in ("password", "secret", "key.pem", "key.password", "jaas"))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanisms must be one of OAUTHBEARER, PLAIN, SCRAM"),
        ({"security.protocol": "sasl_plaintext", "sasl.mechanism": "gssapi"}, "sasl.mechanisms must be one of"),
        ({"sasl.mechanisms": "GSSAPI"}, "sasl.mechanisms must be one of"),
        ({"sasl.mechanisms": "PLAIN", "sasl.mechanism": "GSSAPI"}, "sasl.mechanisms must be one of"),
        ({"bootstrap.servers": ",".join(["kafka"] * 17)}, "bootstrap.servers must have at most 16 servers"),
        ({"sasl.mechanisms": "OAUTHBEARER"}, "sasl.oauthbearer.method must be oidc"),
        ({"sasl.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.method": "default"}, "sasl.oauthbearer.method must be"),
        ({"acks": "1"}, "acks must be all"),
        ({"partitioner": "random"}, "partitioner must be one of consistent"),
        ({"bootstrap.servers": ""}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": "kafka:0"}, "bootstrap.servers must be a list of hosts and ports"),
        ({"bootstrap.servers": "a b"}, "bootstrap.servers must be a list of hosts and ports"),
        ({"client.id": "x" * 65_537}, "client.id must have at most 65536 characters"),
        ({"client.id": "x\0"}, "client.id must have at most 65536 characters, without NUL"),
    ],
)
def test_values_that_the_api_does_not_allow(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}"):
        check_api_settings(SERVERS | settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"acks": "all", "compression.type": "zstd", "enable.idempotence": "false"},
        {"acks": "-1", "partitioner": "murmur2_random"},
        {"security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.password": "canary"},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"},
        {"security.protocol": "SSL", "ssl.key.pem": "canary", "ssl.certificate.pem": "x"},
    ],
)
def test_values_that_the_api_allows(settings: dict[str, str]) -> None:
    check_api_settings(SERVERS | settings)


@pytest.mark.parametrize("name", ["plugin.library.paths", "ssl.key.location", "sasl.kerberos.keytab", "debug"])
def test_the_environment_allows_files(name: str) -> None:
    check_settings(SERVERS | {name: "/etc/kafka/x"})


@pytest.mark.parametrize("name", ["transactional.id", "error_cb", "oauth_cb", "logger", "dr_msg_cb", "on_delivery"])
def test_the_environment_does_not_allow_what_deliveries_depend_on(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} cannot be set: deliveries depend on it$"):
        check_settings(SERVERS | {name: "x"})


def test_servers() -> None:
    text = "kafka-1:9093, kafka-2, [::1]:9094,SSL://kafka-3:1"
    assert list_servers(text) == [("kafka-1", 9093), ("kafka-2", 9092), ("::1", 9094), ("kafka-3", 1)]
