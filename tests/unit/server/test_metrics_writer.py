"""The thread that writes the metrics of a process."""

from __future__ import annotations

import logging

import pytest

from icekeeper.server.metrics_endpoint import MetricsWriter


def test_the_writer_writes_at_its_start_and_end() -> None:
    written: list[str] = []
    writer = MetricsWriter([lambda: written.append("a"), lambda: written.append("b")], interval=3600)
    writer.start()
    assert written == ["a", "b"]
    writer.stop()
    assert written == ["a", "b"] * 2


def test_a_source_that_fails_is_logged_once_and_the_others_are_written(caplog: pytest.LogCaptureFixture) -> None:
    written: list[int] = []
    failures: list[OSError] = [OSError("Too many open files")]

    def fail() -> None:
        for failure in failures:
            raise failure

    writer = MetricsWriter([fail, lambda: written.append(1)])
    with caplog.at_level(logging.WARNING):
        writer.write()
        writer.write()
        failures.clear()
        writer.write()
        failures.append(OSError("again"))
        writer.write()
    assert len(written) == 4
    assert [line.getMessage() for line in caplog.records] == [
        "some metrics cannot be read: Too many open files",
        "some metrics cannot be read: again",
    ]
