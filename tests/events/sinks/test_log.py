"""Events as log lines."""

from __future__ import annotations

import json
import logging

import pytest
from django.conf import settings

from events.sinks.configuration import LogConfiguration, LogSecrets
from events.sinks.definition import SinkDefinition
from events.sinks.log import LogSink
from events.sinks.opening import open_sink
from icekeeper.logs import JsonFormatter
from tests.events.sinks.sample_events import HARD_TEXT, event


def test_one_line_for_each_event(caplog: pytest.LogCaptureFixture) -> None:
    sink = open_sink(SinkDefinition(LogConfiguration(), LogSecrets()))
    assert isinstance(sink, LogSink)
    assert sink.keeps_order
    events = [event(1, name=HARD_TEXT + "\n{}"), event(2, data=b"null")]
    caplog.handler.setLevel(logging.INFO)
    with caplog.at_level(logging.INFO, logger="icekeeper.events"):
        assert sink.send(events) == {}
    sink.close()
    lines = [JsonFormatter().format(record) for record in caplog.records]
    assert [line.count("\n") for line in lines] == [0, 0]
    read = [json.loads(line) for line in lines]
    assert [(line["logger"], line["level"], line["message"]) for line in read] == [
        ("icekeeper.events", "INFO", "CloudEvent")
    ] * 2
    assert [line["event"] for line in read] == [{**events[0].attributes, "data": {"n": 1}},
                                                {**events[1].attributes, "data": None}]  # fmt: skip


def test_lines_are_written_at_any_log_level() -> None:
    assert settings.LOGGING["loggers"]["icekeeper.events"] == {"level": "INFO"}
