"""Configurations of sinks as the API reads, stores, shows and updates them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from events.sinks.definition import InvalidConfiguration, SinkDefinition, read_definition
from events.sinks.webhook_signature import create_signing_secret
from tests.events.sinks.nats_accounts import create_accounts

CREDENTIALS = create_accounts().credentials
SIGNING = [create_signing_secret(), create_signing_secret()]

NATS: dict[str, Any] = {"type": "nats", "addresses": ["tls://nats.example.com"], "subject": "lake.events"}
KAFKA: dict[str, Any] = {
    "type": "kafka",
    "topic": "lake",
    "settings": {
        "bootstrap.servers": "kafka:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "canary-1",
    },
}
WEBHOOK: dict[str, Any] = {
    "type": "webhook",
    "url": "https://hooks.example.com/lake",
    "query": "sig=canary-1",
    "headers": {"Authorization": "Bearer canary-2", "X-Team": "canary-3"},
    "signing-secrets": SIGNING,
}

FULL: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "nats": (
        NATS | {"user": "u", "password": "canary-1", "jetstream": True, "timeout-seconds": 5},
        {"addresses": ["tls://nats.example.com:4222"], "user": "u", "jetstream": True, "timeout-seconds": 5.0},
        {"password": "canary-1"},
    ),
    "nats with a token": (
        NATS | {"token": "canary-1"},
        {"addresses": ["tls://nats.example.com:4222"], "jetstream": False, "timeout-seconds": 10.0},
        {"token": "canary-1"},
    ),
    "nats with credentials": (
        NATS | {"credentials": CREDENTIALS},
        {"addresses": ["tls://nats.example.com:4222"], "jetstream": False, "timeout-seconds": 10.0},
        {"credentials": CREDENTIALS},
    ),
    "kafka": (
        KAFKA,
        {
            "settings": {name: text for name, text in KAFKA["settings"].items() if name != "sasl.password"},
            "timeout-seconds": 10.0,
        },
        {"settings": {"sasl.password": "canary-1"}},
    ),
    "webhook": (
        WEBHOOK,
        {"url": "https://hooks.example.com/lake", "mode": "structured", "concurrency": 8, "timeout-seconds": 10.0},
        {name: WEBHOOK[name] for name in ("query", "headers", "signing-secrets")},
    ),
    "log": ({"type": "log"}, {}, {}),
}
"""By name: the document, what of it is public (in addition to type, subject and topic), and what is secret."""


def errors_of(document: dict[str, Any], stored: SinkDefinition | None = None) -> dict[str, str]:
    with pytest.raises(InvalidConfiguration) as rejected:
        read_definition(document, stored)
    assert "canary" not in str(rejected.value)
    assert not any(secret in str(rejected.value) for secret in (*SIGNING, CREDENTIALS))
    return rejected.value.errors


@pytest.mark.parametrize("name", FULL)
def test_a_configuration_has_a_public_and_a_secret_part(name: str) -> None:
    document, public, secret = FULL[name]
    definition = read_definition(document)
    kept = {member: document[member] for member in ("type", "subject", "topic") if member in document}
    assert definition.stored_configuration() == kept | public
    assert definition.stored_secrets() == secret
    shown = definition.describe()
    assert shown.pop("configured-secrets") == definition.secrets.names
    assert shown == kept | public
    for text in (repr(definition), str(definition), json.dumps(definition.describe())):
        assert "canary" not in text
        assert not any(hidden in text for hidden in (*SIGNING, CREDENTIALS))
    stored = json.loads(json.dumps([definition.stored_configuration(), definition.stored_secrets()]))
    assert SinkDefinition.from_storage(*stored) == definition


def test_names_of_secrets() -> None:
    assert read_definition(WEBHOOK).secrets.names == [
        "query",
        "headers.Authorization",
        "headers.X-Team",
        "signing-secrets",
    ]
    assert read_definition(KAFKA).secrets.names == ["settings.sasl.password"]


@pytest.mark.parametrize("name", FULL)
def test_a_description_can_be_written_back(name: str) -> None:
    stored = read_definition(FULL[name][0])
    assert read_definition(stored.describe(), stored) == stored


def test_an_update_keeps_replaces_and_removes_secrets() -> None:
    stored = read_definition(WEBHOOK)
    update = {
        "type": "webhook",
        "url": WEBHOOK["url"],
        "mode": "binary",
        "query": None,
        "headers": {"Authorization": "Bearer canary-4", "X-Team": None, "X-New": "canary-5"},
    }
    updated = read_definition(update, stored)
    assert updated.stored_secrets() == {
        "headers": {"Authorization": "Bearer canary-4", "X-New": "canary-5"},
        "signing-secrets": SIGNING,
    }
    assert updated.stored_configuration()["mode"] == "binary"
    unsigned = read_definition({"type": "webhook", "url": WEBHOOK["url"], "signing-secrets": []}, updated)
    assert unsigned.secrets.names == ["headers.Authorization", "headers.X-New"]


def test_an_update_of_kafka_keeps_its_secret_settings() -> None:
    stored = read_definition(KAFKA)
    public = {name: text for name, text in KAFKA["settings"].items() if name != "sasl.password"}
    kept = read_definition(KAFKA | {"topic": "other", "settings": public}, stored)
    assert kept.stored_secrets() == {"settings": {"sasl.password": "canary-1"}}
    new = read_definition(KAFKA | {"settings": public | {"sasl.password": "canary-2"}}, stored)
    assert new.stored_secrets() == {"settings": {"sasl.password": "canary-2"}}


@pytest.mark.parametrize(
    ("document", "update", "members"),
    [
        (WEBHOOK, {"url": "https://evil.example.com/"},
         ["query", "headers.Authorization", "headers.X-Team", "signing-secrets"]),
        (WEBHOOK, {"url": "http://hooks.example.com/lake", "query": None, "signing-secrets": None},
         ["headers.Authorization", "headers.X-Team"]),
        (NATS | {"token": "canary"}, {"addresses": ["nats://nats.example.com"]}, ["token"]),
        (NATS | {"token": "canary"}, {"addresses": ["tls://nats.example.com", "tls://evil"]}, ["token"]),
        (KAFKA, {"settings": {"bootstrap.servers": "evil:9092"}}, ["settings.sasl.password"]),
        (KAFKA, {"settings": KAFKA["settings"] | {"security.protocol": "SASL_PLAINTEXT", "sasl.password": None}}, None),
        (KAFKA, {"settings": {**{n: t for n, t in KAFKA["settings"].items() if n != "sasl.password"},
                              "enable.ssl.certificate.verification": "false"}}, ["settings.sasl.password"]),
    ],
)  # fmt: skip
def test_a_stored_secret_is_not_sent_to_another_destination(
    document: dict[str, Any], update: dict[str, Any], members: list[str] | None
) -> None:
    stored = read_definition(document)
    secret = ("query", "headers", "signing-secrets", "token", "settings")
    changed = {name: value for name, value in document.items() if name not in secret} | update
    if members is None:
        assert read_definition(changed, stored).secrets.names == []
    else:
        expected = "must be given again, or removed with null: the destination of this secret changes"
        assert errors_of(changed, stored) == dict.fromkeys(members, expected)


def test_a_change_of_the_type_keeps_no_secret() -> None:
    stored = read_definition(NATS | {"token": "canary-1"})
    assert read_definition({"type": "webhook", "url": "https://a.example.com"}, stored).stored_secrets() == {}


@pytest.mark.parametrize(
    ("document", "errors"),
    [
        ({}, {"type": "must be one of nats, kafka, webhook, log"}),
        ({"type": ["nats"]}, {"type": "must be one of nats, kafka, webhook, log"}),
        ({"type": "log", "canary": 1}, None),
        (NATS | {"user": "u"}, {"user": "user and password must be set together"}),
        (NATS | {"password": "canary"}, {"user": "user and password must be set together"}),
        (NATS | {"token": "canary", "credentials": CREDENTIALS}, {"user": "only one of token, credentials can be set"}),
        (NATS | {"credentials": "canary"}, {"credentials": "must be the content of a credentials file (.creds) with a "
                                                           "user JWT and its seed"}),
        (NATS | {"credentials-file": "/etc/passwd"}, {"credentials-file": "Extra inputs are not permitted"}),
        (NATS | {"ca-file": "/etc/passwd"}, {"ca-file": "Extra inputs are not permitted"}),
        (NATS | {"ca-certificates": "canary"}, {"ca-certificates": "must be certificates in PEM format"}),
        (NATS | {"addresses": []}, {"addresses": "List should have at least 1 item after validation, not 0"}),
        (NATS | {"subject": "a.*"}, {"subject": "must be a subject such as lake.events, without wildcards and blanks"}),
        (NATS | {"timeout-seconds": 61}, {"timeout-seconds": "Input should be less than or equal to 60"}),
        (NATS | {"timeout-seconds": "5"}, {"timeout-seconds": "Input should be a valid number"}),
        (KAFKA | {"topic": "a/b"}, {"topic": "must be a topic of letters, digits and ._- with at most 249 characters"}),
        (KAFKA | {"settings": "canary"}, {"settings": "Input should be a valid dictionary"}),
        (KAFKA | {"settings": {"bootstrap.servers": "k", "ssl.key.location": "canary"}},
         {"settings": "ssl.key.location is not a setting that the API allows (LAKEKEEPER__KAFKA_CONFIG of the server "
                      "allows others)"}),
        (WEBHOOK | {"url": "https://a.example.com/?canary"},
         {"url": "must not contain a query or a fragment: set the query in `query`, which is a secret"}),
        (WEBHOOK | {"url": "https://u:canary@a.example.com/"},
         {"url": "must be an http or https URL in ASCII, without user information"}),
        (WEBHOOK | {"url": "file:///etc/passwd"},
         {"url": "must be an http or https URL in ASCII, without user information"}),
        (WEBHOOK | {"mode": "batch"}, {"mode": "Input should be 'structured' or 'binary'"}),
        (WEBHOOK | {"concurrency": 33}, {"concurrency": "Input should be less than or equal to 32"}),
        (WEBHOOK | {"signing-secrets": ["whsec_canary"]},
         {"signing-secrets.0": "must be whsec_ and 24 to 64 random bytes in base64"}),
        (WEBHOOK | {"signing-secrets": [*SIGNING, SIGNING[0]]},
         {"signing-secrets": "List should have at most 2 items after validation, not 3"}),
        (WEBHOOK | {"query": "a canary"}, {"query": "must be a percent-encoded query, without ? at its start"}),
        (WEBHOOK | {"headers": {"A": "canary", "a": "canary"}}, {"headers": "each header may be given once"}),
    ],
)  # fmt: skip
def test_an_invalid_configuration_is_rejected_by_member(
    document: dict[str, Any], errors: dict[str, str] | None
) -> None:
    if errors is None:
        with pytest.raises(InvalidConfiguration) as rejected:
            read_definition(document)
        assert rejected.value.errors == {"canary": "Extra inputs are not permitted"}
    else:
        assert errors_of(document) == errors


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Host", "x"),
        ("content-type", "x"),
        ("Content-Length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "close"),
        ("Proxy-Authorization", "x"),
        ("ce-type", "x"),
        ("webhook-signature", "x"),
        ("User-Agent", "x"),
        ("a b", "x"),
        ("a:", "x"),
        ("", "x"),
        ("x" * 129, "x"),
        ("X-A", "canary\r\nX-B: 1"),
        ("X-A", " canary"),
        ("X-A", ""),
        ("X-A", "canaryé"),
        ("X-A", "x" * 4097),
    ],
)
def test_a_header_that_is_not_allowed_is_rejected(name: str, value: str) -> None:
    errors = errors_of(WEBHOOK | {"headers": {name: value}})
    assert list(errors) == ["headers"]


def test_too_many_headers_are_rejected() -> None:
    headers = {f"X-{number}": "canary" for number in range(21)}
    assert errors_of(WEBHOOK | {"headers": headers}) == {
        "headers": "Dictionary should have at most 20 items after validation, not more"
    }
