"""Recursive deletion below a location: it deletes everything inside, whatever the file type, and nothing outside."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from icekeeper.kernel.errors.types import InvalidLocation
from storage.errors import StoreUnavailable
from storage.io import local
from storage.io.local import MAX_DEPTH, LocalStore


@pytest.fixture
def outside(root: Path) -> Path:
    """A folder next to the root; its files must survive every test."""
    outside = root.parent / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "secret").write_text("s")
    (outside / "inner" / "secret").write_text("s")
    return outside


def untouched(outside: Path) -> bool:
    found = sorted(str(path.relative_to(outside)) for path in outside.rglob("*"))
    return found == ["inner", "inner/secret", "secret"]


def proceed() -> None:
    pass


def fill(folder: Path) -> Path:
    for name in ("data/a=1/x.parquet", "data/a=2/x.parquet", "metadata/00000.metadata.json", "top"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (folder / "empty" / "emptier").mkdir(parents=True)
    return folder


def chain(folder: Path, depth: int, leaf: str | None) -> None:
    """Create nested folders deeper than the maximum length of a path, with a file in the last one."""
    folder.mkdir(parents=True)
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("deeper-and-deeper", dir_fd=descriptor)
        deeper = os.open("deeper-and-deeper", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = deeper
    if leaf is not None:
        os.close(os.open(leaf, os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)


def test_only_files_below_the_location_are_deleted(store: LocalStore, root: Path) -> None:
    fill(root / "wh/t")
    neighbours = [fill(root / "wh" / name) for name in ("t2", "t-", "T", " t", "other")]
    (root / "wh/t.txt").write_text("x")
    before = {path for neighbour in neighbours for path in neighbour.rglob("*")}
    store.delete_below(f"file://{root}/wh/t", proceed)
    assert not (root / "wh/t").exists()
    assert {path for neighbour in neighbours for path in neighbour.rglob("*")} == before
    assert (root / "wh/t.txt").exists()
    store.delete_below(f"file://{root}/wh/t", proceed)  # deleting again succeeds
    store.delete_below(f"file://{root}/never/was/there", proceed)
    assert not (root / "never").exists()


def test_links_and_special_files_go_themselves(store: LocalStore, root: Path, outside: Path) -> None:
    folder = fill(root / "wh/t")
    (folder / "to-file").symlink_to(outside / "secret")
    (folder / "to-folder").symlink_to(outside)
    (folder / "data" / "up").symlink_to("../../..")
    (folder / "dangling").symlink_to("/nowhere/at/all")
    (folder / "loop").symlink_to("loop")
    (folder / "hard").hardlink_to(outside / "secret")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(folder, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
    fill(root / "wh/u")
    store.delete_below(f"file://{root}/wh/t", proceed)
    assert not folder.exists()
    assert untouched(outside)
    assert (root / "wh/u/top").exists()


@pytest.mark.parametrize("link_at", ["wh", "wh/t"])
def test_a_location_that_leads_through_a_link_is_refused(
    store: LocalStore, root: Path, outside: Path, link_at: str
) -> None:
    (outside / "t").mkdir()
    (outside / "t" / "x").write_text("x")
    (root / link_at).parent.mkdir(exist_ok=True)
    (root / link_at).symlink_to(outside if link_at == "wh" else outside / "t")
    with pytest.raises(InvalidLocation):
        store.delete_below(f"file://{root}/wh/t", proceed)
    assert (outside / "t" / "x").exists()
    assert (root / link_at).is_symlink()


@pytest.mark.parametrize("spelled", ["{root}", "{root}/../outside", "{root}2", "/etc", "{root}/wh/../../outside"])
def test_locations_outside_the_root_are_rejected(store: LocalStore, root: Path, outside: Path, spelled: str) -> None:
    location = "file://" + spelled.format(root=root)
    for ask in (lambda: store.delete_below(location, proceed), lambda: is_empty(store, location)):
        with pytest.raises(InvalidLocation):
            ask()
    assert untouched(outside)


def test_a_file_is_no_folder(store: LocalStore, root: Path) -> None:
    (root / "wh").mkdir()
    (root / "wh/t").write_text("x")
    with pytest.raises(InvalidLocation):
        store.delete_below(f"file://{root}/wh/t", proceed)
    assert (root / "wh/t").read_text() == "x"
    assert not is_empty(store, f"file://{root}/wh/t")


def test_names_of_any_bytes(store: LocalStore, root: Path) -> None:
    folder = os.fsencode(fill(root / "wh/t"))
    for name in (b"\xff\xfe", b"new\nline", b"-rf", b"*", "\u4e2d".encode(), b" ", b"x" * 255):
        os.mkdir(folder + b"/" + name)  # noqa: PTH102 - bytes
        with open(folder + b"/" + name + b"/" + name, "wb"):  # noqa: PTH123
            pass
    store.delete_below(f"file://{root}/wh/t", proceed)
    assert not (root / "wh/t").exists()


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 1000])
def test_depth_costs_no_descriptors(store: LocalStore, root: Path, depth: int) -> None:
    chain(root / "wh/t", depth, "leaf")
    fill(root / "wh/t/sibling")
    most = 0

    def count() -> None:
        nonlocal most
        most = max(most, len(os.listdir("/proc/self/fd")))  # noqa: PTH208

    assert not is_empty(store, f"file://{root}/wh/t")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    store.delete_below(f"file://{root}/wh/t", count)
    assert os.listdir(root / "wh") == []  # noqa: PTH208
    assert most <= before + 2 * MAX_DEPTH + 10


def test_many_files_in_one_folder(store: LocalStore, root: Path) -> None:
    (root / "wh/t").mkdir(parents=True)
    for number in range(5_000):
        os.close(os.open(root / f"wh/t/{number}", os.O_CREAT | os.O_WRONLY))
    store.delete_below(f"file://{root}/wh/t", proceed)
    assert not (root / "wh/t").exists()


class Enough(Exception):
    pass


def after(steps: int, act: Callable[[], None]) -> Callable[[], None]:
    """Call `act` once, before the given step."""
    done = 0

    def checkpoint() -> None:
        nonlocal done
        done += 1
        if done == steps:
            act()

    return checkpoint


def test_deletion_stops_at_the_limit_and_continues_later(store: LocalStore, root: Path) -> None:
    location = f"file://{root}/wh/t"
    fill(root / "wh/t")

    def stop() -> None:
        raise Enough

    left = len(list((root / "wh/t").rglob("*")))
    for steps in range(1, 6):
        with pytest.raises(Enough):
            store.delete_below(location, after(steps, stop))
        still = len(list((root / "wh/t").rglob("*")))
        assert left - steps < still <= left
        left = still
    store.delete_below(location, proceed)
    assert not (root / "wh/t").exists()


@pytest.mark.parametrize("steps", range(1, 20))
def test_a_folder_that_is_replaced_by_a_link_is_not_followed(
    store: LocalStore, root: Path, outside: Path, steps: int
) -> None:
    """At every step, moved files and files behind the link survive, or were part of the deletion."""
    folder = fill(root / "wh/t")

    def plant() -> None:
        if (folder / "data").is_dir():
            (folder / "data").rename(root / "wh/moved")
            (folder / "data").symlink_to(outside)

    store.delete_below(f"file://{root}/wh/t", after(steps, plant))
    assert untouched(outside)
    assert not folder.exists()


def test_files_written_during_the_deletion_are_deleted(store: LocalStore, root: Path) -> None:
    location = f"file://{root}/wh/t"
    for steps in range(1, 16):
        fill(root / "wh/t")
        late = root / f"wh/t/data/late-{steps}/x"

        def write(late: Path = late) -> None:
            late.parent.mkdir(parents=True, exist_ok=True)
            late.write_text("x")

        store.delete_below(location, after(steps, write))
        assert not (root / "wh/t").exists()


def test_deletion_fails_while_a_writer_does_not_stop(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "MAX_PASSES", 5)
    folder = root / "wh/t"
    fill(folder)
    written: list[int] = []

    def write() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        written.append(1)
        (folder / f"late-{len(written)}").write_text("x")

    with pytest.raises(StoreUnavailable, match="keeps writing"):
        store.delete_below(f"file://{folder}", write)


def test_the_removal_is_synced(store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(root / "wh/t")
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").resolve()))
    store.delete_below(f"file://{root}/wh/t", proceed)
    assert synced == [root / "wh"]


def is_empty(store: LocalStore, location: str) -> bool:
    return store.is_empty(location, ignore=lambda _: False)


def test_some_names_may_not_count(store: LocalStore, root: Path) -> None:
    location = f"file://{root}/wh/t"
    (root / "wh/t/metadata").mkdir(parents=True)
    (root / "wh/t/metadata/own").write_text("x")
    (root / "wh/t/own").mkdir()
    assert store.is_empty(location, ignore=lambda name: name == "own")
    assert not store.is_empty(location, ignore=lambda name: name == "metadata")
    (root / "wh/t/own/own").symlink_to("/nowhere")
    assert not store.is_empty(location, ignore=lambda name: name == "own")


def test_empty_means_without_files(store: LocalStore, root: Path, outside: Path) -> None:
    location = f"file://{root}/wh/t"
    assert is_empty(store, location)
    (root / "wh/t/a/b").mkdir(parents=True)
    (root / "wh/t2").mkdir()
    (root / "wh/t2/x").write_text("x")
    assert is_empty(store, location)
    (root / "wh/t/a/b/link").symlink_to(outside)
    assert not is_empty(store, location)
    (root / "wh/t/a/b/link").unlink()
    (root / "wh/t/a/b/x").write_text("")
    assert not is_empty(store, location)
    (root / "wh/link").symlink_to(outside)
    assert not is_empty(store, f"file://{root}/wh/link")
    with pytest.raises(InvalidLocation):
        is_empty(store, f"file://{root}/wh/link/t")
    chain(root / "wh/deep", MAX_DEPTH, None)
    assert is_empty(store, f"file://{root}/wh/deep")
    chain(root / "wh/deeper", MAX_DEPTH + 1, None)
    assert not is_empty(store, f"file://{root}/wh/deeper")
