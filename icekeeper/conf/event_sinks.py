"""Lakekeeper's settings of events: where the server publishes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr

from events.sinks.configuration import read_nats_address, read_subject, read_topic
from events.sinks.kafka_settings import check_settings
from icekeeper.conf.external_services import Secret
from icekeeper.conf.groups import EventSettings
from icekeeper.conf.parsing import parse_value

KAFKA_SYNTAX = '{"bootstrap.servers"="kafka-1:9092,kafka-2:9092","security.protocol"="SSL"}'
MAX_FILE_BYTES = 1_048_576


def _addresses(text: str) -> str:
    return ",".join(read_nats_address(each) for each in text.split(","))


def _kafka_settings(value: object) -> object:
    """Return the settings in Lakekeeper's syntax. Raises ValueError without values."""
    if not isinstance(value, str):
        return value
    try:
        settings = parse_value(value)
    except ValueError as error:
        raise ValueError(f"settings such as {KAFKA_SYNTAX}: {error}") from None
    return _require_texts(settings)


def _require_texts(settings: object) -> Mapping[str, str]:
    if not isinstance(settings, dict) or not all(isinstance(each, str) for each in settings.values()):
        raise ValueError(f"settings such as {KAFKA_SYNTAX}, with quoted text as values")
    return settings


def _check_kafka_settings(settings: dict[str, SecretStr]) -> dict[str, SecretStr]:
    check_settings({name: value.get_secret_value() for name, value in settings.items()})
    return settings


KafkaSettings = Annotated[dict[str, SecretStr], BeforeValidator(_kafka_settings), AfterValidator(_check_kafka_settings)]


