"""The tab with the health of a table: a card for each finding with its number, consequence and cure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from catalog.iceberg.file_totals import FileSummary
from catalog.iceberg.health import Finding, Severity, TableFacts, layout_score, list_findings
from catalog.iceberg.totals import read_totals
from catalog.iceberg.types import TableMetadata
from catalog.identifiers import Identifier
from catalog.models import FileStatistics, Tabular
from catalog.selectors.tables.file_statistics import list_file_statistics
from catalog.selectors.tables.usage import list_metrics_days
from icekeeper.kernel.clock import now
from management.admin.catalog.snippets import CATALOG
from management.admin.navigation import Text
from management.templatetags.console import byte_size, grouped, short_count

DAYS: Final = 30
_BYTES: Final = frozenset({"target", "limit", "average", "size", "median"})
"""Numbers of findings that are bytes."""


class FindingText(NamedTuple):
    """What is found, and what follows from it."""

    title: Text
    consequence: Text


class CheckTexts(NamedTuple):
    problem: FindingText
    good: FindingText


TEXTS: Final[Mapping[str, CheckTexts]] = {
    "small_files": CheckTexts(
        FindingText(
            _("%(small)s of %(files)s data files are smaller than %(limit)s"),
            _(
                "A scan pays about as much for opening a file as for reading 4 MiB of it: %(score)s %% of the price of "
                "a full scan is necessary. After a compaction about %(remaining)s files of up to %(target)s remain."
            ),
        ),
        FindingText(_("File sizes"), _("%(small)s of %(files)s data files are small; a compaction would gain little.")),
    ),
    "average_file": CheckTexts(
        FindingText(
            _("%(files)s data files have %(average)s on average"),
            _(
                "Scans of small files are slow: writers aim at %(target)s. Estimated from the totals of the snapshot: "
                "read the files on the tab Files for the sizes by partition."
            ),
        ),
        FindingText(_("File sizes"), _("%(files)s data files of %(average)s on average, by the snapshot's totals.")),
    ),
    "delete_files": CheckTexts(
        FindingText(
            _("%(files)s delete files for %(data_files)s data files"),
            _("Each scan reads delete files together with the data: %(deleted)s rows of %(rows)s are deleted."),
        ),
        FindingText(_("Delete files"), _("%(files)s delete files for %(data_files)s data files.")),
    ),
    "equality_deletes": CheckTexts(
        FindingText(
            _("%(files)s delete files for %(data_files)s data files, with equality deletes"),
            _(
                "Each scan compares every row with the equality deletes that were written after it: %(deleted)s "
                "deletes for %(rows)s rows. Only a compaction of the data files removes them."
            ),
        ),
        FindingText(_("Delete files"), ""),
    ),
    "snapshots": CheckTexts(
        FindingText(
            _("%(snapshots)s snapshots are kept"),
            _(
                "Every commit writes all of them into the metadata, and files that only old snapshots need cannot be "
                "deleted. The oldest is %(days)s days old."
            ),
        ),
        FindingText(_("Snapshots"), _("%(snapshots)s snapshots; the oldest is %(days)s days old.")),
    ),
    "old_snapshots": CheckTexts(
        FindingText(
            _("The oldest snapshot is %(days)s days old"),
            _("Files that only old snapshots need cannot be deleted. %(snapshots)s snapshots are kept."),
        ),
        FindingText(_("Snapshots"), ""),
    ),
    "manifests": CheckTexts(
        FindingText(
            _("%(manifests)s manifests where %(necessary)s would do"),
            _("A scan opens every manifest that may list matching files: planning is slow."),
        ),
        FindingText(_("Manifests"), _("%(manifests)s manifests list %(entries)s files.")),
    ),
    "metadata_size": CheckTexts(
        FindingText(
            _("The metadata file has %(size)s"),
            _(
                "Every load sends it and every commit writes it again. Snapshots, schemas and %(log)s earlier metadata "
                "files take most of it."
            ),
        ),
        FindingText(_("Metadata size"), _("The metadata file has %(size)s.")),
    ),
    "skewed_partitions": CheckTexts(
        FindingText(
            _("One partition has %(size)s, half of them less than %(median)s"),
            _("Tasks that read %(partition)s take far longer than all others. Choose a finer partitioning for it."),
        ),
        FindingText(_("Partitions"), ""),
    ),
    "small_partitions": CheckTexts(
        FindingText(
            _("%(partitions)s partitions have %(average)s on average"),
            _(
                "A file never spans partitions, so that a compaction cannot reach %(target)s. Choose a coarser "
                "transform, such as months instead of days."
            ),
        ),
        FindingText(_("Partitions"), ""),
    ),
    "column_statistics": CheckTexts(
        FindingText(
            _("The current snapshot has no column statistics"),
            _("Engines guess the number of distinct values when they choose the order of joins."),
        ),
        FindingText(_("Column statistics"), _("The current snapshot has them.")),
    ),
    "scan_reports": CheckTexts(
        FindingText(
            _("No engine has reported scans in 30 days"),
            _("Whether the table is read, and how, is unknown. Spark, Trino and Flink report their scans by default."),
        ),
        FindingText(_("Scan reports"), _("%(scans)s scans were reported in 30 days.")),
    ),
}

_TONES: Final = {Severity.BAD: "bad", Severity.WARNING: "warning", Severity.INFO: "accent", Severity.GOOD: "good"}
_LABELS: Final = {
    Severity.BAD: _("Problem"), Severity.WARNING: _("Warning"), Severity.INFO: _("Hint"), Severity.GOOD: _("Good"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FindingCard:
    """A finding as the page shows it."""

    check: str
    label: Text
    tone: str
    title: str
    consequence: str
    cure: str


def health_context(
    metadata: TableMetadata, tabular: Tabular, identifier: Identifier, *, document_size: int, reads_data: bool
) -> dict[str, Any]:
    """Return the findings on a table. Files count only with the permission to read data. Two statements at most."""
    rows = list_file_statistics(tabular_id=tabular.pk) if reads_data else []
    read = _latest(rows, metadata.get("current-snapshot-id"))
    files = None if read is None else FileSummary.of(read.document or {})
    facts = TableFacts(
        metadata=metadata,
        document_size=document_size,
        totals=read_totals(metadata),
        files=files,
        scans=sum(each.scans for each in list_metrics_days(tabular_id=tabular.pk, days=DAYS)),
        at=now(),
        catalog=CATALOG,
        name=(*identifier.levels, identifier.name),
    )
    findings = list_findings(facts)
    problems = sum(1 for each in findings if each.is_problem)
    return {
        "read": read,
        "is_outdated": read is not None and read.snapshot_id != metadata.get("current-snapshot-id"),
        "reads_data": reads_data,
        "score": None if files is None else layout_score(files),
        "heading": ngettext("%(count)s finding", "%(count)s findings", problems) % {"count": problems},
        "problems": problems,
        "cards": [_card(each) for each in findings if each.severity is not Severity.GOOD],
        "good": [_card(each) for each in findings if each.severity is Severity.GOOD],
    }


def _latest(rows: Any, current: Any) -> FileStatistics | None:
    readable = [each for each in rows if each.document is not None]
    own = (each for each in readable if each.snapshot_id == current)
    return next(own, readable[0] if readable else None)


def _card(finding: Finding) -> FindingCard:
    texts = TEXTS[finding.check]
    text = texts.good if finding.severity is Severity.GOOD else texts.problem
    numbers = {name: _write(name, value) for name, value in finding.numbers.items()}
    return FindingCard(
        check=finding.check,
        label=_LABELS[finding.severity],
        tone=_TONES[finding.severity],
        title=str(text.title) % numbers,
        consequence=str(text.consequence) % numbers,
        cure=";\n".join(finding.cures) + (";" if finding.cures else ""),
    )


def _write(name: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    if name in _BYTES:
        return byte_size(value)
    return short_count(value) if name in {"rows", "deleted", "scans", "entries"} else grouped(value)
