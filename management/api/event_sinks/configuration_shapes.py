"""Configurations of sinks in the OpenAPI document, by type. `events.sinks.definition` validates them."""

from __future__ import annotations

from typing import Any, Final

from rest_framework import serializers

from events.sinks.configuration import MAX_SIGNING_SECRETS
from management.api.serializers import KebabSerializer, Text

_SECRET: Final = "Write-only. Absent in an update: the stored one stays; null: it is removed"  # noqa: S105 - a text
_TIMEOUT: Final = "Seconds for a batch; default: 10"


def _secret(text: str) -> Text:
    return Text(required=False, allow_null=True, write_only=True, help_text=f"{text}. {_SECRET}")


class _Configuration(KebabSerializer):
    # The members that all types have.
    configured_secrets = serializers.ListField(
        child=Text(), read_only=True, help_text="Names of the secrets that are set; ignored in requests"
    )


class NatsSinkConfiguration(_Configuration):
    type = serializers.ChoiceField(["nats"])
    addresses = serializers.ListField(
        child=Text(), help_text="Such as `tls://nats-1.example.com:4222`; the port is 4222 by default"
    )
    subject = Text(help_text="The subject of all events")
    jetstream = serializers.BooleanField(
        required=False, help_text="Whether a stream of JetStream acknowledges each event; default: false"
    )
    user = Text(required=False, help_text="Together with `password`")
    ca_certificates = Text(required=False, help_text="Certificate authorities in PEM format; default: those of Python")
    timeout_seconds = serializers.FloatField(required=False, min_value=1, max_value=60, help_text=_TIMEOUT)
    password = _secret("Password of `user`")
    token = _secret("Instead of user and password")
    credentials = _secret("Content of a credentials file (`.creds`), instead of user and password")


class KafkaSinkConfiguration(_Configuration):
    type = serializers.ChoiceField(["kafka"])
    topic = Text(help_text="The topic of all events; their key is the id of the object")
    settings = serializers.DictField(
        child=Text(),
        help_text="Settings of librdkafka by name; `bootstrap.servers` is required. Secret ones, such as "
        "`sasl.password`, are not returned; absent in an update: the stored ones stay",
    )
    timeout_seconds = serializers.FloatField(required=False, min_value=3, max_value=60, help_text=_TIMEOUT)


class WebhookSinkConfiguration(_Configuration):
    type = serializers.ChoiceField(["webhook"])
    url = Text(help_text="An https URL without a query; http only if the server's operator allows it")
    mode = serializers.ChoiceField(
        ["structured", "binary"], required=False, help_text="Of the HTTP binding of CloudEvents; default: structured"
    )
    concurrency = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=32,
        help_text="Requests at the same time, of different objects; default: 8",
    )
    timeout_seconds = serializers.FloatField(required=False, min_value=1, max_value=60, help_text=_TIMEOUT)
    query = _secret("Query of the URL, without the `?`")
    headers = serializers.DictField(
        child=Text(allow_null=True),
        required=False,
        allow_null=True,
        write_only=True,
        help_text=f"Headers of each request, by name. {_SECRET}",
    )
    signing_secrets = serializers.ListField(
        child=Text(),
        required=False,
        allow_null=True,
        write_only=True,
        max_length=MAX_SIGNING_SECRETS,
        help_text=f"Secrets such as `whsec_...` of which each request has an HMAC-SHA-256 signature; two during a "
        f"rotation. {_SECRET}",
    )


class LogSinkConfiguration(_Configuration):
    type = serializers.ChoiceField(["log"])


CONFIGURATION_SHAPES: Final[dict[str, serializers.Serializer[Any] | type[serializers.Serializer[Any]]]] = {
    "nats": NatsSinkConfiguration,
    "kafka": KafkaSinkConfiguration,
    "webhook": WebhookSinkConfiguration,
    "log": LogSinkConfiguration,
}
