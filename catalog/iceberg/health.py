"""Health of a table: findings from its metadata, the totals of its snapshot, its files and its scans. No data is read.

Each check yields one `Finding`; what is good yields one, too. The cure of a finding is SQL for Spark. Thresholds are
those that table maintenance uses: the price of a scan is what Iceberg's planner estimates for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from math import ceil
from typing import Final

from catalog.iceberg.display.sql_quoting import join_backticks, quote_spark_string
from catalog.iceberg.display.stored_parts import list_objects
from catalog.iceberg.file_totals import (
    DELETION_VECTORS,
    EQUALITY_DELETES,
    MIB,
    SMALL_SHARE,
    FileSummary,
    read_target,
)
from catalog.iceberg.totals import Totals
from catalog.iceberg.types import ROW_LINEAGE_VERSION, TableMetadata

OPEN_FILE_COST: Final = 4 * MIB
"""`read.split.open-file-cost` of Iceberg: bytes that opening a file costs as much as reading."""
EQUALITY_DELETE_PRICE: Final = 10
"""Equality deletes for a tenth of the rows double the price of a scan."""
MAX_DEAD_SHARE: Final = 0.9
MANIFEST_SIZE: Final = 8 * MIB
BYTES_PER_ENTRY: Final = 500

MIN_FILES: Final = 5
"""Files that a compaction must at least remove to be worth it: `min-input-files` of `rewrite_data_files`."""
MANY_FILES: Final = 100
POOR_LAYOUT: Final = 50
SMALL_FILES_SHARE: Final = 0.2
DELETE_RATIO, BAD_DELETE_RATIO = 0.1, 0.25
MANY_DELETE_FILES, FAR_TOO_MANY_DELETE_FILES = 100, 500
MANY_SNAPSHOTS, FAR_TOO_MANY_SNAPSHOTS = 100, 500
MIN_SNAPSHOTS_TO_EXPIRE: Final = 20
OLD_SNAPSHOT: Final = timedelta(days=30)
KEPT_AGE: Final = timedelta(days=5)
KEPT_SNAPSHOTS: Final = 10
MANY_MANIFESTS, FAR_TOO_MANY_MANIFESTS = 100, 500
LARGE_METADATA, TOO_LARGE_METADATA = MIB, 4 * MIB
MIN_PARTITIONS: Final = 4
SKEW: Final = 10
MANY_PARTITIONS: Final = 100
ROWS_WORTH_STATISTICS: Final = 1_000_000


class Severity(IntEnum):
    """In the order in which findings are shown."""

    BAD = 0
    WARNING = 1
    INFO = 2
    GOOD = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check: `check` names it, `numbers` are those of its text, `cures` are statements of Spark SQL."""

    check: str
    severity: Severity
    numbers: Mapping[str, int | float | str] = field(default_factory=dict)
    cures: tuple[str, ...] = ()

    @property
    def is_problem(self) -> bool:
        return self.severity <= Severity.WARNING


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What the checks read. `files` is None while the manifests were not read, `scans` while nothing reports them.

    `catalog` is the name of the catalog in Spark, `name` the name of the table with the levels of its namespace.
    """

    metadata: TableMetadata
    document_size: int
    totals: Totals
    files: FileSummary | None
    scans: int
    at: datetime
    catalog: str
    name: Sequence[str]

    @property
    def target(self) -> int:
        return read_target(self.metadata) if self.files is None else self.files.target

    def call(self, procedure: str, **arguments: str) -> str:
        """Return the call of a procedure with the table and these arguments, which are SQL."""
        table = quote_spark_string(join_backticks(self.name))
        listed = ", ".join(f"{name} => {value}" for name, value in {"table": table, **arguments}.items())
        return f"CALL {self.catalog}.system.{procedure}({listed})"

    def set_properties(self, properties: Mapping[str, str]) -> str:
        """Return the statement that sets table properties."""
        listed = ", ".join(
            f"{quote_spark_string(key)} = {quote_spark_string(each)}" for key, each in properties.items()
        )
        return f"ALTER TABLE {join_backticks((self.catalog, *self.name))} SET TBLPROPERTIES ({listed})"


def list_findings(facts: TableFacts) -> list[Finding]:
    """Return the findings on a table, the worst first, good ones last. Checks without data yield nothing."""
    found = [each for check in _CHECKS for each in check(facts)]
    return sorted(found, key=lambda each: each.severity)


def layout_score(files: FileSummary) -> int:
    """Return which per cent of the price of a full scan is necessary, from 0 to 100."""
    all_, deletes = files.all, files.deletes
    rows = max(all_.records, 1)
    equality = deletes[EQUALITY_DELETES].records
    deleted = sum(each.records for each in deletes.values()) - equality + min(equality, rows)
    dead = min(deleted / rows, MAX_DEAD_SHARE)
    living = all_.size * (1 - dead)
    need = living + necessary_files(files, living) * OPEN_FILE_COST
    have: float = all_.size + (all_.files + all_.delete_files) * OPEN_FILE_COST
    have += EQUALITY_DELETE_PRICE * min(equality / rows, 1.0) * all_.size
    return round(100 * min(need / have, 1.0)) if have else 100


def necessary_files(files: FileSummary, living: float) -> int:
    """Return how many files must remain: one for each part of the target size, and one in each partition."""
    return max(ceil(living / files.target), files.partition_count, 1)


def _check_small_files(facts: TableFacts) -> Iterator[Finding]:
    cure = facts.call("rewrite_data_files", options=f"map('target-file-size-bytes', '{facts.target}')")
    files = facts.files
    if files is None:
        yield from _estimate_small_files(facts, cure)
        return
    count, small = files.all.files, files.all.small
    remaining = necessary_files(files, files.all.size)
    numbers = {
        "files": count, "small": small, "remaining": remaining, "target": files.target, "score": layout_score(files),
        "limit": files.target // SMALL_SHARE,
    }  # fmt: skip
    is_problem = count - remaining >= MIN_FILES and small >= MIN_FILES and small >= SMALL_FILES_SHARE * count
    if not is_problem:
        yield Finding("small_files", Severity.GOOD, numbers)
        return
    is_bad = count - remaining >= MANY_FILES and numbers["score"] < POOR_LAYOUT
    yield Finding("small_files", Severity.BAD if is_bad else Severity.WARNING, numbers, (cure,))


def _estimate_small_files(facts: TableFacts, cure: str) -> Iterator[Finding]:
    count, size = facts.totals.data_files, facts.totals.files_size
    if not count or size is None:
        return
    numbers = {"files": count, "average": size // count, "target": facts.target}
    is_problem = count >= MANY_FILES and size // count < facts.target // SMALL_SHARE
    severity = Severity.WARNING if is_problem else Severity.GOOD
    yield Finding("average_file", severity, numbers, (cure,) if is_problem else ())


def _check_deletes(facts: TableFacts) -> Iterator[Finding]:
    files, totals = facts.files, facts.totals
    if files is not None:
        data_files, delete_files, rows = files.all.files, files.all.delete_files, files.all.records
        deleted = sum(each.records for each in files.deletes.values())
        has_equality = files.deletes[EQUALITY_DELETES].files > 0
        has_vectors = files.deletes[DELETION_VECTORS].files > 0
    elif totals.data_files is not None and totals.delete_files is not None:
        data_files, delete_files, rows = totals.data_files, totals.delete_files, totals.records or 0
        deleted = (totals.position_deletes or 0) + (totals.equality_deletes or 0)
        has_equality = bool(totals.equality_deletes)
        has_vectors = facts.metadata.get("format-version", 1) >= ROW_LINEAGE_VERSION
    else:
        return
    numbers = {"files": delete_files, "data_files": data_files, "deleted": deleted, "rows": rows}
    ratio = max(delete_files / max(data_files, 1), deleted / max(rows, 1))
    if not delete_files or (ratio < DELETE_RATIO and delete_files < MANY_DELETE_FILES):
        yield Finding("delete_files", Severity.GOOD, numbers)
        return
    is_bad = delete_files >= MANY_DELETE_FILES and (
        ratio >= BAD_DELETE_RATIO or delete_files >= FAR_TOO_MANY_DELETE_FILES
    )
    cures = []
    if has_equality or has_vectors:
        options = "map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true')"
        cures.append(facts.call("rewrite_data_files", options=options))
    if not has_vectors:
        cures.append(facts.call("rewrite_position_delete_files"))
    check = "equality_deletes" if has_equality else "delete_files"
    yield Finding(check, Severity.BAD if is_bad else Severity.WARNING, numbers, tuple(cures))


def _check_snapshots(facts: TableFacts) -> Iterator[Finding]:
    snapshots = list_objects(facts.metadata, "snapshots")
    count = len(snapshots)
    if not count:
        return
    moments = [each["timestamp-ms"] for each in snapshots if isinstance(each.get("timestamp-ms"), int)]
    days = max(0, int((facts.at.timestamp() * 1000 - min(moments)) / 86_400_000)) if moments else 0
    numbers = {"snapshots": count, "days": days}
    before = (facts.at - KEPT_AGE).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    cure = facts.call("expire_snapshots", older_than=f"TIMESTAMP '{before} UTC'", retain_last=str(KEPT_SNAPSHOTS))
    if count > MANY_SNAPSHOTS:
        is_bad = count > FAR_TOO_MANY_SNAPSHOTS
        yield Finding("snapshots", Severity.BAD if is_bad else Severity.WARNING, numbers, (cure,))
    elif days > OLD_SNAPSHOT.days and count > MIN_SNAPSHOTS_TO_EXPIRE:
        yield Finding("old_snapshots", Severity.WARNING, numbers, (cure,))
    else:
        yield Finding("snapshots", Severity.GOOD, numbers)


def _check_manifests(facts: TableFacts) -> Iterator[Finding]:
    files = facts.files
    manifests = facts.totals.manifests if files is None else files.manifests
    entries = (
        (facts.totals.data_files or 0) + (facts.totals.delete_files or 0)
        if files is None
        else files.all.files + files.all.delete_files
    )
    if not manifests:
        return
    necessary = max(1, ceil(entries * BYTES_PER_ENTRY / MANIFEST_SIZE))
    numbers = {"manifests": manifests, "necessary": necessary, "entries": entries}
    if manifests < MANY_MANIFESTS or necessary / manifests >= POOR_LAYOUT / 100:
        yield Finding("manifests", Severity.GOOD, numbers)
        return
    is_bad = manifests >= FAR_TOO_MANY_MANIFESTS
    cure = facts.call("rewrite_manifests")
    yield Finding("manifests", Severity.BAD if is_bad else Severity.WARNING, numbers, (cure,))


def _check_metadata_size(facts: TableFacts) -> Iterator[Finding]:
    numbers = {"size": facts.document_size, "log": len(list_objects(facts.metadata, "metadata-log"))}
    if facts.document_size < LARGE_METADATA:
        yield Finding("metadata_size", Severity.GOOD, numbers)
        return
    properties = {
        "write.metadata.previous-versions-max": "100",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    is_bad = facts.document_size >= TOO_LARGE_METADATA
    cures = (facts.call("expire_snapshots", clean_expired_metadata="true"), facts.set_properties(properties))
    yield Finding("metadata_size", Severity.BAD if is_bad else Severity.WARNING, numbers, cures)


def _check_partitions(facts: TableFacts) -> Iterator[Finding]:
    files = facts.files
    if files is None or files.partition_count < MIN_PARTITIONS or not files.median_partition:
        return
    largest = files.partitions[0]
    average = files.all.size // files.partition_count
    numbers: dict[str, int | float | str] = {
        "partition": largest.name, "size": largest.sums.size, "median": files.median_partition,
        "partitions": files.partition_count, "average": average, "target": files.target,
    }  # fmt: skip
    if largest.sums.size >= SKEW * files.median_partition and largest.sums.size >= files.target:
        yield Finding("skewed_partitions", Severity.WARNING, numbers)
    if files.partition_count >= MANY_PARTITIONS and average < files.target // SMALL_SHARE:
        yield Finding("small_partitions", Severity.WARNING, numbers)


def _check_scans(facts: TableFacts) -> Iterator[Finding]:
    severity = Severity.GOOD if facts.scans else Severity.INFO
    yield Finding("scan_reports", severity, {"scans": facts.scans})


def _check_column_statistics(facts: TableFacts) -> Iterator[Finding]:
    if (facts.totals.records or 0) < ROWS_WORTH_STATISTICS:
        return
    current = facts.metadata.get("current-snapshot-id")
    known = {each.get("snapshot-id") for each in list_objects(facts.metadata, "statistics")}
    if current in known:
        yield Finding("column_statistics", Severity.GOOD)
    else:
        yield Finding("column_statistics", Severity.INFO, {}, (facts.call("compute_table_stats"),))


_CHECKS: Final[tuple[Callable[[TableFacts], Iterable[Finding]], ...]] = (
    _check_small_files,
    _check_deletes,
    _check_snapshots,
    _check_manifests,
    _check_metadata_size,
    _check_partitions,
    _check_column_statistics,
    _check_scans,
)
