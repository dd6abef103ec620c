from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection as Pipe

from icekeeper.kernel.node_stamp import NodeStamp

FORK = multiprocessing.get_context("fork")


def _renew(stamp: NodeStamp, pipe: Pipe) -> None:
    pipe.send(stamp.read())
    stamp.renew()
    pipe.send(stamp.read())
    pipe.recv()
    pipe.send(stamp.read())


def test_a_stamp_changes_in_every_process_that_was_forked() -> None:
    stamp, other = NodeStamp(), NodeStamp()
    pipe, theirs = FORK.Pipe()
    process = FORK.Process(target=_renew, args=(stamp, theirs), daemon=True)
    before, unrelated = stamp.read(), other.read()
    process.start()
    assert pipe.recv() == before
    renewed = pipe.recv()
    assert renewed == stamp.read() != before
    stamp.renew()
    pipe.send(None)
    assert pipe.recv() == stamp.read() != renewed
    assert other.read() == unrelated
    process.join()


def test_no_value_comes_back() -> None:
    stamp = NodeStamp()
    seen = {stamp.read()}
    for _ in range(1000):
        stamp.renew()
        seen.add(stamp.read())
    assert len(seen) == 1001
