"""The numbers of several processes on one board, and how they are written for Prometheus."""

from __future__ import annotations

import logging
import re

import pytest

from icekeeper.kernel.meters import Meter, Series
from icekeeper.server.exposition import expose
from icekeeper.server.metrics_board import MetricsBoard, MetricsWriter

HITS = Series("hits_total", "counter", "Hits", {"cloud": "s3"})
SIZE = Series("size", "gauge", "Entries", {"cloud": "s3"})
FILES = Series("files", "gauge", "Open files")


class Process:
    """What one process would count."""

    def __init__(self, board: MetricsBoard, told: list[float]) -> None:
        place = board.claim()
        assert place is not None
        self.board, self.place, self.told = board, place, told
        self.count(*told)
        self.writer = MetricsWriter(board, place, interval=3600)

    def count(self, hits: float, size: float) -> None:
        self.told[:] = [hits, size]

    def die(self) -> None:
        self.board.release(self.place)


@pytest.fixture
def told() -> list[float]:
    return [0.0, 0.0]


@pytest.fixture
def board(told: list[float]) -> MetricsBoard:
    return MetricsBoard([Meter([HITS, SIZE], lambda: told)], places=2)


def test_a_board_adds_up(board: MetricsBoard, told: list[float]) -> None:
    first, second = Process(board, told), Process(board, told)
    first.count(3, 2)
    first.writer.write()
    second.count(10, 20)
    second.writer.write()
    assert board.totals() == [13.0, 22.0]
    first.count(4, 1)
    first.writer.write()
    assert board.totals() == [14.0, 21.0]


def test_counts_of_the_dead_stay_and_what_they_had_does_not(board: MetricsBoard, told: list[float]) -> None:
    for _ in range(5):
        process = Process(board, told)
        process.count(7, 3)
        process.writer.write()
        process.writer.write()
        process.die()
    assert board.totals() == [35.0, 0.0]


def test_a_new_process_counts_on_before_it_has_counted_anything(board: MetricsBoard, told: list[float]) -> None:
    former = Process(board, told)
    former.count(7, 3)
    former.writer.write()
    former.die()
    later = Process(board, told)
    later.count(0, 0)
    later.writer.write()
    assert board.totals() == [7.0, 0.0]


def test_nobody_shares_a_place(board: MetricsBoard) -> None:
    assert [board.claim(), board.claim(), board.claim()] == [0, 1, None]
    board.release(1)
    assert (board.claim(), board.claim()) == (1, None)


def test_a_writer_writes_at_once_and_at_its_end(board: MetricsBoard, told: list[float]) -> None:
    process = Process(board, told)
    process.count(1, 1)
    process.writer.start()
    assert board.totals() == [1.0, 1.0]
    process.count(2, 1)
    process.writer.stop()
    assert board.totals() == [2.0, 1.0]


def test_a_meter_that_fails_keeps_its_numbers_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    answers: dict[str, list[float] | OSError] = {"files": [5.0], "hits": [1.0]}

    def files() -> list[float]:
        answer = answers["files"]
        if isinstance(answer, OSError):
            raise answer
        return answer

    board = MetricsBoard([Meter([FILES], files), Meter([HITS], lambda: [len(str(answers["hits"]))])], places=1)
    place = board.claim()
    assert place is not None
    writer = MetricsWriter(board, place)
    writer.write()
    answers |= {"files": OSError("Too many open files"), "hits": [1.0, 2.0]}
    with caplog.at_level(logging.WARNING):
        writer.write()
        writer.write()
    assert board.totals() == [5.0, float(len("[1.0, 2.0]"))]
    assert [line.getMessage() for line in caplog.records] == [
        "a part of the metrics cannot be read: Too many open files"
    ]
    answers["files"] = [6.0]
    writer.write()
    assert board.totals()[0] == 6.0


def test_a_board_without_meters() -> None:
    board = MetricsBoard([], places=2)
    assert board.claim() == 0
    board.release(0)
    assert board.totals() == []


def test_the_text_format() -> None:
    other = Series("hits_total", "counter", "Hits", {"cloud": "azure", "cache_type": "stc"})
    assert expose([(HITS, 3.0), (FILES, 0.25), (other, 2.0**53)]) == (
        "# HELP hits_total Hits\n"
        "# TYPE hits_total counter\n"
        'hits_total{cloud="s3"} 3\n'
        'hits_total{cloud="azure",cache_type="stc"} 9007199254740992\n'
        "# HELP files Open files\n"
        "# TYPE files gauge\n"
        "files 0.25\n"
    )


@pytest.mark.parametrize(
    ("name", "kind", "description", "labels"),
    [
        ("hits", "counter", "a counter is named so", {}),
        ("size_total", "gauge", "and nothing else is", {}),
        ("a-b", "gauge", "", {}),
        ("size", "gauge", "two\nlines", {}),
        ("size", "gauge", "", {"of": 'a"b'}),
        ("size", "gauge", "", {"of": "a\nb"}),
        ("size", "gauge", "", {"of": "a\\b"}),
        ("size", "gauge", "", {"of": ""}),
        ("size", "gauge", "", {"O f": "a"}),
    ],
)
def test_what_the_text_format_would_not_take_is_no_series(
    name: str, kind: str, description: str, labels: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match=re.escape(name)):
        Series(name, kind, description, labels)  # type: ignore[arg-type]
