"""Totals of the files of a snapshot, from manifests of versions 1 to 3."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
import zstandard

from catalog.iceberg.file_totals import MIB, FileSummary, FileTotals, read_target
from catalog.iceberg.manifests import (
    ManifestCounter,
    ManifestUnreadable,
    SpecField,
    read_manifest_list,
    write_value,
)
from tests.harness.manifests import data_file, write_avro, write_manifest, write_manifest_list

TARGET = 64 * MIB


def counter(**more: Any) -> ManifestCounter:
    specs = {0: [SpecField("city", "identity")]}
    return ManifestCounter(FileTotals(TARGET), specs, **{"max_files": 1000, **more})


def summary_of(*manifests: bytes) -> FileSummary:
    counting = counter()
    for each in manifests:
        counting.count(each)
    return FileSummary.of(
        {**json.loads(json.dumps(counting.summary())), "manifests": len(manifests), "manifest-bytes": 1}
    )


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_data_files(version: int, codec: str) -> None:
    files = [data_file(MIB, city="Rome"), data_file(100 * MIB, city="Rome"), data_file(3, city=None, file_format="ORC")]
    found = summary_of(
        write_manifest(files, version=version, codec=codec), write_manifest(files[:1], version=version, status=2)
    )
    assert (found.all.files, found.all.size, found.all.records, found.all.small) == (3, 101 * MIB + 3, 30, 2)
    assert found.sizes == (1, 1, 0, 0, 1, 0, 0, 0, 0)
    assert found.median == MIB
    assert found.formats == {"parquet": 2, "orc": 1}
    assert [(each.name, each.sums.files, each.sums.small) for each in found.partitions] == [
        ("city=Rome", 2, 1),
        ("city=null", 1, 1),
    ]


def test_delete_files_and_vectors() -> None:
    deletes = [
        data_file(10, content=1),
        data_file(20, content=2, records=5),
        data_file(9000, content=1, file_format="PUFFIN", content_size_in_bytes=40, records=3),
        data_file(9000, content=1, file_format="PUFFIN", content_size_in_bytes=60, records=4),
    ]
    found = summary_of(write_manifest(deletes, version=3), write_manifest([data_file(MIB)], version=3))
    assert {kind: (each.files, each.size, each.records) for kind, each in found.deletes.items()} == {
        "position": (1, 10, 10),
        "equality": (1, 20, 5),
        "vector": (2, 100, 7),
    }
    assert (found.all.files, found.all.delete_files, found.partitions[0].sums.delete_files) == (1, 4, 4)


def test_the_largest_partitions_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog.iceberg.file_totals.MAX_PARTITIONS", 2)
    monkeypatch.setattr("catalog.iceberg.file_totals.MAX_COUNTED_PARTITIONS", 4)
    found = summary_of(write_manifest([data_file(size, city=str(size)) for size in (5, 4, 3, 2, 1)]))
    assert [each.name for each in found.partitions] == ["city=5", "city=4"]
    assert (found.others.files, found.others.size, found.partition_count) == (3, 6, 4)


def test_fields_that_refer_to_skipped_types() -> None:
    """A type that a skipped field defines can be used again, so then all fields are read."""
    pair = {"type": "record", "name": "pair", "fields": [{"name": "a", "type": "int"}]}
    schema = {
        "type": "record", "name": "entry", "fields": [
            {"name": "status", "type": "int"},
            {"name": "skipped", "type": pair},
            {"name": "data_file", "type": {"type": "record", "name": "file", "fields": [
                {"name": "partition", "type": "pair"}, {"name": "record_count", "type": "long"},
                {"name": "file_size_in_bytes", "type": "long"}, {"name": "file_format", "type": "string"},
            ]}},
        ],
    }  # fmt: skip
    file = {"partition": {"a": 7}, "record_count": 1, "file_size_in_bytes": 2, "file_format": "avro"}
    found = summary_of(write_avro(schema, [{"status": 0, "skipped": {"a": 1}, "data_file": file}]))
    assert [(each.name, each.sums.size) for each in found.partitions] == [("city=7", 2)]


@pytest.mark.parametrize(
    ("value", "transform", "text"),
    [
        (None, "identity", "null"),
        (56, "year", "2026"),
        (671, "month", "2025-12"),
        (-1, "month", "1969-12"),
        (20_000, "day", "2024-10-04"),
        (date(2024, 10, 4), "day", "2024-10-04"),
        (480_000, "hour", "2024-10-04-00"),
        (2**62, "hour", str(2**62)),
        (3, "bucket[16]", "3"),
        (b"\x00\xff", "identity", "00ff"),
        (True, "identity", "True"),
        ("x" * 500, "identity", "x" * 100),
    ],
)
def test_partition_values(value: Any, transform: str, text: str) -> None:
    assert write_value(value, transform) == text


def test_manifest_lists() -> None:
    found = read_manifest_list(write_manifest_list([("s3://a/b", 7)], spec_id=3), limit=5)
    assert [(each.path, each.length, each.spec_id) for each in found] == [("s3://a/b", 7, 3)]
    with pytest.raises(ManifestUnreadable, match="more than 1 manifests"):
        read_manifest_list(write_manifest_list([("a", 1), ("b", 1)]), limit=1)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (data_file(-1), "a number is missing, negative or too large"),
        (data_file(1, records=-5), "a number is missing, negative or too large"),
        (data_file(1, content=7), "the unknown content 7"),
    ],
)
def test_wrong_values(file: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestUnreadable, match=message):
        counter().count(write_manifest([file]))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"Obj\x01",
        b"PAR1" * 100,
        write_manifest([data_file(1)])[:-20],
        write_avro({"type": "array", "items": "int"}, [[1]]),
        write_avro({"type": "record", "name": "x", "fields": [{"name": "a", "type": "int"}]}, [{"a": 1}]),
    ],
)
def test_files_that_are_no_manifests(data: bytes) -> None:
    with pytest.raises(ManifestUnreadable):
        counter().count(data, 0)


def test_too_many_files() -> None:
    with pytest.raises(ManifestUnreadable, match="more than 2 files"):
        counter(max_files=2).count(write_manifest([data_file(1)] * 3))


@pytest.mark.parametrize(
    ("text", "target"),
    [("1048576", MIB), ("5", MIB), ("9" * 30, 512 * MIB), ("-5", 512 * MIB), ("x", 512 * MIB), (None, 512 * MIB)],
)
def test_target_sizes(text: str | None, target: int) -> None:
    properties = {} if text is None else {"write.target-file-size-bytes": text}
    assert read_target({"properties": properties}) == target


def test_codecs() -> None:
    """Blocks of Zstandard, as other writers write them; Snappy is not read."""
    plain = write_manifest([data_file(MIB, file_path="f" * 200)], codec="null")
    sync = plain[-16:]
    head, _, block = plain.removesuffix(sync).partition(sync)
    compressed = zstandard.compress(block[3:])  # after the number of entries and the length in two bytes
    length = len(compressed) * 2
    data = head.replace(b"\x08null", b"\x12zstandard") + sync
    data += (
        block[:1] + (bytes([length]) if length < 128 else bytes([length & 127 | 128, length >> 7])) + compressed + sync
    )
    found = summary_of(data)
    assert (found.all.files, found.all.size) == (1, MIB)
    with pytest.raises(ManifestUnreadable, match="compressed with 'snappy'"):
        counter().count(data.replace(b"\x12zstandard", b"\x0csnappy"), 0)
