"""Sinks of the environment of the server (`LAKEKEEPER__NATS_*`, `KAFKA_*`, `LOG_CLOUDEVENTS`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from django.conf import settings
from pydantic import SecretStr

from events.sinks.configuration import (
    KafkaConfiguration,
    KafkaSecrets,
    LogConfiguration,
    LogSecrets,
    NatsConfiguration,
    NatsSecrets,
)
from events.sinks.definition import SinkDefinition
from events.sinks.kafka_settings import is_secret


class ServerNatsConfiguration(NatsConfiguration):
    """NATS as the operator configures it, with files that are read for each connection."""

    is_restricted: ClassVar[bool] = False

    credentials_file: Path | None = None
    ca_file: Path | None = None


class ServerKafkaConfiguration(KafkaConfiguration):
    """Kafka as the operator configures it, with any setting."""

    is_restricted: ClassVar[bool] = False


def sinks_of_settings() -> dict[str, SinkDefinition]:
    """Return the sinks of the environment by name: `nats`, `kafka` and `log`, those that are configured.

    Reads KAFKA_CONFIG_FILE. Raises ValueError, without values, if it cannot be read or has unusable settings.
    """
    own = settings.ICEKEEPER
    sinks: dict[str, SinkDefinition] = {}
    if own.nats_address is not None and own.nats_topic is not None:
        sinks["nats"] = SinkDefinition(
            ServerNatsConfiguration(
                addresses=own.nats_address.split(","),
                subject=own.nats_topic,
                jetstream=own.events.nats_jetstream,
                user=own.nats_user,
                credentials_file=own.nats_creds_file,
                ca_file=own.events.nats_ca_bundle,
            ),
            NatsSecrets(password=own.nats_password, token=own.nats_token),
        )
    if own.kafka_topic is not None:
        sinks["kafka"] = _kafka_definition(own.kafka_topic, own.read_kafka_settings())
    if own.log_cloudevents:
        sinks["log"] = SinkDefinition(LogConfiguration(), LogSecrets())
    return sinks


def _kafka_definition(topic: str, given: Mapping[str, SecretStr]) -> SinkDefinition:
    public = {name: value.get_secret_value() for name, value in given.items() if not is_secret(name)}
    secret = {name: value for name, value in given.items() if is_secret(name)}
    return SinkDefinition(ServerKafkaConfiguration(topic=topic, settings=public), KafkaSecrets(settings=secret))
