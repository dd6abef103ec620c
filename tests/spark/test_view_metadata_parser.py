"""The view engine compared with Iceberg's Java: Java reads what we write, both reject the same documents, and the
same updates lead to the same view.
"""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from catalog.iceberg.create import create_view_metadata
from catalog.iceberg.requirements import check_view_requirements
from catalog.iceberg.types import ViewMetadata
from catalog.iceberg.validation import read_view_metadata
from catalog.iceberg.views import apply_view_updates
from icekeeper.kernel.errors.types import BadRequest, CommitFailed
from tests.spark.iceberg_java_fixtures import Java, java_error
from tests.unit.iceberg.damaged_document_fixtures import damaged
from tests.unit.iceberg.example_fixtures import examples
from tests.unit.iceberg.strategy_fixtures import START_MS
from tests.unit.iceberg.views.document_fixtures import sql, version, view
from tests.unit.iceberg.views.strategy_fixtures import (
    ViewCommit,
    versions,
    view_commits,
    view_histories,
    view_metadata,
    view_requests,
)

STRICTER = [
    "Unsupported format version",  # 0 or less
    "view-uuid: expected a UUID",
    "location must not be empty",
    "version-id: -1 means the last one added",
    "schema-id: there is no schema",
    r"default-namespace\[.*\]: expected a string",  # Java converts null to "null" and 7 to "7"
]
"""Files that only we reject: each error protects a later commit or another reader."""

STRICTER_UPDATES = [
    "uuid: expected a UUID",
    "location must not be empty",
    "must have at least one representation",
    "Found unsupported view representations",  # Java's server fails later, when it writes them
    r"default-namespace\[.*\]: expected a string",
    r"field id -\d+ of .* must not be negative",
]
JAVA_FAILS = ["no schema has been added", "no current version id has been set"]
"""Java does not let -1 stand for what was there already."""


class JavaViews(Java):
    def read(self, document: ViewMetadata) -> Any:
        """Call `ViewMetadataParser.fromJson`, and read what it resolves lazily by id."""
        metadata = self.iceberg.view.ViewMetadataParser.fromJson(json.dumps(document))
        metadata.versionsById()
        metadata.schema()
        return metadata

    def written(self, metadata: Any) -> dict[str, Any]:
        return dict(json.loads(self.iceberg.view.ViewMetadataParser.toJson(metadata)))

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the builder's result of a create request, which Java's server gives the version id 1."""
        body = {
            "name": "v",
            "location": request["location"],
            "schema": request["schema"],
            "view-version": {**request["view_version"], "version-id": 1},
            "properties": request["properties"],
        }
        parsed = self.iceberg.rest.requests.CreateViewRequestParser.fromJson(json.dumps(body))
        builder = self.iceberg.view.ViewMetadata.builder()
        builder.assignUUID(request["view_uuid"]).setLocation(parsed.location()).setProperties(parsed.properties())
        return self.written(builder.setCurrentVersion(parsed.viewVersion(), parsed.schema()).build())

    def commit(self, base: ViewMetadata, updates: list[Any]) -> Any:
        """Call `ViewMetadata.Builder` like Java's server."""
        return self.built(self.iceberg.view.ViewMetadata.buildFrom(self.read(base)), updates)

    def error_of_commit(self, base: ViewMetadata, updates: list[Any]) -> str | None:
        return java_error(lambda: self.commit(base, updates))

    def error_of_requirement(self, base: ViewMetadata, requirement: dict[str, Any]) -> str | None:
        asserted, metadata = self.parsed(requirements=[requirement]).requirements()[0], self.read(base)
        return java_error(lambda: asserted.validate(metadata))


def comparable(metadata: dict[str, Any], *, with_log: bool = True) -> dict[str, Any]:
    """Return the document with versions by id, as Java moves the current one to the front when others expire; and
    schemas by the members that Java and we write alike.
    """
    parts = {name: metadata[name] for name in ("view-uuid", "format-version", "location", "current-version-id")}
    parts["properties"] = metadata.get("properties", {})
    parts["versions"] = {document["version-id"]: document for document in metadata["versions"]}
    parts["schemas"] = {
        schema["schema-id"]: [
            (field["id"], field["name"], field["required"], field.get("doc")) for field in schema["fields"]
        ]
        for schema in metadata["schemas"]
    }
    if with_log:
        parts["version-log"] = metadata["version-log"]
    return parts


def logged_ids(metadata: dict[str, Any]) -> list[int]:
    """Return the version log; Java adds a version once more when a request switches to another one and back."""
    return [version_id for version_id, _ in groupby(entry["version-id"] for entry in metadata["version-log"])]


@examples(100, long=3_000)
@given(document=view_metadata())
def test_java_reads_what_the_engine_writes(spark: SparkSession, document: ViewMetadata) -> None:
    java = JavaViews(spark)
    assert comparable(java.written(java.read(document))) == comparable(document)


