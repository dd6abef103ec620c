"""The configuration of a sink: a public part, which is shown, and its secrets, which are stored encrypted.

This module describes the sinks of the API. Those of the environment of the server (`server_configuration`) may also
name files, and their addresses are not restricted.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from events.sinks.kafka_settings import check_settings
from events.sinks.nats_credentials import read_credentials
from events.sinks.webhook_headers import MAX_HEADERS, check_header
from events.sinks.webhook_signature import read_signing_key

MAX_TEXT: Final = 2048
MAX_PEM: Final = 65_536
MAX_ADDRESSES: Final = 16
MAX_SIGNING_SECRETS: Final = 2
"""The current secret and, while receivers change to it, the previous one."""

_NATS_ADDRESS: Final = re.compile(r"(?:(nats|tls)://)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?/?")
_NATS_PORT: Final = 4222
_SUBJECT: Final = re.compile(r"[^\s.*>\x00-\x20\x7f]+(?:\.[^\s.*>\x00-\x20\x7f]+)*")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_WEBHOOK_URL: Final = re.compile(r"https?://[^\s/?#@\\]+(?:/[!-~]*)?", re.IGNORECASE)
_VISIBLE: Final = re.compile(r"[!-~]+")


def read_nats_address(text: str) -> str:
    """Return an address of a NATS server as `scheme://host:port`. Raises ValueError."""
    matched = _NATS_ADDRESS.fullmatch(text.strip())
    port = int(matched[3] or _NATS_PORT) if matched else 0
    if matched is None or not 0 < port < 65536:  # noqa: PLR2004
        raise ValueError("must be an address such as nats://nats.example.com:4222 or tls://nats.example.com:4222")
    return f"{matched[1] or 'nats'}://{matched[2]}:{port}"


def read_subject(text: str) -> str:
    """Return a valid subject of NATS. Raises ValueError."""
    if not _SUBJECT.fullmatch(text):
        raise ValueError("must be a subject such as lake.events, without wildcards and blanks")
    return text


def read_topic(text: str) -> str:
    """Return a valid topic of Kafka. Raises ValueError."""
    if not _TOPIC.fullmatch(text) or text in {".", ".."}:
        raise ValueError("must be a topic of letters, digits and ._- with at most 249 characters")
    return text


def _certificates(pem: str) -> str:
    try:
        ssl.create_default_context(cadata=pem)
    except (ssl.SSLError, ValueError, UnicodeEncodeError):
        raise ValueError("must be certificates in PEM format") from None
    return pem


def _webhook_url(url: str) -> str:
    if "?" in url or "#" in url:
        raise ValueError("must not contain a query or a fragment: set the query in `query`, which is a secret")
    if not _WEBHOOK_URL.fullmatch(url):
        raise ValueError("must be an http or https URL in ASCII, without user information")
    return url


def _query(secret: SecretStr) -> SecretStr:
    if not _VISIBLE.fullmatch(secret.get_secret_value()) or "#" in secret.get_secret_value():
        raise ValueError("must be a percent-encoded query, without ? at its start")
    return secret


def _headers(headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name, value in headers.items():
        check_header(name, value.get_secret_value())
    if len({name.lower() for name in headers}) < len(headers):
        raise ValueError("each header may be given once")
    return headers


def _signing_secret(secret: SecretStr) -> SecretStr:
    read_signing_key(secret.get_secret_value())
    return secret


def _credentials(secret: SecretStr) -> SecretStr:
    return SecretStr(read_credentials(secret.get_secret_value()))


def _text(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be text without control characters")
    return text


Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT), AfterValidator(_text)]
Secret = Annotated[SecretStr, Field(min_length=1, max_length=MAX_TEXT)]
Timeout = Annotated[float, Field(ge=1, le=60)]
Certificates = Annotated[str, Field(max_length=MAX_PEM), AfterValidator(_certificates)]


class SinkDocument(BaseModel):
    """A JSON object. JSON keys are `kebab-case`, Python fields `snake_case`."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        alias_generator=lambda name: name.replace("_", "-"),
        validate_by_alias=True,
        validate_by_name=True,
    )


