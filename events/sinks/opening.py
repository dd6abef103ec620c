"""Opens sinks from their configuration."""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import urlsplit

from events.sinks.configuration import (
    KafkaConfiguration,
    KafkaSecrets,
    LogConfiguration,
    NatsConfiguration,
    NatsSecrets,
    SinkConfiguration,
    WebhookConfiguration,
    WebhookSecrets,
    signing_keys,
)
from events.sinks.definition import SinkDefinition
from events.sinks.kafka_settings import list_servers
from events.sinks.nats_connection import NatsLogin
from events.sinks.nats_credentials import read_credentials
from events.sinks.port import DeliveryError, Sink
from events.sinks.server_configuration import ServerNatsConfiguration
from icekeeper.kernel.errors.types import CatalogError
from storage.network.endpoints import require_permitted_address, require_permitted_host
from storage.network.store_http import ca_bundle

TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a setting


def open_sink(definition: SinkDefinition) -> Sink:
    """Return the sink of a configuration; its first `send` connects."""
    match definition:
        case SinkDefinition(NatsConfiguration() as configuration, NatsSecrets() as secrets):
            return _open_nats(configuration, secrets)
        case SinkDefinition(KafkaConfiguration() as configuration, KafkaSecrets() as secrets):
            return _open_kafka(configuration, secrets)
        case SinkDefinition(WebhookConfiguration() as configuration, WebhookSecrets() as secrets):
            return _open_webhook(configuration, secrets)
        case SinkDefinition(LogConfiguration()):
            from events.sinks.log import LogSink

            return LogSink()
    raise TypeError(f"no sink has the configuration {type(definition.configuration).__name__}")


def require_permitted_addresses(configuration: SinkConfiguration) -> None:
    """Check the addresses of a configuration of the API. Raises `EndpointNotPermitted` (400), and `StoreUnavailable`
    (503) when a name cannot be resolved.
    """
    if not configuration.is_restricted:
        return
    match configuration:
        case NatsConfiguration(addresses=addresses):
            for each in addresses:
                require_permitted_host(*_host_and_port(each), "addresses")
        case KafkaConfiguration(settings=given):
            for host, port in list_servers(given["bootstrap.servers"]):
                require_permitted_host(host, port, "settings.bootstrap.servers")
            if TOKEN_ENDPOINT in given:
                require_permitted_address(given[TOKEN_ENDPOINT], f"settings.{TOKEN_ENDPOINT}")
        case WebhookConfiguration(url=url):
            require_permitted_address(url, "url")


def _open_nats(configuration: NatsConfiguration, secrets: NatsSecrets) -> Sink:
    from events.sinks.nats import NatsSink, NatsTarget

    def login() -> NatsLogin:
        return NatsLogin(
            user=configuration.user,
            password=None if secrets.password is None else secrets.password.get_secret_value(),
            token=None if secrets.token is None else secrets.token.get_secret_value(),
            credentials=_nats_credentials(configuration, secrets),
        )

    def tls(address: str) -> ssl.SSLContext | None:
        authorities = _nats_authorities(configuration)
        if authorities is None and not address.startswith("tls://"):
            return None
        try:
            return ssl.create_default_context(cadata=authorities)
        except ssl.SSLError:
            raise DeliveryError("NATS: the file of certificate authorities is not in PEM format") from None

    target = NatsTarget(
        addresses=configuration.addresses,
        subject=configuration.subject,
        timeout=configuration.timeout_seconds,
        jetstream=configuration.jetstream,
        login=login,
        tls=tls,
        check_address=lambda address: _check(configuration.model_copy(update={"addresses": [address]})),
    )
    return NatsSink(target)


def _nats_credentials(configuration: NatsConfiguration, secrets: NatsSecrets) -> str | None:
    if isinstance(configuration, ServerNatsConfiguration) and configuration.credentials_file is not None:
        try:
            return read_credentials(_read_file(configuration.credentials_file))
        except ValueError as error:
            raise DeliveryError(f"NATS: the credentials file {error}") from None
    return None if secrets.credentials is None else secrets.credentials.get_secret_value()


def _nats_authorities(configuration: NatsConfiguration) -> str | None:
    if isinstance(configuration, ServerNatsConfiguration) and configuration.ca_file is not None:
        return _read_file(configuration.ca_file)
    return configuration.ca_certificates


def _open_kafka(configuration: KafkaConfiguration, secrets: KafkaSecrets) -> Sink:
    from events.sinks.kafka import KafkaSink, KafkaTarget

    hidden = {name: value.get_secret_value() for name, value in secrets.settings.items()}
    target = KafkaTarget(
        topic=configuration.topic,
        timeout=configuration.timeout_seconds,
        settings=configuration.settings | hidden,
        secrets=tuple(hidden.values()),
        check_addresses=lambda: _check(configuration),
    )
    return KafkaSink(target)


def _open_webhook(configuration: WebhookConfiguration, secrets: WebhookSecrets) -> Sink:
    from events.sinks.webhook import WebhookSink, WebhookTarget

    query = "" if secrets.query is None else f"?{secrets.query.get_secret_value()}"
    target = WebhookTarget(
        url=configuration.url + query,
        timeout=configuration.timeout_seconds,
        concurrency=configuration.concurrency,
        structured=configuration.mode == "structured",
        keys=signing_keys(secrets.signing_secrets),
        headers={name: value.get_secret_value() for name, value in secrets.headers.items()},
        verify=ca_bundle(),
        check_address=lambda _: _check(configuration),
    )
    return WebhookSink(target)


def _check(configuration: SinkConfiguration) -> None:
    """Raise `DeliveryError` for addresses that are not permitted, or whose names cannot be resolved."""
    try:
        require_permitted_addresses(configuration)
    except CatalogError as error:
        raise DeliveryError(error.message) from None


def _host_and_port(address: str) -> tuple[str, int]:
    parts = urlsplit(address)
    return parts.hostname or "", parts.port or 0


def _read_file(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise DeliveryError(f"NATS: {path} cannot be read: {reason}") from None
