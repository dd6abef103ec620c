"""Totals of the files of a snapshot: sizes, formats, delete files, and sums by partition, bounded in memory.

`FileTotals` counts, `FileSummary` is what remains of it: a JSON document and the typed view of it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, field
from statistics import median_low
from typing import Any, Final

from catalog.iceberg.types import TableMetadata

MIB: Final = 1 << 20
SIZE_LIMITS: Final = tuple(MIB << power for power in (0, 2, 4, 6, 7, 8, 9, 10))
"""Upper ends of the groups of sizes, excluded; the last group has none."""
SMALL_SHARE: Final = 8
"""A file is small below this part of the target size, as engines then spend more on opening it than on reading it."""
DEFAULT_TARGET: Final = 512 * MIB
MIN_TARGET: Final = MIB
MAX_TARGET: Final = 1 << 40
TARGET_PROPERTY: Final = "write.target-file-size-bytes"

MAX_PARTITIONS: Final = 1_000
"""Partitions in a summary: the largest."""
MAX_COUNTED_PARTITIONS: Final = 200_000
"""Partitions that are counted one by one; the files of further ones are only in the totals and the remainder."""
MAX_MEASURED_FILES: Final = 2_000_000
"""Files whose size the median is of."""

POSITION_DELETES, EQUALITY_DELETES, DELETION_VECTORS = "position", "equality", "vector"


def read_target(metadata: TableMetadata) -> int:
    """Return the size that writers of the table aim at, in bytes; the default of Iceberg for an invalid property."""
    text = (metadata.get("properties") or {}).get(TARGET_PROPERTY)
    if not isinstance(text, str) or not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_TARGET))):
        return DEFAULT_TARGET
    return min(max(int(text), MIN_TARGET), MAX_TARGET)


@dataclass(slots=True)
class Sums:
    """Sums of some files. `files`, `size` and `records` are of data files, `small` is how many of these are small."""

    files: int = 0
    size: int = 0
    records: int = 0
    small: int = 0
    delete_files: int = 0

    def add(self, other: Sums) -> None:
        self.files += other.files
        self.size += other.size
        self.records += other.records
        self.small += other.small
        self.delete_files += other.delete_files


@dataclass(slots=True)
class DeleteSums:
    """Sums of the delete files of one kind; of deletion vectors each counts, though many share one file."""

    files: int = 0
    size: int = 0
    records: int = 0


@dataclass(frozen=True, slots=True)
class ContentFile:
    """A live data or delete file as a manifest lists it; `deletes` is None for a data file, else the kind of delete."""

    deletes: str | None
    format: str
    size: int
    records: int


@dataclass(slots=True)
class FileTotals:
    """Counts files; `target` is the size in bytes that writers aim at."""

    target: int
    all: Sums = field(default_factory=Sums)
    sizes: list[int] = field(default_factory=lambda: [0] * (len(SIZE_LIMITS) + 1))
    formats: Counter[str] = field(default_factory=Counter)
    deletes: dict[str, DeleteSums] = field(
        default_factory=lambda: {kind: DeleteSums() for kind in (POSITION_DELETES, EQUALITY_DELETES, DELETION_VECTORS)}
    )
    partitions: dict[Hashable, Sums] = field(default_factory=dict)
    uncounted: Sums = field(default_factory=Sums)
    _measured: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, file: ContentFile, partition: Hashable) -> None:
        if file.deletes is None:
            one = Sums(1, file.size, file.records, int(file.size < self.target // SMALL_SHARE))
            self.sizes[_group_of(file.size)] += 1
            self.formats[file.format] += 1
            if len(self._measured) < MAX_MEASURED_FILES:
                self._measured.append(file.size)
        else:
            one = Sums(delete_files=1)
            kind = self.deletes[file.deletes]
            kind.files, kind.size, kind.records = kind.files + 1, kind.size + file.size, kind.records + file.records
        self.all.add(one)
        self._sums_of(partition).add(one)

    def summary(self, name_partition: Any) -> dict[str, Any]:
        """Return the document of a `FileSummary`; `name_partition` returns the text of a partition."""
        ordered = sorted(self.partitions.items(), key=lambda each: (-each[1].size, -each[1].files))
        others = Sums()
        others.add(self.uncounted)
        for _, sums in ordered[MAX_PARTITIONS:]:
            others.add(sums)
        sizes_of_partitions = [each.size for each in self.partitions.values() if each.files]
        return {
            "target": self.target,
            "all": asdict(self.all),
            "median": median_low(self._measured) if self._measured else None,
            "sizes": self.sizes,
            "formats": dict(self.formats.most_common(20)),
            "deletes": {kind: asdict(sums) for kind, sums in self.deletes.items()},
            "partition-count": len(self.partitions),
            "median-partition": median_low(sizes_of_partitions) if sizes_of_partitions else None,
            "partitions": [{"name": name_partition(key), **asdict(sums)} for key, sums in ordered[:MAX_PARTITIONS]],
            "others": asdict(others),
        }

    def _sums_of(self, partition: Hashable) -> Sums:
        found = self.partitions.get(partition)
        if found is None:
            if len(self.partitions) >= MAX_COUNTED_PARTITIONS:
                return self.uncounted
            found = self.partitions[partition] = Sums()
        return found


def _group_of(size: int) -> int:
    return next((number for number, limit in enumerate(SIZE_LIMITS) if size < limit), len(SIZE_LIMITS))


@dataclass(frozen=True, slots=True)
class PartitionSums:
    name: str
    sums: Sums


@dataclass(frozen=True, slots=True)
class FileSummary:
    """What is known of the files of a snapshot.

    `sizes` are the numbers of data files in the groups of `SIZE_LIMITS`. `partitions` are the largest ones, `others`
    the sums of all further ones. `manifests` and `manifest_bytes` are those of the snapshot.
    """

    target: int
    all: Sums
    median: int | None
    sizes: tuple[int, ...]
    formats: Mapping[str, int]
    deletes: Mapping[str, DeleteSums]
    partition_count: int
    median_partition: int | None
    partitions: tuple[PartitionSums, ...]
    others: Sums
    manifests: int
    manifest_bytes: int

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> FileSummary:
        """Return the view of a document that `FileTotals.summary` wrote, with its manifests."""
        return cls(
            target=document["target"],
            all=Sums(**document["all"]),
            median=document["median"],
            sizes=tuple(document["sizes"]),
            formats=document["formats"],
            deletes={kind: DeleteSums(**sums) for kind, sums in document["deletes"].items()},
            partition_count=document["partition-count"],
            median_partition=document["median-partition"],
            partitions=tuple(
                PartitionSums(each["name"], Sums(**{key: each[key] for key in each if key != "name"}))
                for each in document["partitions"]
            ),
            others=Sums(**document["others"]),
            manifests=document["manifests"],
            manifest_bytes=document["manifest-bytes"],
        )
