"""A thread pool that adds a thread while another one waits."""

from __future__ import annotations

import pytest

from icekeeper.server.request_threads import ThreadPool


def test_a_system_without_threads_is_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    pool: ThreadPool[int] = ThreadPool(2, lambda _: None, lambda: None)
    pool._running = 2

    def refuse() -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(pool, "_start_thread", refuse)
        for _ in range(100):
            pool.begin_wait()
            pool.end_wait()
    assert (pool._running, pool._waiting) == (2, 0)
    started: list[None] = []
    monkeypatch.setattr(pool, "_start_thread", lambda: started.append(None))
    pool.begin_wait()
    assert len(started) == 1
