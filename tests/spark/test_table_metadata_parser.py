"""The metadata engine compared with Iceberg's Java: Java reads what we write, both reject the same documents, and the
same updates lead to the same table.
"""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import Any

from hypothesis import given
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from catalog.iceberg.create import create_table_metadata
from catalog.iceberg.types import TableMetadata
from catalog.iceberg.validation import read_table_metadata
from icekeeper.kernel.errors.types import BadRequest
from tests.spark.iceberg_java_fixtures import Java, java_error
from tests.unit.iceberg.damaged_document_fixtures import damaged
from tests.unit.iceberg.document_fixtures import partition, sorting, table
from tests.unit.iceberg.example_fixtures import examples
from tests.unit.iceberg.strategy_fixtures import Commit, create_requests, histories, table_metadata

COMPARED = [
    "format-version", "table-uuid", "location", "last-sequence-number", "last-column-id", "current-schema-id",
    "partition-spec", "default-spec-id", "partition-specs", "last-partition-id", "default-sort-order-id",
    "sort-orders", "properties", "current-snapshot-id", "next-row-id", "encryption-keys", "refs", "snapshots",
    "statistics", "partition-statistics",
]  # fmt: skip
TIMES_AND_LOGS = ["last-updated-ms", "snapshot-log", "metadata-log"]

STRICTER = [
    "Unsupported format version",  # version 4, and 0 or less
    "last-sequence-number: must not be negative",
    "next-row-id: must not be negative",
    "is lower than the field id",
    "is lower than the partition field id",
    "there is no partition spec",
    "there is no sort order",
    "there is no snapshot",
    "-log: expected an array",
    "table-uuid: expected a UUID",
    "is not supported until v3",
    "-1 means no snapshot",
    "partition field id .* is used twice",
    "encryption-keys: id .* is used twice",
    "key-id: must not be empty",
    "key-metadata: expected a string",
    "main must be a branch",
    r"summary\.operation: must be one of",
    r"sequence-number: -?\d+ is out of order",
    "must be written in its canonical form",
    r"snapshots\[\d+\]\.manifest-list: required field is missing",
]
"""Documents that only we reject: each error protects a later commit or another reader."""

JAVA_FAILS = ["arraySize cannot be negative", "Expected sorted snapshot log entries"]
"""Java stumbles where it need not: over unknown ids in remove-snapshots, and over its own time of a log entry."""


class JavaTables(Java):
    def read(self, document: TableMetadata) -> Any:
        return self.iceberg.TableMetadataParser.fromJson(json.dumps(document))

    def written(self, metadata: Any) -> dict[str, Any]:
        return dict(json.loads(self.iceberg.TableMetadataParser.toJson(metadata)))

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call `TableMetadata.newTableMetadata`, which reads the version from the properties."""
        schema = self.iceberg.SchemaParser.fromJson(json.dumps(request["schema"]))
        spec = {"spec-id": 0, **(request["partition_spec"] or {"fields": []})}
        order = request["write_order"] or {"order-id": 0, "fields": []}
        return self.written(
            self.iceberg.TableMetadata.newTableMetadata(
                schema,
                self.iceberg.PartitionSpecParser.fromJson(schema, json.dumps(spec)),
                self.iceberg.SortOrderParser.fromJson(schema, json.dumps(order)),
                request["location"],
                {**request["properties"], "format-version": str(request["format_version"])},
            )
        )

    def commit(self, base: TableMetadata, updates: list[Any]) -> dict[str, Any] | None:
        """Return Java's result of a legal commit; None where Java fails for a known reason."""
        builder = self.iceberg.TableMetadata.buildFrom(self.read(base))
        try:
            return self.written(self.built(builder, updates))
        except (Py4JError, PySparkException) as error:
            if any(known in str(error) for known in JAVA_FAILS):
                return None
            raise


def judgement(document: TableMetadata) -> tuple[TableMetadata, str | None]:
    """Return the document in its modern form, or the original and the reason of its rejection."""
    try:
        return read_table_metadata(document), None
    except BadRequest as error:
        return document, error.message