class EventSinkSettings(BaseModel):
    """`LAKEKEEPER__NATS_*`, `KAFKA_*`, `LOG_CLOUDEVENTS`. A part of `Settings`, not a group."""

    nats_address: Annotated[str, AfterValidator(_addresses)] | None = Field(
        None,
        description="Publish events to NATS: URL of the server, such as nats://nats:4222 or tls://nats:4222, or a "
        "comma list of the servers of a cluster. Requires NATS_TOPIC",
    )
    nats_topic: Annotated[str, AfterValidator(read_subject)] | None = Field(
        None, description="Subject to which events are published"
    )
    nats_user: str | None = Field(None, description="User of NATS, with NATS_PASSWORD")
    nats_password: Secret | None = Field(None, description="Password of NATS_USER")
    nats_creds_file: Path | None = Field(
        None, description="Credentials file of NATS (`.creds`), instead of a user; read for each connection"
    )
    nats_token: Secret | None = Field(None, description="Token of NATS, instead of a user")
    kafka_topic: Annotated[str, AfterValidator(read_topic)] | None = Field(
        None, description="Publish events to Kafka: the topic. Requires KAFKA_CONFIG or KAFKA_CONFIG_FILE"
    )
    kafka_config: KafkaSettings | None = Field(
        None,
        description="Settings of librdkafka, such as `" + KAFKA_SYNTAX + "`. Takes precedence over KAFKA_CONFIG_FILE",
    )
    kafka_config_file: Path | None = Field(
        None,
        description="File with settings of librdkafka: in the syntax of KAFKA_CONFIG, in JSON, or lines `name=value`",
    )
    log_cloudevents: bool = Field(default=False, description="Log each event, in the field `event` of a log line")

    def check_event_sinks(self, own: EventSettings) -> None:
        """Raise ValueError that names the missing or superfluous settings."""
        self._check_nats(own)
        has_settings = self.kafka_config is not None or self.kafka_config_file is not None
        if has_settings and self.kafka_topic is None:
            name = "KAFKA_CONFIG" if self.kafka_config is not None else "KAFKA_CONFIG_FILE"
            raise ValueError(f"LAKEKEEPER__{name} is set without LAKEKEEPER__KAFKA_TOPIC: {_cure('KAFKA_TOPIC', name)}")
        if self.kafka_topic is not None and not has_settings:
            raise ValueError(
                "LAKEKEEPER__KAFKA_TOPIC is set without LAKEKEEPER__KAFKA_CONFIG and LAKEKEEPER__KAFKA_CONFIG_FILE: "
                f"{_cure('KAFKA_CONFIG', 'KAFKA_TOPIC')}"
            )

    def read_kafka_settings(self) -> Mapping[str, SecretStr]:
        """Return the settings of KAFKA_CONFIG, else of KAFKA_CONFIG_FILE, which is read now; empty without either.

        Raises ValueError, without values, for a file that cannot be read or has unusable settings.
        """
        if self.kafka_config is not None:
            return self.kafka_config
        if self.kafka_config_file is None:
            return {}
        try:
            with self.kafka_config_file.open("rb") as file:
                text = file.read(MAX_FILE_BYTES).decode()
            settings = {name: SecretStr(value) for name, value in _read_file(text).items()}
            return _check_kafka_settings(settings)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ValueError(f"LAKEKEEPER__KAFKA_CONFIG_FILE cannot be read: {reason}") from None
        except UnicodeDecodeError:
            raise ValueError("LAKEKEEPER__KAFKA_CONFIG_FILE is not UTF-8") from None
        except ValueError as error:
            raise ValueError(f"LAKEKEEPER__KAFKA_CONFIG_FILE: {error}") from None

    def _check_nats(self, own: EventSettings) -> None:
        others = ("nats_topic", "nats_user", "nats_password", "nats_creds_file", "nats_token")
        given = [f"LAKEKEEPER__{name.upper()}" for name in others if getattr(self, name) is not None]
        given += ["ICEKEEPER__EVENTS__NATS_JETSTREAM"] if own.nats_jetstream else []
        given += ["ICEKEEPER__EVENTS__NATS_CA_BUNDLE"] if own.nats_ca_bundle is not None else []
        if self.nats_address is None:
            if given:
                names = " and ".join(given)
                raise ValueError(
                    f"{names} {'is' if len(given) == 1 else 'are'} set without LAKEKEEPER__NATS_ADDRESS: set "
                    f"LAKEKEEPER__NATS_ADDRESS, or unset {names}"
                )
            return
        if self.nats_topic is None:
            raise ValueError(
                f"LAKEKEEPER__NATS_ADDRESS is set without LAKEKEEPER__NATS_TOPIC: {_cure('NATS_TOPIC', 'NATS_ADDRESS')}"
            )
        if (self.nats_user is None) != (self.nats_password is None):
            raise ValueError("LAKEKEEPER__NATS_USER and LAKEKEEPER__NATS_PASSWORD: set both or none of them")
        logins = [name for name in ("nats_user", "nats_creds_file", "nats_token") if getattr(self, name) is not None]
        if len(logins) > 1:
            names = " and ".join(f"LAKEKEEPER__{name.upper()}" for name in logins)
            raise ValueError(f"{names} are set: set only one of them")


def _cure(missing: str, present: str) -> str:
    return f"set LAKEKEEPER__{missing}, or unset LAKEKEEPER__{present}"


def _read_file(text: str) -> Mapping[str, str]:
    """Parse a file of settings. Raises ValueError without its content."""
    if text.lstrip().startswith("{"):
        try:
            document = json.loads(text)
        except ValueError:
            return _require_texts(parse_value(text.strip()))
        return {name: _json_text(value) for name, value in document.items()}
    settings: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        name, equals, value = stripped.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"line {number} is not name=value")
        settings[name.strip()] = value.strip()
    return settings


def _json_text(value: Any) -> str:
    if not isinstance(value, str | int):
        raise ValueError("all values of the JSON object must be texts, numbers or booleans")  # noqa: TRY004 - as above
    return str(value).lower() if isinstance(value, bool) else str(value)
