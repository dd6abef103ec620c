"""The scheduler of a process, with a clock of the test: when jobs run, what an error does, and how it stops."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from icekeeper.kernel import metrics as metrics_module
from tasks.runtime import jobs, runs, scheduler
from tasks.runtime.jobs import Job, Where
from tasks.runtime.runs import last_runs
from tasks.runtime.scheduler import Scheduler

WAIT_SECONDS = 30


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """Jobs whose functions are those of the test, a clock, and their calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.functions: dict[str, Callable[[], Any]] = {}
        monkeypatch.setattr(jobs, "_resolve", self.functions.__getitem__)
        self.clock = Clock()
        self.calls: list[tuple[str, float]] = []
        self.is_paused = False
        self._jobs: list[Job] = []

    def job(self, name: str, function: Callable[[], Any] = lambda: None, **fields: Any) -> None:
        def call() -> None:
            self.calls.append((name, self.clock.now - 1000))
            function()

        self.functions[name] = call
        self.functions[f"{name} at stop"] = lambda: self.calls.append((f"{name} at stop", self.clock.now - 1000))
        if fields.pop("has_last_run", False):
            fields["at_stop"] = f"{name} at stop"
        where = fields.pop("where", Where.EACH_SERVER_PROCESS)
        self._jobs.append(Job(name=name, run=name, every=fields.pop("every", 1.0), where=where, **fields))

    def scheduler(self) -> Scheduler:
        return Scheduler(self._jobs, is_paused=lambda: self.is_paused, clock=self.clock)

    def pass_time(self, scheduled: Scheduler, seconds: float, *, step: float = 0.5) -> None:
        """Let time pass in steps; at each wait until slow jobs have ended."""
        end = self.clock.now + seconds
        while True:
            scheduled._timers.run_due()
            with scheduled._timers._changed:
                assert scheduled._timers._changed.wait_for(lambda: not scheduled._timers._threads, WAIT_SECONDS)
            if self.clock.now >= end:
                return
            self.clock.now += step


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(runs, "_last_runs", {})
    return Bench(monkeypatch)


def test_quick_jobs_run_at_once_and_slow_ones_after_their_interval(bench: Bench) -> None:
    bench.job("quick", is_quick=True)
    bench.job("slow", every=2.0)
    bench.job("first", every=10.0, first_run_within=5.0)
    scheduled = bench.scheduler()
    scheduled.schedule()
    bench.pass_time(scheduled, 4)
    assert [at for name, at in bench.calls if name == "quick"] == [0, 1, 2, 3, 4]
    assert [at for name, at in bench.calls if name == "slow"] == [2, 4]
    assert [at for name, at in bench.calls if name == "first"] == [0]


def test_the_interval_counts_from_the_beginning_of_a_run_and_runs_do_not_overlap(bench: Bench) -> None:
    def take_long() -> None:
        bench.clock.now += 2.5

    bench.job("long", take_long, is_quick=True)
    scheduled = bench.scheduler()
    scheduled.schedule()
    for _ in range(3):
        due = scheduled._timers._take_due()
        assert due is not None
        due()
    assert bench.calls == [("long", 0), ("long", 2.5), ("long", 5)]


def fail() -> None:
    raise RuntimeError("no \0 luck")


def test_an_error_is_logged_once_and_the_job_runs_again_more_and_more_rarely(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "backoff_seconds", lambda failures, *, first, limit: min(first * failures, limit))
    counted: list[tuple[str, bool]] = []
    monkeypatch.setattr(runs, "job_ended", lambda name, seconds, *, is_ok: counted.append((name, is_ok)))
    bench.job("wrong", fail, every=4.0)
    bench.job("other", is_quick=True, every=8.0)
    scheduled = bench.scheduler()
    scheduled.schedule()
    with caplog.at_level(logging.INFO, "icekeeper.jobs"):
        bench.pass_time(scheduled, 62)
        assert [at for name, at in bench.calls if name == "wrong"] == [4, 8, 16, 28, 43, 58]
        assert len([1 for name, _ in bench.calls if name == "other"]) == 8
        assert last_runs()["wrong"].error == "RuntimeError: no \ufffd luck"
        scheduled._schedules[0]._function = lambda: bench.calls.append(("right", bench.clock.now - 1000))
        bench.pass_time(scheduled, 20)
    assert [at for name, at in bench.calls if name == "right"] == [73, 77, 81]
    assert last_runs()["wrong"].error == ""
    assert [(record.levelname, record.getMessage(), record.exc_info is not None) for record in caplog.records] == [
        ("WARNING", "job wrong failed: RuntimeError: no \ufffd luck", True),
        ("INFO", "job wrong succeeds again", False),
    ]
    assert [is_ok for name, is_ok in counted if name == "wrong"] == [False] * 6 + [True] * 3


def test_a_quick_job_that_fails_runs_as_often_as_before(bench: Bench) -> None:
    bench.job("quick", fail, is_quick=True)
    scheduled = bench.scheduler()
    scheduled.schedule()
    bench.pass_time(scheduled, 5)
    assert [at for _, at in bench.calls] == [0, 1, 2, 3, 4, 5]


