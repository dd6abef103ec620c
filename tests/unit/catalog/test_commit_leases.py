"""Leases between forked processes of one server. Each process executes one step at a time on request of the test."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection as Pipe
from typing import Any

import pytest
from django.conf import settings

from catalog.services.commit import queue
from catalog.services.commit.queue import LeaseBoard

pytestmark = pytest.mark.both_databases

LEASE = 7
FORK = multiprocessing.get_context("fork")


class Other:
    """Another process with the same board."""

    def __init__(self, board: LeaseBoard) -> None:
        self._pipe, theirs = FORK.Pipe()
        self.process = FORK.Process(target=_obey, args=(board, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self._pipe.close()

    def acquire(self) -> bool:
        return bool(self._ask("acquire", LEASE))

    def release(self, keep_seconds: float = 0.0) -> None:
        self._ask("release", LEASE, keep_seconds=keep_seconds)

    def _ask(self, name: str, *args: Any, **options: Any) -> Any:
        self._pipe.send((name, args, options))
        assert self._pipe.poll(30)
        return self._pipe.recv()


def _obey(board: LeaseBoard, pipe: Pipe) -> None:
    while True:
        name, args, options = pipe.recv()
        pipe.send(getattr(board, name)(*args, **options))


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Iterator[LeaseBoard]:
    monkeypatch.setattr(queue, "LEASE_SECONDS", 60.0)
    monkeypatch.setattr(queue, "LEASE_WAITER_SECONDS", 60.0)
    created = LeaseBoard()
    yield created
    created.close()


@pytest.fixture
def others(board: LeaseBoard) -> Iterator[tuple[Other, Other]]:
    pair = Other(board), Other(board)
    yield pair
    for other in pair:
        other.kill()


def test_one_process_has_the_lease_until_it_releases_it(board: LeaseBoard, others: tuple[Other, Other]) -> None:
    other, _ = others
    assert board.acquire(LEASE)
    assert board.acquire(LEASE)  # it belongs to the process, not to the thread
    assert not other.acquire()
    other.release()  # not the owner
    assert not other.acquire()
    board.release(LEASE, keep_seconds=0)
    assert other.acquire()
    assert not board.acquire(LEASE)


def test_a_waiter_gets_the_lease_before_its_former_owner(board: LeaseBoard, others: tuple[Other, Other]) -> None:
    first, second = others
    assert board.acquire(LEASE)
    assert not first.acquire()
    assert not second.acquire()
    board.release(LEASE, keep_seconds=0)
    assert not second.acquire()  # reserved for the first waiter, even if that has not asked again
    assert not board.acquire(LEASE)
    assert first.acquire()
    first.release()
    assert not board.acquire(LEASE)
    assert second.acquire()


def test_a_kept_lease_is_the_own_process_s_until_its_time_is_over(
    board: LeaseBoard, others: tuple[Other, Other]
) -> None:
    other, _ = others
    assert board.acquire(LEASE)
    board.release(LEASE, keep_seconds=60)
    assert not other.acquire()
    assert board.acquire(LEASE)
    board.release(LEASE, keep_seconds=0.01)
    time.sleep(0.02)
    assert other.acquire()


def test_a_killed_process_blocks_no_other_for_long(board: LeaseBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "LEASE_SECONDS", 0.05)
    other = Other(board)
    assert other.acquire()
    other.kill()
    time.sleep(0.1)
    assert board.acquire(LEASE)


def test_a_process_that_is_killed_while_it_waits_is_passed_over(
    board: LeaseBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "LEASE_WAITER_SECONDS", 0.05)
    other = Other(board)
    assert board.acquire(LEASE)
    assert not other.acquire()
    other.kill()
    time.sleep(0.1)
    board.release(LEASE, keep_seconds=0)
    assert board.acquire(LEASE)


@pytest.mark.django_db  # waiting code checks for a database connection to close
def test_no_request_waits_longer_than_the_limit(board: LeaseBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "_board", board)
    other = Other(board)
    assert other.acquire()
    assert not queue.acquire_lease(LEASE, seconds=0.02)
    other.release()
    assert queue.acquire_lease(LEASE, seconds=30)
    other.kill()


def test_the_processes_of_a_server_share_a_board(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "catalog.services.commit.queue.share_leases" in settings.STARTUP_JOBS
    monkeypatch.setattr(queue, "_board", None)
    queue.share_leases()
    assert queue._board is not None
    other = Other(queue._board)
    assert other.acquire()
    assert not queue._board.acquire(LEASE)
    other.kill()
    queue._board.close()


def test_without_a_board_every_lease_is_granted() -> None:
    assert queue._board is None
    assert queue.acquire_lease(LEASE, seconds=0)
    queue.release_lease(LEASE)


def test_hostile_addresses_have_a_lease() -> None:
    for address in (("w", "\ud800", ""), ("w", "a" * 100_000, "$\x00"), ("w", "ns", "t")):
        assert 0 <= queue.lease_number(address) < queue.LEASES
