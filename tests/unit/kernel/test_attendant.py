from __future__ import annotations

from threading import Event

from icekeeper.kernel.attendant import Attendant


def test_an_attendant_works_again_and_again_and_once_more_at_the_end() -> None:
    worked: list[int] = []
    thrice = Event()

    def work() -> None:
        worked.append(1)
        if len(worked) == 3:
            thrice.set()

    attendant = Attendant("test", work, interval=0.001)
    attendant.start()
    assert thrice.wait(30)
    attendant.stop()
    done = len(worked)
    assert done >= 4
    attendant.stop()
    assert len(worked) == done


def test_one_that_waits_works_at_its_end() -> None:
    worked: list[int] = []
    attendant = Attendant("test", lambda: worked.append(1), interval=3600)
    attendant.start()
    attendant.stop()
    assert worked == [1]