def test_while_paused_only_some_jobs_run(bench: Bench) -> None:
    bench.job("always", is_quick=True, runs_in_maintenance=True)
    bench.job("writes", has_last_run=True)
    scheduled = bench.scheduler()
    bench.is_paused = True
    scheduled.schedule()
    bench.pass_time(scheduled, 3)
    assert {name for name, _ in bench.calls} == {"always"}
    bench.is_paused = False
    bench.pass_time(scheduled, 2)
    assert [at for name, at in bench.calls if name == "writes"] == [4, 5]
    bench.is_paused = True
    scheduled.stop()
    assert "writes at stop" not in {name for name, _ in bench.calls}


def test_a_slow_job_does_not_delay_a_quick_one(bench: Bench) -> None:
    hangs, begun = Event(), [Event(), Event()]
    for number in range(2):

        def hang(number: int = number) -> None:
            begun[number].set()
            assert hangs.wait(WAIT_SECONDS)

        bench.job(f"slow {number}", hang)
    bench.job("waits for a thread")
    bench.job("quick", is_quick=True)
    scheduled = bench.scheduler()
    scheduled.schedule()
    scheduled._timers.run_due()
    for _ in range(10):
        bench.clock.now += 1
        scheduled._timers.run_due()
    assert all(each.wait(WAIT_SECONDS) for each in begun)
    assert [at for name, at in bench.calls if name == "quick"] == list(range(11))
    assert sorted(name for name, _ in bench.calls if name != "quick") == ["slow 0", "slow 1"], "each runs once"
    hangs.set()
    scheduled.stop()


def test_a_job_that_must_run_first_is_waited_for(bench: Bench) -> None:
    bench.job("first", every=3600.0, is_quick=True, first_run_within=WAIT_SECONDS)
    scheduled = bench.scheduler()
    scheduled.start()
    assert bench.calls == [("first", 0)]
    scheduled.stop()


def test_a_start_waits_only_so_long(bench: Bench) -> None:
    hangs = Event()
    bench.job("first", lambda: hangs.wait(WAIT_SECONDS), is_quick=True, first_run_within=0.01)
    scheduled = bench.scheduler()
    scheduled.start()
    hangs.set()
    scheduled.stop()
    assert len(bench.calls) == 1


def test_a_stop_starts_the_last_runs(bench: Bench) -> None:
    bench.job("collects", every=3600.0, has_last_run=True)
    bench.job("reads", every=3600.0)
    scheduled = bench.scheduler()
    scheduled.start()
    scheduled.stop()
    scheduled.stop()
    assert bench.calls == [("collects at stop", 0)]
    assert not scheduled._timers._thread.is_alive()


def test_a_last_run_comes_after_the_current_one(bench: Bench) -> None:
    begun, may_end = Event(), Event()

    def collect() -> None:
        begun.set()
        assert may_end.wait(WAIT_SECONDS)

    bench.job("collects", collect, has_last_run=True)
    scheduled = bench.scheduler()
    scheduled.schedule()
    bench.clock.now += 1
    scheduled._timers.run_due()
    assert begun.wait(WAIT_SECONDS)
    scheduled._schedules[0].end()
    assert [name for name, _ in bench.calls] == ["collects"]
    may_end.set()
    scheduled.stop()
    assert [name for name, _ in bench.calls] == ["collects", "collects at stop"]


def test_the_wait_at_a_stop_is_limited(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scheduler, "STOP_SECONDS", 0.05)
    hangs, begun = Event(), Event()

    def hang() -> None:
        begun.set()
        assert hangs.wait(WAIT_SECONDS)

    bench.job("hangs", hang, every=0.0)
    bench.job("collects", every=3600.0, has_last_run=True)
    scheduled = bench.scheduler()
    scheduled.start()
    assert begun.wait(WAIT_SECONDS)
    scheduled.stop()
    hangs.set()
    assert ("collects at stop", 0) in bench.calls
    assert [record.getMessage() for record in caplog.records] == ["periodic jobs did not end within 0.05 s"]


def test_runs_are_in_the_metrics(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    known = metrics_module.Metrics()
    monkeypatch.setattr(metrics_module, "metrics", lambda: known)
    bench.job("right", is_quick=True)
    bench.job("wrong", fail, is_quick=True)
    scheduled = bench.scheduler()
    scheduled.schedule()
    bench.pass_time(scheduled, 1)

    def value(name: str, **labels: str) -> float | None:
        return known.registry.get_sample_value(name, labels)

    assert value("icekeeper_job_runs_total", job="right", result="ok") == 2
    assert value("icekeeper_job_runs_total", job="wrong", result="error") == 2
    assert value("icekeeper_job_runs_total", job="wrong", result="ok") is None
    assert value("icekeeper_job_duration_seconds_count", job="wrong") == 2
    assert (value("icekeeper_job_last_success_timestamp_seconds", job="right") or 0) > 1.7e9
    assert value("icekeeper_job_last_success_timestamp_seconds", job="wrong") is None


def test_an_error_outside_of_a_job_ends_no_thread(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    scheduled = bench.scheduler()
    timers, called = scheduled._timers, Event()
    timers.call_at(0, fail)
    timers.call_slowly(fail)
    timers.call_slowly(called.set)
    timers.run_due()
    assert called.wait(WAIT_SECONDS)
    scheduled.stop()
    assert {record.getMessage() for record in caplog.records} == {"a job could not be started or ended"}
    assert len(caplog.records) == 2