@examples(500)
@given(damage=damaged(view_metadata()))
def test_nothing_is_accepted_that_java_refuses(spark: SparkSession, damage: tuple[str, ViewMetadata]) -> None:
    what, document = damage
    java = JavaViews(spark)
    theirs = java_error(lambda: java.read(document))
    try:
        ours = read_view_metadata(document)
    except BadRequest as error:
        if theirs is None:
            is_known = any(re.search(known, error.message) for known in STRICTER)
            assert is_known, f"{what}: only we refuse it: {error.message}"  # noqa: PT017
    else:
        assert theirs is None, f"{what}: Java refuses it: {theirs}"
        assert java_error(lambda: java.read(ours)) is None


@examples(75, long=1_500)
@given(request=view_requests())
def test_the_same_request_creates_the_same_view(spark: SparkSession, request: dict[str, Any]) -> None:
    assert comparable(JavaViews(spark).create(request)) == comparable(create_view_metadata(**request))


@examples(200)
@given(history=view_histories())
def test_the_same_updates_lead_to_the_same_view(
    spark: SparkSession, history: tuple[ViewMetadata, list[ViewCommit]]
) -> None:
    java = JavaViews(spark)
    for commit in history[1]:
        ours = commit.change.metadata
        theirs = java.written(java.commit(commit.base, commit.updates))
        # Java counts updates without effect as changes, and then expires old versions
        if commit.change.changed:
            assert comparable(theirs, with_log=False) == comparable(ours, with_log=False)
            assert logged_ids(theirs) == logged_ids(ours)


@examples(200)
@given(data=st.data())
def test_the_same_replaces_are_refused(spark: SparkSession, data: st.DataObject) -> None:
    base = data.draw(view_metadata())
    document = data.draw(versions())
    document["schema-id"] = data.draw(st.sampled_from([-1, 0, 1, 2]))
    document["representations"] += data.draw(st.sampled_from([[], document["representations"][:1]]))
    chosen = data.draw(st.sampled_from([-1, document["version-id"], 1]))
    assert_same_judgement(
        JavaViews(spark),
        base,
        [
            {"action": "add-view-version", "view-version": document},
            {"action": "set-current-view-version", "view-version-id": chosen},
        ],
    )


@examples(200)
@given(data=st.data())
def test_the_same_damaged_updates_are_refused(spark: SparkSession, data: st.DataObject) -> None:
    base = data.draw(view_metadata())
    commits = view_commits(base).filter(lambda commit: commit.updates)
    damage = data.draw(damaged(commits.map(lambda commit: {"updates": commit.updates})))
    updates = damage[1].get("updates")
    if isinstance(updates, list):
        assert_same_judgement(JavaViews(spark), base, updates)


def assert_same_judgement(java: JavaViews, base: ViewMetadata, updates: list[Any]) -> None:
    theirs = java.error_of_commit(base, updates)
    try:
        apply_view_updates(base, updates, now_ms=START_MS)
    except BadRequest as error:
        if theirs is None:
            is_known = any(re.search(known, error.message) for known in STRICTER_UPDATES)
            assert is_known, f"only we refuse it: {error.message}"  # noqa: PT017
    else:
        assert theirs is None or any(known in theirs for known in JAVA_FAILS), f"only Java refuses it: {theirs}"


def test_the_texts_of_errors_are_java_s(spark: SparkSession) -> None:
    java = JavaViews(spark)
    base = view(versions=[version(1, sql("a"), sql("b", "trino"))])
    for document in (version(2, sql("a", "TRINO"), sql("b", "trino")), version(2, sql("c", "trino"))):
        updates = [
            {"action": "add-view-version", "view-version": document},
            {"action": "set-current-view-version", "view-version-id": -1},
        ]
        with pytest.raises(BadRequest) as raised:
            apply_view_updates(base, updates, now_ms=START_MS)
        ours = raised.value.message.removeprefix("updates[0] (add-view-version): ")
        # a set in Java has no order
        theirs = (java.error_of_commit(base, updates) or "").replace("[trino, spark]", "[spark, trino]")
        assert ours in theirs


def test_the_same_requirements_fail(spark: SparkSession) -> None:
    java = JavaViews(spark)
    base = view()
    for uuid, is_refused in ((base["view-uuid"].upper(), False), ("00000000-0000-4000-8000-000000000000", True)):
        requirement = {"type": "assert-view-uuid", "uuid": uuid}
        theirs = java.error_of_requirement(base, requirement)
        ours = None
        try:
            check_view_requirements(base, [requirement])
        except CommitFailed as failure:
            ours = failure.message
        assert (theirs is not None, ours is not None) == (is_refused, is_refused)
        assert (ours or "") in (theirs or "")
