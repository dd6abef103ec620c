"""Threads that lend their places."""

from __future__ import annotations

import pytest

from icekeeper.server.crew import Crew


def test_a_system_without_threads_is_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    crew: Crew[int] = Crew(2, lambda _: None, lambda: None)
    crew._running = 2

    def refuse() -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(crew, "_start_thread", refuse)
        for _ in range(100):
            crew.begin_wait()
            crew.end_wait()
    assert (crew._running, crew._waiting) == (2, 0)
    started: list[None] = []
    monkeypatch.setattr(crew, "_start_thread", lambda: started.append(None))
    crew.begin_wait()
    assert len(started) == 1
