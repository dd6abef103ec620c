"""Settings of events: Lakekeeper's variables configure sinks, and half a configuration stops the start."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from icekeeper.conf.environment import SettingsError, read_settings
from icekeeper.conf.listing import MASK, show_settings
from icekeeper.conf.settings import Settings

NATS = {"LAKEKEEPER__NATS_ADDRESS": "nats://nats:4222", "LAKEKEEPER__NATS_TOPIC": "iceberg"}
CONFIG = '{"bootstrap.servers"="kafka:9092","sasl.password"="canary"}'
KAFKA = {"LAKEKEEPER__KAFKA_TOPIC": "iceberg", "LAKEKEEPER__KAFKA_CONFIG": CONFIG}


PAGE = Path(__file__).parents[3] / "docs/events.md"


def test_the_settings_of_the_page_are_valid() -> None:
    sinks = PAGE.read_text().partition("\n## Sinks\n")[2]
    blocks = re.findall(r"^```sh\n(export LAKEKEEPER__.*?)^```$", sinks, re.MULTILINE | re.DOTALL)
    words = [word for block in blocks for word in shlex.split(block) if word != "export"]
    settings, unread = read_settings(dict(word.split("=", 1) for word in words))
    assert unread == []
    assert settings.nats_address == "tls://nats-1.example.com:4222,tls://nats-2.example.com:4222"
    assert settings.read_kafka_settings()["sasl.mechanisms"].get_secret_value() == "PLAIN"
    assert (settings.events.nats_jetstream, settings.log_cloudevents) == (True, True)


def problems_of(environment: dict[str, str]) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        read_settings(environment)
    assert "canary" not in str(refused.value)
    return refused.value.problems


@pytest.mark.parametrize("prefix", ["LAKEKEEPER__", "ICEBERG_REST__", "lakekeeper__"])
def test_variables_of_lakekeeper_are_read(prefix: str) -> None:
    settings, unread = read_settings(
        {
            f"{prefix}NATS_ADDRESS": "nats-1, tls://nats-2:4223",
            f"{prefix}NATS_TOPIC": "iceberg.events",
            f"{prefix}NATS_USER": "test",
            f"{prefix}NATS_PASSWORD": "canary",
            f"{prefix}KAFKA_TOPIC": "iceberg",
            f"{prefix}KAFKA_CONFIG": CONFIG,
            f"{prefix}LOG_CLOUDEVENTS": "true",
        }
    )
    assert unread == []
    assert settings.nats_address == "nats://nats-1:4222,tls://nats-2:4223"
    assert (settings.nats_topic, settings.nats_user) == ("iceberg.events", "test")
    assert settings.nats_password is not None
    assert settings.nats_password.get_secret_value() == "canary"
    given = {name: value.get_secret_value() for name, value in settings.read_kafka_settings().items()}
    assert given == {"bootstrap.servers": "kafka:9092", "sasl.password": "canary"}
    assert settings.log_cloudevents
    assert "canary" not in repr(settings)
    shown = {each.variable: each.value for each in show_settings(settings)}
    assert shown["LAKEKEEPER__NATS_PASSWORD"] == shown["LAKEKEEPER__KAFKA_CONFIG"] == MASK
    assert "canary" not in json.dumps(list(shown.values()))


@pytest.mark.parametrize("text", ["", '""', "false", "False", '"false"', "off", "0", "no", "n", "F", " No "])
def test_events_that_are_off_need_nothing(text: str) -> None:
    assert read_settings({"LAKEKEEPER__LOG_CLOUDEVENTS": text})[0] == Settings()


@pytest.mark.parametrize("text", ["", '""'])
def test_empty_variables_of_events_need_nothing(text: str) -> None:
    names = ("NATS_ADDRESS", "NATS_TOPIC", "KAFKA_CONFIG", "NATS", "KAFKA")
    assert read_settings({f"LAKEKEEPER__{name}": text for name in names})[0] == Settings()


@pytest.mark.parametrize(
    "name", ["NATS", "NATS_SUBJECT", "NATS_JETSTREAM", "KAFKA", "KAFKA_BROKERS", "KAFKA_CONFIG__ACKS"]
)
@pytest.mark.parametrize("text", ["canary", "off", "{address=canary}"])
def test_an_unknown_variable_of_events_stops_the_start(name: str, text: str) -> None:
    assert problems_of({f"LAKEKEEPER__{name}": text}) == [
        f"LAKEKEEPER__{name} is set, but no setting of events has this name. Correct its name, or unset it"
    ]


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        (
            {"LAKEKEEPER__NATS_ADDRESS": "nats://nats:4222"},
            (
                "LAKEKEEPER__NATS_ADDRESS is set without LAKEKEEPER__NATS_TOPIC: set LAKEKEEPER__NATS_TOPIC, or unset "
                "LAKEKEEPER__NATS_ADDRESS"
            ),
        ),
        (
            {"LAKEKEEPER__NATS_TOPIC": "t", "LAKEKEEPER__NATS_PASSWORD": "canary"},
            (
                "LAKEKEEPER__NATS_TOPIC and LAKEKEEPER__NATS_PASSWORD are set without LAKEKEEPER__NATS_ADDRESS: set "
                "LAKEKEEPER__NATS_ADDRESS, or unset LAKEKEEPER__NATS_TOPIC and LAKEKEEPER__NATS_PASSWORD"
            ),
        ),
        (
            {"ICEKEEPER__EVENTS__NATS_JETSTREAM": "true"},
            (
                "ICEKEEPER__EVENTS__NATS_JETSTREAM is set without LAKEKEEPER__NATS_ADDRESS: set "
                "LAKEKEEPER__NATS_ADDRESS, or unset ICEKEEPER__EVENTS__NATS_JETSTREAM"
            ),
        ),
        (
            {"ICEKEEPER__EVENTS__NATS_CA_BUNDLE": "/ca.pem"},
            (
                "ICEKEEPER__EVENTS__NATS_CA_BUNDLE is set without LAKEKEEPER__NATS_ADDRESS: set "
                "LAKEKEEPER__NATS_ADDRESS, or unset ICEKEEPER__EVENTS__NATS_CA_BUNDLE"
            ),
        ),
        (
            NATS | {"LAKEKEEPER__NATS_USER": "u"},
            "LAKEKEEPER__NATS_USER and LAKEKEEPER__NATS_PASSWORD: set both or none of them",
        ),
        (
            NATS | {"LAKEKEEPER__NATS_PASSWORD": "canary"},
            "LAKEKEEPER__NATS_USER and LAKEKEEPER__NATS_PASSWORD: set both or none of them",
        ),
        (
            NATS | {"LAKEKEEPER__NATS_TOKEN": "canary", "LAKEKEEPER__NATS_CREDS_FILE": "/nats.creds"},
            "LAKEKEEPER__NATS_CREDS_FILE and LAKEKEEPER__NATS_TOKEN are set: set only one of them",
        ),
        (
            {"LAKEKEEPER__KAFKA_TOPIC": "t"},
            (
                "LAKEKEEPER__KAFKA_TOPIC is set without LAKEKEEPER__KAFKA_CONFIG and LAKEKEEPER__KAFKA_CONFIG_FILE: "
                "set LAKEKEEPER__KAFKA_CONFIG, or unset LAKEKEEPER__KAFKA_TOPIC"
            ),
        ),
        (
            {"LAKEKEEPER__KAFKA_CONFIG": CONFIG},
            (
                "LAKEKEEPER__KAFKA_CONFIG is set without LAKEKEEPER__KAFKA_TOPIC: set LAKEKEEPER__KAFKA_TOPIC, or "
                "unset LAKEKEEPER__KAFKA_CONFIG"
            ),
        ),
        (
            {"LAKEKEEPER__KAFKA_CONFIG_FILE": "/kafka.properties"},
            (
                "LAKEKEEPER__KAFKA_CONFIG_FILE is set without LAKEKEEPER__KAFKA_TOPIC: set LAKEKEEPER__KAFKA_TOPIC, or "
                "unset LAKEKEEPER__KAFKA_CONFIG_FILE"
            ),
        ),
    ],
)
def test_half_a_configuration_stops_the_start(environment: dict[str, str], problem: str) -> None:
    assert problems_of(environment) == [problem]


@pytest.mark.parametrize(
    "address", ["ws://nats:80", "http://nats", "nats://u:canary@nats:4222", "nats:0", "nats:65536", "a,,b", "nats/x"]
)
def test_an_invalid_address_stops_the_start(address: str) -> None:
    (problem,) = problems_of(NATS | {"LAKEKEEPER__NATS_ADDRESS": address})
    assert problem.startswith("LAKEKEEPER__NATS_ADDRESS got ")
    assert problem.endswith("; expected: must be an address such as nats://nats.example.com:4222 or "
                            "tls://nats.example.com:4222")  # fmt: skip


@pytest.mark.parametrize("subject", ["a.*", "a.>", "a b", ".a", "a.", "a..b", "ev\r\nPUB x"])
def test_an_invalid_subject_stops_the_start(subject: str) -> None:
    (problem,) = problems_of(NATS | {"LAKEKEEPER__NATS_TOPIC": subject})
    assert problem.startswith("LAKEKEEPER__NATS_TOPIC got ")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("{}", "bootstrap.servers is missing"),
        ("canary", f"settings such as {'{'}"),
        ('{"bootstrap.servers"=["canary"]}', "with quoted text as values"),
        ('{"bootstrap.servers"={canary=1}}', "with quoted text as values"),
        ('{"bootstrap.servers":"canary"}', "each member must be key=value"),
        ('{"bootstrap.servers"="k","acks"="1"}', "acks must be all: events that only one broker has can be lost"),
        ('{"bootstrap.servers"="k","request.required.acks"="0"}', "request.required.acks must be all"),
        ('{"bootstrap.servers"="k","transactional.id"="canary"}', "transactional.id cannot be set"),
        ('{"bootstrap.servers"="k","error_cb"="canary"}', "error_cb cannot be set"),
    ],
)
def test_an_invalid_kafka_config_stops_the_start(config: str, reason: str) -> None:
    (problem,) = problems_of(KAFKA | {"LAKEKEEPER__KAFKA_CONFIG": config})
    assert problem.startswith("LAKEKEEPER__KAFKA_CONFIG got a secret value; expected: ")
    assert reason in problem


@pytest.mark.parametrize(
    "content",
    [
        '{\n  "bootstrap.servers"="k1:9092,k2:9092",\n  "sasl.password"="canary",\n}\n',
        '{"bootstrap.servers": "k1:9092,k2:9092", "sasl.password": "canary"}',
        "# comment\n\nbootstrap.servers = k1:9092,k2:9092\nsasl.password=canary\n",
    ],
)
def test_a_file_has_three_forms(content: str, tmp_path: Path) -> None:
    file = tmp_path / "kafka"
    file.write_text(content)
    settings, _ = read_settings({"LAKEKEEPER__KAFKA_TOPIC": "t", "LAKEKEEPER__KAFKA_CONFIG_FILE": str(file)})
    given = {name: value.get_secret_value() for name, value in settings.read_kafka_settings().items()}
    assert given == {"bootstrap.servers": "k1:9092,k2:9092", "sasl.password": "canary"}


def test_the_variable_takes_precedence_over_the_file() -> None:
    settings, _ = read_settings(KAFKA | {"LAKEKEEPER__KAFKA_CONFIG_FILE": "/does/not/exist"})
    assert settings.read_kafka_settings()["bootstrap.servers"].get_secret_value() == "kafka:9092"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "LAKEKEEPER__KAFKA_CONFIG_FILE cannot be read: No such file or directory"),
        (b"\xff", "LAKEKEEPER__KAFKA_CONFIG_FILE is not UTF-8"),
        (b"canary", "LAKEKEEPER__KAFKA_CONFIG_FILE: line 1 is not name=value"),
        (b'{"a": ["canary"]}', ("LAKEKEEPER__KAFKA_CONFIG_FILE: all values of the JSON object must be texts, numbers "
                               "or booleans")),
        (b"sasl.password=canary", "LAKEKEEPER__KAFKA_CONFIG_FILE: bootstrap.servers is missing"),
    ],
)  # fmt: skip
def test_an_unusable_file_is_reported_without_its_content(content: bytes | None, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "kafka"
    if content is not None:
        file.write_bytes(content)
    settings, _ = read_settings({"LAKEKEEPER__KAFKA_TOPIC": "t", "LAKEKEEPER__KAFKA_CONFIG_FILE": str(file)})
    with pytest.raises(ValueError, match="KAFKA_CONFIG_FILE") as refused:
        settings.read_kafka_settings()
    assert str(refused.value) == problem
