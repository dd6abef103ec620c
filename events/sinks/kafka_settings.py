"""Settings of librdkafka in configurations of Kafka sinks: which are allowed, and which are secret.

An administrator who creates a sink by the API must not let the server load a library, read a file, run a command
(`sasl.kerberos.kinit.cmd`) or use its own identity in a cloud. So only the settings below are allowed there. In the
environment of the server any setting is allowed, except those that deliveries depend on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

MAX_SETTINGS: Final = 100
MAX_SERVERS: Final = 16
MAX_VALUE_CHARACTERS: Final = 65_536

SECRET_SETTINGS: Final = frozenset(
    {
        "sasl.password",
        "sasl.oauthbearer.client.secret",
        "ssl.key.password",
        "ssl.key.pem",
    }
)
PUBLIC_SETTINGS: Final = frozenset(
    {
        "acks",
        "allow.auto.create.topics",
        "api.version.request",
        "batch.num.messages",
        "batch.size",
        "bootstrap.servers",
        "broker.address.family",
        "broker.address.ttl",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "compression.codec",
        "compression.level",
        "compression.type",
        "connections.max.idle.ms",
        "enable.idempotence",
        "enable.ssl.certificate.verification",
        "https.ca.pem",
        "linger.ms",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "message.max.bytes",
        "message.send.max.retries",
        "metadata.max.age.ms",
        "partitioner",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queue.buffering.max.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.required.acks",
        "request.timeout.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.username",
        "security.protocol",
        "socket.keepalive.enable",
        "socket.nagle.disable",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "ssl.ca.pem",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.curves.list",
        "ssl.endpoint.identification.algorithm",
        "ssl.sigalgs.list",
        "sticky.partitioning.linger.ms",
    }
)
"""Settings that are allowed in the API and shown. The API allows no others but `SECRET_SETTINGS`."""

MECHANISMS: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"})
"""Mechanisms of the API. GSSAPI, the default of librdkafka, runs a command and reads a file."""

PARTITIONERS: Final = frozenset(
    {"consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"}
)
"""Partitioners that send all messages of a key to one partition; `_random` is about messages without a key."""

_OWN: Final = frozenset({"transactional.id", "logger", "delivery.report.only.error", "default.topic.config"})
_OWN_ENDINGS: Final = ("_cb", ".cb", "on_delivery", "on_commit")
_MECHANISM: Final = ("sasl.mechanisms", "sasl.mechanism")
_ACKS: Final = ("acks", "request.required.acks")
_HOST: Final = re.compile(
    r"(?:[A-Za-z_]+://)?(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?"
)
_DEFAULT_PORT: Final = 9092


def is_secret(name: str) -> bool:
    """Return whether a setting is hidden: each that is not known to be public."""
    return name not in PUBLIC_SETTINGS


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise ValueError, without values, for settings with which deliveries would not work or lose events."""
    if len(settings) > MAX_SETTINGS:
        raise ValueError(f"at most {MAX_SETTINGS} settings")
    if not settings.get("bootstrap.servers"):
        raise ValueError("bootstrap.servers is missing")
    for name, value in settings.items():
        if name in _OWN or name.endswith(_OWN_ENDINGS):
            raise ValueError(f"{name} cannot be set: deliveries depend on it")
        if len(value) > MAX_VALUE_CHARACTERS or "\0" in value:
            raise ValueError(f"{name} must have at most {MAX_VALUE_CHARACTERS} characters, without NUL")
        if name in _ACKS and value.strip().lower() not in {"all", "-1"}:
            raise ValueError(f"{name} must be all: events that only one broker has can be lost")
        if name == "partitioner" and value.strip().lower() not in PARTITIONERS:
            raise ValueError(
                f"partitioner must be one of {', '.join(sorted(PARTITIONERS))}: events have an order by key"
            )


def check_api_settings(settings: Mapping[str, str]) -> None:
    """Raise ValueError, without values, for settings that the API does not allow."""
    for name in sorted(settings):
        if name not in PUBLIC_SETTINGS | SECRET_SETTINGS:
            raise ValueError(
                f"{name} is not a setting that the API allows (LAKEKEEPER__KAFKA_CONFIG of the server allows others)"
            )
    check_settings(settings)
    list_servers(settings["bootstrap.servers"])
    mechanisms = {settings[name].upper() for name in _MECHANISM if name in settings}
    needs_mechanism = settings.get("security.protocol", "plaintext").lower().startswith("sasl")
    if mechanisms - MECHANISMS or (needs_mechanism and not mechanisms):
        raise ValueError(f"sasl.mechanisms must be one of {', '.join(sorted(MECHANISMS))}")
    if "OAUTHBEARER" in mechanisms and settings.get("sasl.oauthbearer.method", "").lower() != "oidc":
        raise ValueError("sasl.oauthbearer.method must be oidc")


def list_servers(text: str) -> list[tuple[str, int]]:
    """Return host and port of each server of `bootstrap.servers`. Raises ValueError for an invalid list."""
    servers: list[tuple[str, int]] = []
    items = text.split(",")
    if len(items) > MAX_SERVERS:
        raise ValueError(f"bootstrap.servers must have at most {MAX_SERVERS} servers")
    for item in items:
        matched = _HOST.fullmatch(item.strip())
        port = int(matched["port"] or _DEFAULT_PORT) if matched else 0
        if matched is None or not 0 < port < 65536:  # noqa: PLR2004
            raise ValueError("bootstrap.servers must be a list of hosts and ports such as kafka-1:9092,kafka-2:9092")
        servers.append((matched["six"] or matched["name"], port))
    return servers
