"""Local files: no access outside the root, and written files are complete."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from icekeeper.kernel.errors.types import InvalidLocation
from storage.errors import StoreUnavailable
from storage.io.local import LocalStore
from storage.io.port import ObjectExists, ObjectNotFound, ObjectTooLarge
from storage.profiles.local import normalize_location
from storage.profiles.location import location_inside, parents

LIMIT = 1000


def test_an_object_is_written_once_read_and_deleted(store: LocalStore, root: Path) -> None:
    location = f"file://{root}/wh/t/metadata/x.json"
    store.put_new(location, b"content")
    assert store.get(location, limit=LIMIT) == b"content"
    with pytest.raises(ObjectExists):
        store.put_new(location, b"other")
    assert (root / "wh/t/metadata/x.json").read_bytes() == b"content"
    store.delete(location)
    store.delete(location)
    with pytest.raises(ObjectNotFound, match="Failed to open input stream for file"):
        store.get(location, limit=LIMIT)


def test_deletion_of_many_objects_continues_after_an_error(store: LocalStore, root: Path) -> None:
    locations = [f"file://{root}/wh/t/{name}" for name in "abcd"]
    for location in locations[1:3]:
        store.put_new(location, b"x")
    (root / "wh/t/d").mkdir()
    (root.parent / "outside").write_text("x")
    store.delete_many([])
    with pytest.raises(InvalidLocation, match="names a folder"):
        store.delete_many([locations[3], f"file://{root.parent}/outside", *locations])
    assert [path.name for path in (root / "wh/t").iterdir()] == ["d"]
    assert (root.parent / "outside").exists()
    store.delete_many(locations[:3])


def test_both_spellings_of_a_file_location_are_one_object(store: LocalStore, root: Path) -> None:
    store.put_new(f"file:{root}/wh/a", b"1")
    assert store.get(f"file://{root}/wh/a", limit=LIMIT) == b"1"


@pytest.mark.parametrize("spelled", ["{out}/secret", "{root}/../secret", "{root}", "{root}2/x", "/etc/passwd"])
def test_paths_outside_the_root_are_rejected(store: LocalStore, root: Path, spelled: str) -> None:
    (root.parent / "secret").write_text("s")
    location = "file://" + spelled.format(out=root.parent, root=root)
    for act in (
        lambda: store.get(location, limit=LIMIT),
        lambda: store.put_new(location, b"x"),
        lambda: store.delete(location),
        lambda: store.create_folder(location),
    ):
        with pytest.raises(InvalidLocation):
            act()
    assert (root.parent / "secret").read_text() == "s"


@pytest.mark.parametrize("link_at", ["wh", "wh/t", "wh/t/x.json"])
def test_links_are_never_followed(store: LocalStore, root: Path, link_at: str) -> None:
    outside = root.parent / "outside"
    (outside / "t").mkdir(parents=True)
    (outside / "x.json").write_text("secret")
    (outside / "t" / "x.json").write_text("secret")
    (root / link_at).parent.mkdir(parents=True, exist_ok=True)
    (root / link_at).symlink_to(outside / "x.json" if link_at.endswith("json") else outside)
    location = f"file://{root}/wh/t/x.json"
    with pytest.raises(InvalidLocation):
        store.get(location, limit=LIMIT)
    with pytest.raises((InvalidLocation, ObjectExists)):
        store.put_new(location, b"overwritten")
    assert (outside / "x.json").read_text() == "secret"
    assert (outside / "t" / "x.json").read_text() == "secret"
    assert sorted(path.name for path in outside.iterdir()) == ["t", "x.json"]


def test_a_link_to_the_root_itself_is_the_operators_choice(root: Path, tmp_path: Path) -> None:
    (tmp_path / "by-link").symlink_to(root)
    store = LocalStore((tmp_path / "by-link").resolve())
    store.put_new(f"file://{root}/wh/a", b"1")
    assert (root / "wh" / "a").read_bytes() == b"1"


def test_a_file_above_the_limit_is_not_read(store: LocalStore, root: Path) -> None:
    store.put_new(f"file://{root}/wh/a", b"x" * (LIMIT + 1))
    with pytest.raises(ObjectTooLarge):
        store.get(f"file://{root}/wh/a", limit=LIMIT)


def test_paths_that_are_not_files_are_rejected(store: LocalStore, root: Path) -> None:
    (root / "wh" / "folder").mkdir(parents=True)
    os.mkfifo(root / "wh" / "pipe")
    (root / "wh" / "file").write_text("x")
    with pytest.raises(InvalidLocation):
        store.get(f"file://{root}/wh/folder", limit=LIMIT)
    with pytest.raises(InvalidLocation):
        store.get(f"file://{root}/wh/pipe", limit=LIMIT)
    with pytest.raises(InvalidLocation):
        store.get(f"file://{root}/wh/file/below", limit=LIMIT)


def test_a_name_too_long_for_the_file_system(store: LocalStore, root: Path) -> None:
    with pytest.raises(InvalidLocation, match="too long"):
        store.put_new(f"file://{root}/wh/{'x' * 300}", b"")


def test_a_failed_write_leaves_no_half_file(store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    (root / "wh").mkdir()
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreUnavailable, match="No space left on device"):
        store.put_new(f"file://{root}/wh/a", b"x")
    assert list((root / "wh").iterdir()) == []


def test_a_written_file_and_its_new_folders_are_synced(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    real = os.fsync

    def note(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").resolve())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    store.put_new(f"file://{root}/wh/t/a.json", b"x")
    assert synced == [root, root / "wh", root / "wh/t/a.json", root / "wh/t"]


@pytest.mark.parametrize(
    ("spelled", "normal"),
    [
        ("file:/a/b", "file:///a/b"),
        ("file:///a/b/", "file:///a/b"),
        ("file:///a/ü b", "file:///a/ü b"),
    ],
)
def test_locations_have_one_compared_form(spelled: str, normal: str) -> None:
    assert normalize_location(spelled) == normal


@pytest.mark.parametrize(
    "spelled",
    ["", "a", "/a", "s3://b/k", "FILE:///a", "file:a", "file://host/a", "file:////a", "file:///a//b", "file:///a/./b",
     "file:///a/..", "file:///a%2Fb", "file:///a?b", "file:///a#b", "file:///a\\b", "file:///a\x00", "file:///a\nb", "file:///"],
)  # fmt: skip
def test_locations_that_two_readers_could_read_differently(spelled: str) -> None:
    with pytest.raises(InvalidLocation):
        normalize_location(spelled)


def test_inside_means_below() -> None:
    assert location_inside("file:/wh/t/", base="file:///wh") == "file:///wh/t"
    for other in ("file:///wh", "file:///wh/", "file:///wh2/t", "file:///", 7, None):
        with pytest.raises(InvalidLocation):
            location_inside(other, base="file:///wh")


def test_parents_are_between_the_base_and_the_location() -> None:
    assert list(parents("file:///wh/a/b/c", base="file:///wh")) == ["file:///wh/a", "file:///wh/a/b"]
    assert list(parents("file:///wh/a", base="file:///wh")) == []
