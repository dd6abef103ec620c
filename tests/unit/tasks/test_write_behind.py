"""The write-behind buffer: what it merges, its bound, and a write that fails."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from operator import add

import pytest

from tasks.runtime.write_behind import WriteBehind


def test_values_of_a_key_are_merged() -> None:
    buffer = WriteBehind[str, int](add, max_keys=10)
    for key in "aba":
        buffer.add(key, 2)
    assert buffer.take() == {"a": 4, "b": 2}
    assert buffer.take() == {}


def test_further_keys_are_dropped_and_counted() -> None:
    buffer = WriteBehind[int, int](add, max_keys=2)
    for key in (1, 2, 3, 4, 1):
        buffer.add(key, 5)
    assert len(buffer) == 2
    assert buffer.take() == {1: 10, 2: 5}
    buffer.drop(3)
    assert (buffer.take_dropped(), buffer.take_dropped()) == (5, 0)
    weighing = WriteBehind[int, int](add, max_keys=1, weigh=lambda value: value)
    for key in (1, 2, 3):
        weighing.add(key, 5)
    assert weighing.take_dropped() == 10


def test_further_keys_are_generalized_first() -> None:
    buffer = WriteBehind[int, int](add, max_keys=2, generalize=lambda key: key % 10)
    for key in (11, 22, 33, 43, 54, 65):
        buffer.add(key, 1)
    assert buffer.take() == {11: 1, 22: 1, 3: 2, 4: 1}
    assert buffer.take_dropped() == 1


def test_what_cannot_be_written_is_kept() -> None:
    buffer = WriteBehind[str, int](add, max_keys=3)
    buffer.add("a", 1)

    def fail(taken: dict[str, int]) -> None:
        assert taken == {"a": 1}
        buffer.add("a", 2)
        buffer.add("b", 1)
        raise RuntimeError("away")

    with pytest.raises(RuntimeError, match="away"):
        buffer.write(fail)
    written: list[dict[str, int]] = []
    buffer.write(written.append)
    buffer.write(written.append)
    assert written == [{"a": 3, "b": 1}]


def test_nothing_is_lost_between_threads() -> None:
    buffer = WriteBehind[int, int](add, max_keys=100)
    taken: list[dict[int, int]] = []

    def work(number: int) -> None:
        for count in range(2000):
            buffer.add(count % 7, 1)
            if count % 100 == number:
                taken.append(buffer.take())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    taken.append(buffer.take())
    assert sum(value for each in taken for value in each.values()) == 16_000
