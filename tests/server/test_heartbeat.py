"""The heartbeat of a server process: as gunicorn's arbiter reads it, and without a folder."""

from __future__ import annotations

import os
import time

from gunicorn.workers import base

from icekeeper.server.worker import Heartbeat


def test_the_heartbeat_shows_the_arbiter_when_a_process_was_last_alive() -> None:
    heartbeat = Heartbeat(None)
    before = time.monotonic()
    heartbeat.notify()
    assert before - 0.1 <= heartbeat.last_update() <= time.monotonic() + 0.1
    child = os.fork()
    if not child:
        os.utime(heartbeat.fileno(), (5, 5))
        os._exit(0)
    os.waitpid(child, 0)
    assert heartbeat.last_update() == 5, "what a child shows is seen by its parent"
    assert os.fstat(heartbeat.fileno()).st_nlink == 0, "it has no name in any folder"
    heartbeat.close()


def test_workers_have_it() -> None:
    assert base.WorkerTmp is Heartbeat