class SinkConfiguration(SinkDocument):
    """The public part of a configuration."""

    is_restricted: ClassVar[bool] = True
    """Whether the server checks addresses before it connects to them, as those that API users choose."""

    @property
    def destination(self) -> object:
        """What decides where secrets are sent, and how they are protected: another value needs new secrets."""
        return None


class SinkSecrets(SinkDocument):
    """The secret part of a configuration."""

    @property
    def names(self) -> list[str]:
        """The names of the secrets that are set."""
        names: list[str] = []
        for field, value in self:
            name = field.replace("_", "-")
            if isinstance(value, dict):
                names += [f"{name}.{key}" for key in sorted(value)]
            elif value:
                names.append(name)
        return names

    def plain(self) -> dict[str, Any]:
        """Return the secrets as JSON values, to be encrypted; names are those of the API."""
        return {field.replace("_", "-"): _plain(value) for field, value in self if value}


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value]


class NatsConfiguration(SinkConfiguration):
    type: Literal["nats"] = "nats"
    addresses: Annotated[
        list[Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(read_nats_address)]],
        Field(min_length=1, max_length=MAX_ADDRESSES),
    ]
    subject: Annotated[str, Field(max_length=255), AfterValidator(read_subject)]
    jetstream: bool = False
    user: Text | None = None
    ca_certificates: Certificates | None = None
    timeout_seconds: Timeout = 10.0

    @property
    def destination(self) -> object:
        return self.addresses, self.ca_certificates, self.user


class NatsSecrets(SinkSecrets):
    password: Secret | None = None
    token: Secret | None = None
    credentials: Annotated[SecretStr, Field(max_length=MAX_PEM), AfterValidator(_credentials)] | None = None
    """Content of a credentials file (`.creds`)."""


class KafkaConfiguration(SinkConfiguration):
    type: Literal["kafka"] = "kafka"
    topic: Annotated[str, AfterValidator(read_topic)]
    settings: dict[str, str]
    """Public settings of librdkafka."""
    timeout_seconds: Annotated[float, Field(ge=3, le=60)] = 10.0

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        check_settings(self.settings)
        return self

    @property
    def destination(self) -> object:
        return self.settings


class KafkaSecrets(SinkSecrets):
    settings: dict[str, SecretStr] = {}
    """Secret settings of librdkafka."""


class WebhookConfiguration(SinkConfiguration):
    type: Literal["webhook"] = "webhook"
    url: Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(_webhook_url)]
    mode: Literal["structured", "binary"] = "structured"
    concurrency: Annotated[int, Field(ge=1, le=32)] = 8
    timeout_seconds: Timeout = 10.0

    @property
    def destination(self) -> object:
        return self.url


class WebhookSecrets(SinkSecrets):
    query: Annotated[SecretStr, Field(max_length=MAX_TEXT), AfterValidator(_query)] | None = None
    headers: Annotated[dict[str, SecretStr], Field(max_length=MAX_HEADERS), AfterValidator(_headers)] = {}
    signing_secrets: Annotated[
        list[Annotated[SecretStr, AfterValidator(_signing_secret)]], Field(max_length=MAX_SIGNING_SECRETS)
    ] = []


class LogConfiguration(SinkConfiguration):
    type: Literal["log"] = "log"


class LogSecrets(SinkSecrets):
    """A log has no secrets."""


def check_nats_login(user: str | None, secrets: NatsSecrets) -> None:
    """Raise ValueError unless the login is complete, by one method at most."""
    methods = [name for name in ("password", "token", "credentials") if getattr(secrets, name) is not None]
    if len(methods) > 1:
        raise ValueError(f"only one of {', '.join(methods)} can be set")
    if (user is None) != (secrets.password is None):
        raise ValueError("user and password must be set together")


def signing_keys(secrets: Sequence[SecretStr]) -> list[bytes]:
    return [read_signing_key(each.get_secret_value()) for each in secrets]
