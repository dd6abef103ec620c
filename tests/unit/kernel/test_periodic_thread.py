from __future__ import annotations

from threading import Event

from icekeeper.kernel.threads import PeriodicThread


def test_a_periodic_thread_runs_repeatedly_and_once_at_the_end() -> None:
    worked: list[int] = []
    thrice = Event()

    def work() -> None:
        worked.append(1)
        if len(worked) == 3:
            thrice.set()

    thread = PeriodicThread("test", work, interval=0.001)
    thread.start()
    assert thrice.wait(30)
    thread.stop()
    done = len(worked)
    assert done >= 4
    thread.stop()
    assert len(worked) == done


def test_a_waiting_thread_runs_at_its_end() -> None:
    worked: list[int] = []
    thread = PeriodicThread("test", lambda: worked.append(1), interval=3600)
    thread.start()
    thread.stop()
    assert worked == [1]
