"""Registration of hostile metadata files: each is rejected quickly, and nothing changes."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.models import Tabular
from storage.io.local import LocalStore
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.models import Securable
from tenancy.selectors.projects import get_project
from tests.harness.wsgi_client import ApiClient, Response

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(60)]

MEGABYTE = 1024 * 1024
Register = Callable[..., Response]


@pytest.fixture
def metadata(create_table: Any) -> bytes:
    """Valid metadata of a table that was dropped."""
    location: str = create_table("once")["metadata-location"]
    path = Path(location.removeprefix("file://"))
    Tabular.objects.all().delete()
    Securable.objects.filter(type="table").delete()
    content = path.read_bytes()
    path.unlink()
    return content


@pytest.fixture
def laid(storage_root: Path) -> Path:
    """The path of the file to register, in an existing folder."""
    folder = storage_root / "wh" / "laid" / "metadata"
    folder.mkdir(parents=True)
    return folder / "00001-laid.metadata.json"


@pytest.fixture
def register(catalog: ApiClient, namespace: str, laid: Path) -> Register:
    """Register the table `t` from a file, by default `laid`."""
    return lambda path=laid: catalog.post(
        "/namespaces/ns/register", {"name": "t", "metadata-location": f"file://{path}"}
    )


@pytest.fixture
def nothing_changed(catalog: ApiClient, namespace: str) -> Callable[[], bool]:
    def check() -> bool:
        assert catalog.head("/namespaces/ns/tables/t").status == 404
        return not Tabular.objects.exists() and not Securable.objects.filter(type="table").exists()

    return check


def _write_brackets(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for _ in range(size // MEGABYTE):
            file.write(b"[" * MEGABYTE)


def test_the_good_file_is_registered(metadata: bytes, laid: Path, register: Register) -> None:
    """The valid file is accepted, so the other tests fail for their own reasons."""
    laid.write_bytes(metadata)
    assert register().status == 200


def test_two_hundred_megabytes_of_brackets(laid: Path, register: Register, nothing_changed: Any) -> None:
    _write_brackets(laid, 200 * MEGABYTE)
    tracemalloc.start()
    try:
        assert register().refused(400, "BadRequestException", "larger than")
        assert tracemalloc.get_traced_memory()[1] < 50 * MEGABYTE, "it was read into memory"
    finally:
        tracemalloc.stop()
    assert nothing_changed()
    assert laid.stat().st_size == 200 * MEGABYTE
    laid.unlink()


def test_brackets_that_are_not_too_many_bytes(laid: Path, register: Register, nothing_changed: Any) -> None:
    for size in (1, 32):
        _write_brackets(laid, size * MEGABYTE)
        assert register().refused(400, "BadRequestException")
        assert nothing_changed()


def test_a_pipe(laid: Path, register: Register, nothing_changed: Any) -> None:
    """It has no writer: opening it the usual way blocks forever."""
    os.mkfifo(laid)
    assert register().refused(400, "InvalidLocation", "not a file")
    assert nothing_changed()


def test_a_folder(laid: Path, register: Register, nothing_changed: Any) -> None:
    laid.mkdir()
    assert register().refused(400, "InvalidLocation")
    assert nothing_changed()


def test_a_link_to_a_good_file_outside(
    metadata: bytes, laid: Path, tmp_path: Path, register: Register, nothing_changed: Any
) -> None:
    outside = tmp_path / "outside.metadata.json"
    outside.write_bytes(metadata)
    laid.symlink_to(outside)
    assert register().refused(400, "InvalidLocation", "link")
    assert nothing_changed()


def test_a_linked_folder_with_a_good_file(
    metadata: bytes, laid: Path, tmp_path: Path, register: Register, nothing_changed: Any
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / laid.name).write_bytes(metadata)
    laid.parent.rmdir()
    laid.parent.symlink_to(tmp_path / "outside")
    assert register().refused(400, "InvalidLocation", "link")
    assert nothing_changed()


def test_a_link_to_a_good_file_inside(metadata: bytes, laid: Path, register: Register, nothing_changed: Any) -> None:
    (laid.parent / "good.metadata.json").write_bytes(metadata)
    laid.symlink_to("good.metadata.json")
    assert register().refused(400, "InvalidLocation", "link")
    assert nothing_changed()


def test_a_missing_file(laid: Path, register: Register, nothing_changed: Any) -> None:
    assert register().refused(404, "NotFoundException", "Failed to open")
    assert nothing_changed()


def test_a_file_that_vanishes(
    metadata: bytes, laid: Path, register: Register, nothing_changed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is deleted between the look-up of its name and opening it."""
    laid.write_bytes(metadata)
    find_folder = LocalStore._folder

    def find_and_remove(*arguments: Any, **more: Any) -> Any:
        laid.unlink(missing_ok=True)
        return find_folder(*arguments, **more)

    monkeypatch.setattr(LocalStore, "_folder", find_and_remove)
    assert register().refused(404, "NotFoundException", "Failed to open")
    assert nothing_changed()


def test_a_file_without_rights(metadata: bytes, laid: Path, register: Register, nothing_changed: Any) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    laid.write_bytes(metadata)
    laid.chmod(0)
    assert register().refused(503, "StorageUnavailableException")
    assert nothing_changed()


def test_a_file_of_another_warehouse(
    metadata: bytes, warehouse: Warehouse, storage_root: Path, register: Register, nothing_changed: Any
) -> None:
    profile = {"type": "local", "path": str(storage_root / "wh2")}  # its name begins with that of our warehouse
    create_warehouse(actor=INTERNAL, project=get_project(None), name="wh2", storage_profile=profile)
    theirs = storage_root / "wh2" / "t" / "metadata" / "00000-t.metadata.json"
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(metadata)
    assert register(theirs).refused(400, "InvalidLocation", "is not in the warehouse")
    assert nothing_changed()


def test_a_valid_file_of_a_table_in_another_warehouse(
    metadata: bytes, laid: Path, storage_root: Path, register: Register, nothing_changed: Any
) -> None:
    laid.write_bytes(metadata.replace(f"{storage_root}/wh/".encode(), f"{storage_root}/wh2/".encode()))
    assert register().refused(400, "InvalidLocation", "is not in the warehouse")
    assert nothing_changed()