def comparable(metadata: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Return the named parts without empty ones, which Java sometimes omits; files and schemas as sets."""
    parts = {name: metadata[name] for name in names if metadata.get(name) not in (None, [], {})}
    for name in ("statistics", "partition-statistics"):
        if name in parts:
            parts[name] = sorted(parts[name], key=json.dumps)
    parts["schemas"] = {schema["schema-id"]: column_names(schema) for schema in metadata["schemas"]}
    return parts


def column_names(schema: dict[str, Any]) -> list[tuple[int, str, bool]]:
    return [(field["id"], field["name"], field["required"]) for field in schema["fields"]]


@examples(100, long=3_000)
@given(document=table_metadata())
def test_java_reads_what_the_engine_writes(spark: SparkSession, document: TableMetadata) -> None:
    java = JavaTables(spark)
    names = COMPARED + TIMES_AND_LOGS
    assert comparable(java.written(java.read(document)), names) == comparable(document, names)


@examples(400)
@given(damage=damaged(table_metadata()))
def test_nothing_is_accepted_that_java_refuses(spark: SparkSession, damage: tuple[str, TableMetadata]) -> None:
    what, document = damage
    java = JavaTables(spark)
    theirs = java_error(lambda: java.read(document))
    modern, ours = judgement(document)
    if ours is None:
        assert theirs is None, f"{what}: Java refuses it: {theirs}"
        assert java_error(lambda: java.read(modern)) is None
    elif theirs is None:
        assert any(re.search(known, ours) for known in STRICTER), f"{what}: only we refuse it: {ours}"


def test_files_that_only_java_reads(spark: SparkSession) -> None:
    java = JavaTables(spark)
    fields = [partition(1, "BUCKET[16]", "p", **{"field-id": 1000})]
    spec = {"partition-specs": [{"spec-id": 0, "fields": fields}], "last-partition-id": 1000}
    order = {"order-id": 1, "fields": [sorting(1, **{"direction": "ASC", "null-order": "NULLS-FIRST"})]}
    embedded = table(snapshots=1)
    embedded["snapshots"][0] |= {"manifests": [embedded["snapshots"][0].pop("manifest-list")]}
    for document in (
        table() | spec,
        table() | {"sort-orders": [order], "default-sort-order-id": 1},
        embedded,
    ):
        java.read(document)
        _, ours = judgement(document)
        assert ours is not None
        assert any(re.search(known, ours) for known in STRICTER), ours


@examples(75, long=1_500)
@given(request=create_requests())
def test_the_same_request_creates_the_same_table(spark: SparkSession, request: dict[str, Any]) -> None:
    theirs = JavaTables(spark).create(request)
    ours = create_table_metadata(**request)
    names = [name for name in COMPARED if name not in {"table-uuid", "properties"}]
    assert comparable(theirs, names) == comparable(ours, names)
    assert ours["properties"].items() <= theirs["properties"].items()
    assert ours["schemas"][0].get("identifier-field-ids", []) == theirs["schemas"][0].get("identifier-field-ids", [])
    assert nested_ids(theirs["schemas"][0]) == nested_ids(ours["schemas"][0])


def nested_ids(document: Any) -> list[Any]:
    """Return all ids and names of a schema document, in order."""
    if isinstance(document, list):
        return [part for item in document for part in nested_ids(item)]
    if not isinstance(document, dict):
        return []
    own = [document[name] for name in ("id", "name", "element-id", "key-id", "value-id") if name in document]
    inner = [nested_ids(document[name]) for name in ("type", "fields", "element", "key", "value") if name in document]
    return own + [part for parts in inner for part in parts]


@examples(150)
@given(history=histories())
def test_the_same_updates_lead_to_the_same_table(
    spark: SparkSession, history: tuple[TableMetadata, list[Commit]]
) -> None:
    java = JavaTables(spark)
    for commit in history[1]:
        theirs = java.commit(commit.base, commit.updates)
        if theirs is None:
            continue
        ours = commit.change.metadata
        assert comparable(theirs, COMPARED) == comparable(ours, COMPARED)
        if not removes_what_it_added(commit):
            assert snapshot_ids(theirs) == snapshot_ids(ours)


def snapshot_ids(metadata: dict[str, Any]) -> list[int]:
    """Return the snapshot log; Java adds main once more when only its retention changes."""
    log = metadata.get("snapshot-log", [])
    return [snapshot_id for snapshot_id, _ in groupby(entry["snapshot-id"] for entry in log)]


def removes_what_it_added(commit: Commit) -> bool:
    """Whether the commit removes a snapshot that it adds: Java then truncates the log, although the snapshot was
    never current.
    """
    added = {update["snapshot"]["snapshot-id"] for update in commit.updates if update["action"] == "add-snapshot"}
    removed = {
        snapshot_id
        for update in commit.updates
        if update["action"] == "remove-snapshots"
        for snapshot_id in update["snapshot-ids"]
    }
    return bool(added & removed)
