"""Hostile manifests, as clients can write them: each is a clear error within the limits of their process."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from catalog.services import file_statistics
from catalog.services.file_statistics import FilesUnreadable, Source, read_files
from storage.io.local import LocalStore
from tests.harness.manifests import data_file, write_avro, write_manifest, write_manifest_list

MIB = 1 << 20
LIMITS = file_statistics.LIMITS
NULLS = {"type": "array", "items": "null"}


class Table:
    """The files of a table in a warehouse on local files."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "wh" / "t"
        self.folder.mkdir(parents=True)
        self.store, self.base = LocalStore(root), f"file://{root}/wh"

    def write(self, name: str, data: bytes) -> str:
        (self.folder / name).write_bytes(data)
        return f"file://{self.folder}/{name}"

    def read(self, **snapshot: Any) -> dict[str, Any]:
        source = Source({"partition-specs": []}, snapshot, self.store, self.base, (f"{self.base}/t",))
        lease: Any = SimpleNamespace(progress=0.0, execution_details={})
        return read_files(source, lease, lambda: None)

    def read_manifest(self, data: bytes) -> dict[str, Any]:
        path = self.write("manifest.avro", data)
        return self.read(**{"manifest-list": self.write("list.avro", write_manifest_list([(path, len(data))]))})


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    limits = replace(file_statistics.LIMITS, seconds=1.5, memory_bytes=256 * MIB)
    monkeypatch.setattr(file_statistics, "LIMITS", limits)
    return Table(tmp_path.resolve())


def with_block(schema: Any, block: bytes, *, codec: bytes = b"null") -> bytes:
    """Return an Avro file whose only block, with one record, has this content."""
    data = write_avro(schema, [], codec="null").replace(b"\x08null", bytes([len(codec) * 2]) + codec)
    return data + b"\x02" + zigzag(len(block)) + block + data[-16:]


def zigzag(number: int) -> bytes:
    number, written = number * 2, bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


def bomb(size: int) -> bytes:
    """Return a deflated block of a byte string of zeros, without ever holding it in memory."""
    compressor = zlib.compressobj(wbits=-15)
    block = compressor.compress(zigzag(size)) + compressor.flush(zlib.Z_FULL_FLUSH)
    zeros = zlib.compressobj(wbits=-15)
    chunk = zeros.compress(bytes(MIB)) + zeros.flush(zlib.Z_FULL_FLUSH)
    return block + chunk * (size // MIB) + b"\x03\x00"


def record(name: str, kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "entry", "fields": [{"name": name, "type": kind}]}


def nested(depth: int) -> Any:
    kind: Any = "int"
    for number in range(depth):
        kind = {"type": "record", "name": f"r{number}", "fields": [{"name": "status", "type": kind}]}
    return kind


def test_local_manifests_are_read(table: Table) -> None:
    """Also those that a snapshot of version 1 names itself."""
    found = table.read_manifest(write_manifest([data_file(3)]))
    assert (found["all"]["files"], found["manifests"]) == (1, 1)
    inline = [table.write(f"{number}.avro", write_manifest([data_file(3)] * 2, version=1)) for number in range(2)]
    assert table.read(manifests=inline)["all"]["files"] == 4


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            with_block(record("status", "bytes"), bomb(512 * MIB), codec=b"deflate"),
            "too much memory|no Avro|longer than",
        ),
        (with_block(record("status", NULLS), zigzag(1 << 40) + b"\0"), "too much memory|no Avro|longer than"),
        (with_block(record("other", NULLS), zigzag(1 << 40) + b"\0"), "longer than"),
        (with_block(record("status", ["null", "entry"]), b"\x02" * 100_000), "too much memory|no Avro|missing"),
        (write_avro(nested(50), [], codec="null") + b"\0", "no Avro"),
        (write_avro(record("status", "string"), [{"status": "x"}]), "missing, negative or too large"),
    ],
    ids=["bomb", "nulls", "skipped nulls", "recursive", "nested", "wrong type"],
)
def test_hostile_manifests(table: Table, data: bytes, message: str) -> None:
    with pytest.raises(FilesUnreadable, match=f"Manifest 1 of 1 could not be read: .*({message})"):
        table.read_manifest(data)


def test_files_outside_of_the_table_are_not_read(table: Table, tmp_path: Path) -> None:
    outside = tmp_path / "wh" / "other.avro"
    outside.write_bytes(write_manifest_list([]))
    (table.folder / "link.avro").symlink_to(outside)
    inside = f"file://{table.folder}"
    for location in (f"file://{outside}", f"{inside}/../other.avro", f"{inside}x/l.avro", "http://169.254.169.254/", 7):
        with pytest.raises(FilesUnreadable, match="The manifest list is outside of the location of the table"):
            table.read(**{"manifest-list": location})
    listed = table.write("list.avro", write_manifest_list([(f"file://{outside}", 5)]))
    with pytest.raises(FilesUnreadable, match="Manifest 1 of 1 is outside of the location of the table"):
        table.read(**{"manifest-list": listed})
    with pytest.raises(FilesUnreadable, match="does not exist"):
        table.read(**{"manifest-list": f"{inside}/missing.avro"})
    with pytest.raises(Exception, match="link"):
        table.read(**{"manifest-list": f"{inside}/link.avro"})


def test_a_slow_store_is_named_as_the_reason(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LIMITS.seconds > file_statistics.MAX_SECONDS, "the child ends later than the server, which says why"
    paths = [table.write(f"{number}.avro", write_manifest([data_file(3)], version=1)) for number in range(3)]
    clock, read = [0.0], table.store.get

    def read_slowly(*given: Any, **more: Any) -> bytes:
        clock[0] += file_statistics.MAX_SECONDS * 0.6
        return read(*given, **more)

    monkeypatch.setattr(table.store, "get", read_slowly)
    monkeypatch.setattr(file_statistics, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with pytest.raises(FilesUnreadable, match="Only 1 of 3 manifests were read in 900 s"):
        table.read(manifests=paths)


def test_limits_of_bytes_and_manifests(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_statistics, "MAX_FILE_BYTES", 100)
    with pytest.raises(FilesUnreadable, match="The manifest list has more than"):
        table.read_manifest(write_manifest([data_file(3)]))
    monkeypatch.setattr(file_statistics, "MAX_FILE_BYTES", MIB)
    monkeypatch.setattr(file_statistics, "MAX_MANIFESTS", 0)
    with pytest.raises(FilesUnreadable, match="more than 0 manifests"):
        table.read_manifest(write_manifest([data_file(3)]))
    monkeypatch.setattr(file_statistics, "MAX_MANIFESTS", 5)
    monkeypatch.setattr(file_statistics, "MAX_BYTES", 10)
    with pytest.raises(FilesUnreadable, match="The manifests have more than"):
        table.read_manifest(write_manifest([data_file(3)]))
