"""How long a commit is tried again."""

from __future__ import annotations

import time

import pytest

from catalog.services import contention
from catalog.services.contention import attempts
from icekeeper.kernel import deadline
from icekeeper.kernel.errors import CommitContended


def test_tries_end_with_the_time_that_the_request_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when a try has written, which ends the request's own deadline."""
    at = 100.0
    monkeypatch.setattr(contention.time, "monotonic", lambda: at)
    monkeypatch.setattr(contention.time, "sleep", lambda _: None)
    with deadline.deadline(at + 10):
        trying = attempts("t")
        for tries in range(4):
            assert next(trying) == tries
            deadline.begin_write()
            at += 3
        with pytest.raises(CommitContended, match="again and again"):
            next(trying)


def test_tries_are_numbered_and_nobody_sleeps_after_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    with pytest.raises(CommitContended):
        list(attempts("t"))
    assert len(slept) == contention.ATTEMPTS - 1
