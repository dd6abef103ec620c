"""A sink as the API reads, stores and shows it: its configuration with its secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self, TypeVar

from pydantic import ValidationError

from events.sinks.configuration import (
    KafkaConfiguration,
    KafkaSecrets,
    LogConfiguration,
    LogSecrets,
    NatsConfiguration,
    NatsSecrets,
    SinkConfiguration,
    SinkSecrets,
    WebhookConfiguration,
    WebhookSecrets,
    check_nats_login,
)
from events.sinks.kafka_settings import check_api_settings, is_secret

T = TypeVar("T", SinkConfiguration, SinkSecrets)

KINDS: Final[Mapping[str, tuple[type[SinkConfiguration], type[SinkSecrets]]]] = {
    "nats": (NatsConfiguration, NatsSecrets),
    "kafka": (KafkaConfiguration, KafkaSecrets),
    "webhook": (WebhookConfiguration, WebhookSecrets),
    "log": (LogConfiguration, LogSecrets),
}
SECRET_NAMES: Final = "configured-secrets"  # noqa: S105 - the name of a member
"""Member of described configurations with the names of the secrets. It is ignored when a configuration is written, so
that a description can be changed and written back.
"""

MAX_ERRORS: Final = 10
MAX_MEMBER_LENGTH: Final = 100
"""Of errors about members, which a request can name as it likes."""


class InvalidConfiguration(Exception):
    """A configuration that is not accepted. `errors` has a message for each member; none contains a value."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{member}: {message}" for member, message in errors.items()))
        self.errors = dict(errors)


class SinkDefinition(NamedTuple):
    """The two parts of one configuration."""

    configuration: SinkConfiguration
    secrets: SinkSecrets

    @classmethod
    def from_storage(cls, configuration: Mapping[str, Any], secrets: Mapping[str, Any]) -> Self:
        """Return the definition that was stored as `configuration` (public) and `secrets` (decrypted).

        Raises `InvalidConfiguration` if this version does not accept it.
        """
        configuration_type, secrets_type = _types_of(configuration)
        errors: dict[str, str] = {}
        public = _validate(configuration_type, configuration, errors)
        secret = _validate(secrets_type, secrets, errors)
        if public is None or secret is None:
            raise InvalidConfiguration(errors)
        return cls(public, secret)

    @property
    def kind(self) -> str:
        """The type of the sink, one of `KINDS`."""
        return next(kind for kind, (public, _) in KINDS.items() if isinstance(self.configuration, public))

    def stored_configuration(self) -> dict[str, Any]:
        """Return the public part as JSON values."""
        return self.configuration.model_dump(mode="json", by_alias=True, exclude_none=True)

    def stored_secrets(self) -> dict[str, Any]:
        """Return the secrets as JSON values, to be encrypted."""
        return self.secrets.plain()

    def describe(self) -> dict[str, Any]:
        """Return the configuration without secrets, and their names."""
        return self.stored_configuration() | {SECRET_NAMES: self.secrets.names}


def read_definition(document: Mapping[str, Any], stored: SinkDefinition | None = None) -> SinkDefinition:
    """Read a configuration of the API, in which public and secret members are together.

    Secrets that an update does not contain keep their `stored` values; null removes one. If the update changes where
    the secrets are sent, it must contain them: otherwise an administrator could read a stored secret by sending it to
    another server. Raises `InvalidConfiguration`.
    """
    configuration_type, secrets_type = _types_of(document)
    if stored is not None and type(stored.configuration) is not configuration_type:
        stored = None
    errors: dict[str, str] = {}
    public, given = _split(document, secrets_type)
    kept = _kept(given, {} if stored is None else stored.secrets.plain())
    merged = {name: value for name, value in _merge(kept, given).items() if value not in (None, {}, [])}
    configuration = _validate(configuration_type, public, errors)
    secrets = _validate(secrets_type, merged, errors)
    if configuration is None or secrets is None:
        raise InvalidConfiguration(errors)
    definition = SinkDefinition(configuration, secrets)
    if stored is not None and kept and configuration.destination != stored.configuration.destination:
        names = secrets_type.model_validate(kept).names
        raise InvalidConfiguration(
            dict.fromkeys(names, "must be given again, or removed with null: the destination of this secret changes")
        )
    _check_together(definition)
    return definition


def _types_of(document: Mapping[str, Any]) -> tuple[type[SinkConfiguration], type[SinkSecrets]]:
    kind = document.get("type")
    found = KINDS.get(kind) if isinstance(kind, str) else None
    if found is None:
        raise InvalidConfiguration({"type": f"must be one of {', '.join(KINDS)}"})
    return found


def _split(document: Mapping[str, Any], secrets_type: type[SinkSecrets]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the public and the secret members. Settings of Kafka, which are mixed, are divided by their names."""
    names = {name.replace("_", "-") for name in secrets_type.model_fields}
    public = {name: value for name, value in document.items() if name not in names and name != SECRET_NAMES}
    secret = {name: value for name, value in document.items() if name in names}
    if secrets_type is KafkaSecrets:
        settings = secret.pop("settings", None)
        if isinstance(settings, Mapping):
            public["settings"] = {name: value for name, value in settings.items() if not is_secret(name)}
            secret["settings"] = {name: value for name, value in settings.items() if is_secret(name)}
        elif settings is not None:
            public["settings"] = settings
    return public, secret


def _kept(given: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored secrets that are not given."""
    kept: dict[str, Any] = {}
    for name, value in stored.items():
        if name not in given:
            kept[name] = value
        elif isinstance(value, Mapping) and isinstance(given[name], Mapping):
            entries = {key: each for key, each in value.items() if key not in given[name]}
            if entries:
                kept[name] = entries
    return kept


def _merge(kept: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(kept)
    for name, value in given.items():
        if isinstance(value, Mapping):
            merged[name] = dict(kept.get(name, {})) | {key: each for key, each in value.items() if each is not None}
        else:
            merged[name] = value
    return merged


def _validate(model: type[T], document: Mapping[str, Any], errors: dict[str, str]) -> T | None:
    """Return the validated document; None, with `errors` by member, if it is invalid."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        for item in error.errors(include_input=False, include_url=False)[:MAX_ERRORS]:
            member = ".".join(str(part)[:MAX_MEMBER_LENGTH] for part in item["loc"]) or "settings"
            errors[member] = item["msg"].removeprefix("Value error, ")
        return None


def _check_together(definition: SinkDefinition) -> None:
    """Raise `InvalidConfiguration` for parts that do not fit each other."""
    match definition:
        case SinkDefinition(NatsConfiguration() as nats, NatsSecrets() as secrets):
            try:
                check_nats_login(nats.user, secrets)
            except ValueError as error:
                raise InvalidConfiguration({"user": str(error)}) from None
        case SinkDefinition(KafkaConfiguration() as kafka, KafkaSecrets() as secrets):
            hidden = {name: value.get_secret_value() for name, value in secrets.settings.items()}
            try:
                check_api_settings(kafka.settings | hidden)
            except ValueError as error:
                raise InvalidConfiguration({"settings": str(error)}) from None
