from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection as Pipe

from tenancy.authz.permission_epoch import SharedEpoch

FORK = multiprocessing.get_context("fork")


def _bump(epoch: SharedEpoch, pipe: Pipe) -> None:
    pipe.send(epoch.current())
    epoch.bump()
    pipe.send(epoch.current())
    pipe.recv()
    pipe.send(epoch.current())


def test_an_epoch_changes_in_every_process_that_was_forked() -> None:
    epoch, other = SharedEpoch(), SharedEpoch()
    pipe, theirs = FORK.Pipe()
    process = FORK.Process(target=_bump, args=(epoch, theirs), daemon=True)
    before, unrelated = epoch.current(), other.current()
    process.start()
    assert pipe.recv() == before
    changed = pipe.recv()
    assert changed == epoch.current() != before
    epoch.bump()
    pipe.send(None)
    assert pipe.recv() == epoch.current() != changed
    assert other.current() == unrelated
    process.join()


def test_no_value_comes_back() -> None:
    epoch = SharedEpoch()
    seen = {epoch.current()}
    for _ in range(1000):
        epoch.bump()
        seen.add(epoch.current())
    assert len(seen) == 1001
