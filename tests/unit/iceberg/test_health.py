"""Findings on tables, from metadata, totals and files."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from catalog.iceberg.file_totals import MIB, ContentFile, FileSummary, FileTotals
from catalog.iceberg.health import Finding, Severity, TableFacts, layout_score, list_findings
from catalog.iceberg.totals import Totals

AT = datetime(2026, 11, 27, tzinfo=UTC)
NAME = ("sales", "o'r`d$ers")


def files_of(
    *sizes: int, partitions: int = 1, manifests: int = 1, deletes: tuple[ContentFile, ...] = ()
) -> FileSummary:
    totals = FileTotals(512 * MIB)
    for number, size in enumerate(sizes):
        totals.add(ContentFile(None, "parquet", size, 1000), number % partitions)
    for each in deletes:
        totals.add(each, 0)
    return FileSummary.of({**totals.summary(str), "manifests": manifests, "manifest-bytes": 1})


def facts(files: FileSummary | None = None, **more: Any) -> TableFacts:
    metadata: dict[str, Any] = {
        "snapshots": [{"timestamp-ms": AT.timestamp() * 1000 // 1 - 1}],
        "current-snapshot-id": 1,
    }
    members = {
        "metadata": metadata,
        "document_size": 2000,
        "totals": Totals(10, 10, 1, 0, 0, 0, 1, 1, 1, None),
        "scans": 3,
    }
    return TableFacts(**{**members, "at": AT, "catalog": "ice", "name": NAME, "files": files, **more})


def found(facts: TableFacts) -> dict[str, Finding]:
    return {each.check: each for each in list_findings(facts)}


def problems(facts: TableFacts) -> dict[str, Severity]:
    return {name: each.severity for name, each in found(facts).items() if each.severity is not Severity.GOOD}


def test_a_healthy_table_has_only_good_findings() -> None:
    healthy = facts(files_of(*[512 * MIB] * 8))
    assert problems(healthy) == {}
    assert set(found(healthy)) == {
        "small_files", "delete_files", "snapshots", "manifests", "metadata_size", "scan_reports"
    }  # fmt: skip


def test_layout_scores() -> None:
    assert layout_score(files_of(*[50 * 1024] * 1000)) <= 1
    assert layout_score(files_of(*[512 * MIB] * 94)) >= 99
    assert layout_score(files_of(*[10 * MIB] * 200, partitions=200)) == 100, "one file a partition cannot be fewer"
    deletes = tuple(ContentFile("equality", "parquet", MIB, 100) for _ in range(10))
    assert 40 <= layout_score(files_of(*[512 * MIB] * 10, deletes=deletes)) <= 55, (
        "a tenth of the rows doubles the price"
    )
    assert layout_score(files_of()) == 100


def test_small_files() -> None:
    few = facts(files_of(*[MIB] * 5))
    assert "small_files" not in problems(few), "a compaction would not be worth it"
    some = found(facts(files_of(*[MIB] * 50)))["small_files"]
    assert (some.severity, some.numbers["small"], some.numbers["remaining"]) == (Severity.WARNING, 50, 1)
    assert "".join(some.cures) == (
        "CALL ice.system.rewrite_data_files(table => '`sales`.`o\\'r``d\\u0024ers`', "
        "options => map('target-file-size-bytes', '536870912'))"
    )
    assert problems(facts(files_of(*[MIB] * 500)))["small_files"] is Severity.BAD
    assert "small_files" not in problems(facts(files_of(*[MIB] * 300, partitions=300)))
    assert "small_partitions" in problems(facts(files_of(*[MIB] * 300, partitions=300)))


def test_estimates_without_files() -> None:
    small = facts(totals=Totals(10, 1000 * MIB, 1000, 300, 900, 0, 900, 1, 1, None))
    assert problems(small) == {
        "average_file": Severity.WARNING, "delete_files": Severity.BAD, "manifests": Severity.BAD
    }  # fmt: skip
    unknown = facts(totals=Totals(None, None, None, None, None, None, None, 0, 0, None), metadata={}, scans=0)
    assert problems(unknown) == {"scan_reports": Severity.INFO}


def test_delete_files() -> None:
    position, equality, vector = (ContentFile(kind, "parquet", 10, 5) for kind in ("position", "equality", "vector"))
    data = [512 * MIB] * 10
    assert "delete_files" not in problems(facts(files_of(*data * 20, deletes=(position,))))
    some = found(facts(files_of(*data, deletes=(position,) * 5)))["delete_files"]
    assert (some.severity, len(some.cures)) == (Severity.WARNING, 1)
    assert "rewrite_position_delete_files" in some.cures[0]
    both = found(facts(files_of(*data, deletes=(equality, position) * 60)))["equality_deletes"]
    assert both.severity is Severity.BAD
    assert ["rewrite_data_files" in both.cures[0], "rewrite_position" in both.cures[1]] == [True, True]
    (cure,) = found(facts(files_of(*data, deletes=(vector,) * 5)))["delete_files"].cures
    assert "'delete-file-threshold', '1'" in cure


def test_snapshots_and_metadata() -> None:
    day = 86_400_000
    at = int(AT.timestamp() * 1000)

    def with_snapshots(count: int, days: int) -> TableFacts:
        snapshots = [{"timestamp-ms": at - days * day, "snapshot-id": number} for number in range(count)]
        return facts(metadata={"snapshots": snapshots})

    assert problems(with_snapshots(101, 1)) == {"snapshots": Severity.WARNING}
    assert problems(with_snapshots(501, 1)) == {"snapshots": Severity.BAD}
    assert problems(with_snapshots(5, 400)) == {}
    old = found(with_snapshots(21, 400))["old_snapshots"]
    assert old.numbers["days"] == 400
    assert "older_than => TIMESTAMP '2026-11-22 00:00:00 UTC', retain_last => 10" in old.cures[0]
    large = found(facts(document_size=5 * MIB))["metadata_size"]
    assert large.severity is Severity.BAD
    assert large.cures[1].startswith("ALTER TABLE `ice`.`sales`.`o'r``d$ers` SET TBLPROPERTIES (")


def test_partitions_and_statistics() -> None:
    skewed = found(facts(files_of(20_000 * MIB, *[512 * MIB] * 9, partitions=10)))["skewed_partitions"]
    assert (skewed.severity, skewed.numbers["partition"], skewed.cures) == (Severity.WARNING, "0", ())
    many = {"totals": Totals(2_000_000, 1, 1, 0, 0, 0, 1, 1, 1, None)}
    assert problems(facts(**many)) == {"column_statistics": Severity.INFO}
    known = {"statistics": [{"snapshot-id": 1}], "current-snapshot-id": 1}
    assert found(facts(metadata=known, **many))["column_statistics"].severity is Severity.GOOD


def test_the_worst_comes_first() -> None:
    severities = [
        each.severity for each in list_findings(facts(files_of(*[MIB] * 500), document_size=2 * MIB, scans=0))
    ]
    assert severities == sorted(severities)
    assert severities[0] is Severity.BAD
