"""Hypothesis strategies for create requests, commits and whole metadata documents of views.

Every document is the engine's own result for a create request and a random history of commits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from catalog.iceberg.create import create_view_metadata
from catalog.iceberg.types import ViewMetadata
from catalog.iceberg.views import ViewChange, apply_view_updates
from icekeeper.kernel.errors.types import BadRequest
from tests.unit.iceberg.strategy_fixtures import START_MS, UUID, Readers, names, schemas

Json = Any
DIALECTS = ["spark", "trino", "Trino", "presto", "SPARK"]
FEW_SCHEMAS: list[Json] = [
    {"type": "struct", "fields": columns[:number], "schema-id": number}
    for columns in (
        [
            {"id": 1, "name": "a", "required": True, "type": "long"},
            {"id": 5, "name": "b", "required": False, "type": "date"},
        ],
        [{"id": 1, "name": "a", "required": True, "type": "long", "doc": "ß"}],
    )
    for number in range(len(columns) + 1)
]
"""That few, so that the same one is often added again."""


@dataclass(frozen=True)
class ViewCommit:
    """One request of a history: its base and its result."""

    base: ViewMetadata
    updates: list[Json]
    now_ms: int
    change: ViewChange


@st.composite
def versions(draw: st.DrawFn) -> Json:
    """A version as a client sends it, without its schema id."""
    version: Json = {
        "version-id": draw(st.integers(-2, 12)),
        "timestamp-ms": START_MS + draw(st.integers(-200_000, 200_000)),
        "schema-id": 0,
        "summary": draw(st.sampled_from([{}, {"engine-name": "spark"}, {"operation": "replace", "ß": ""}])),
        "representations": [
            {"type": "sql", "sql": text, "dialect": dialect}
            for text, dialect in draw(
                st.lists(
                    st.tuples(st.sampled_from(["select 1", "select 2", "ß \n"]), st.sampled_from(DIALECTS)),
                    min_size=1,
                    max_size=3,
                    unique_by=lambda drawn: drawn[1].lower(),
                )
            )
        ],
        "default-namespace": draw(st.sampled_from([["db"], [], ["a", "b c"]])),
    }
    catalog = draw(st.sampled_from([None, "c", "d"]))
    return version if catalog is None else {**version, "default-catalog": catalog}


@st.composite
def view_requests(draw: st.DrawFn, readers: Readers = "java") -> Json:
    """The keyword arguments of `create_view_metadata`."""
    return {
        "schema": draw(schemas(3, readers)),
        "view_version": draw(versions()),
        "location": draw(st.sampled_from(["s3://bucket/v", "file:///tmp/Ä b"])),
        "properties": draw(st.dictionaries(names("k"), st.text(max_size=3), max_size=2)),
        "view_uuid": UUID,
    }


@st.composite
def _schema_updates(draw: st.DrawFn, state: ViewMetadata) -> list[Json]:
    return [{"action": "add-schema", "schema": draw(st.sampled_from([*FEW_SCHEMAS, state["schemas"][0]]))}]


@st.composite
def _version_updates(draw: st.DrawFn, state: ViewMetadata) -> list[Json]:
    """A replace as Java's clients send it: -1 refers only to what this request adds."""
    updates = draw(_schema_updates(state)) if draw(st.booleans()) else []
    schema_ids = [schema["schema-id"] for schema in during(state, updates)["schemas"]]
    if len(schema_ids) > len(state["schemas"]):
        schema_ids = [-1, schema_ids[-1]]
    version = draw(st.one_of(versions(), st.sampled_from(state["versions"])))
    updates.append(
        {"action": "add-view-version", "view-version": {**version, "schema-id": draw(st.sampled_from(schema_ids))}}
    )
    added = during(state, updates)["versions"][len(state["versions"]) :]
    if added and draw(st.integers(0, 3)) > 0:
        chosen = draw(st.sampled_from([-1, added[0]["version-id"]]))
        updates.append({"action": "set-current-view-version", "view-version-id": chosen})
    return updates


@st.composite
def _view_updates(draw: st.DrawFn, state: ViewMetadata) -> list[Json]:
    version_ids = [version["version-id"] for version in state["versions"]]
    possible: list[Json] = [
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "upgrade-format-version", "format-version": 1},
        *({"action": "set-location", "location": f"s3://bucket/{name}"} for name in "vw"),
        *({"action": "set-properties", "updates": {f"k{number}": str(number % 2)}} for number in range(3)),
        *(
            {"action": "set-properties", "updates": {"version.history.num-entries": str(number)}}
            for number in range(1, 5)
        ),
        *({"action": "remove-properties", "removals": [name, "absent"]} for name in state["properties"]),
        *({"action": "set-current-view-version", "view-version-id": version_id} for version_id in version_ids),
    ]
    return [draw(st.sampled_from(possible))]


WITH_LEAVE: Json = {"action": "set-properties", "updates": {"replace.drop-dialect.allowed": "True"}}


def during(base: ViewMetadata, updates: list[Json]) -> ViewMetadata:
    """Return the metadata after these updates without expiration: old versions expire at the end of the request."""
    keep_all = {"action": "set-properties", "updates": {"version.history.num-entries": "1000"}}
    return apply_view_updates(base, [*updates, WITH_LEAVE, keep_all], now_ms=START_MS).metadata


@st.composite
def view_commits(draw: st.DrawFn, base: ViewMetadata, max_steps: int = 5) -> ViewCommit:
    """A valid commit on top of `base`; each update is drawn for the state after those before it."""
    now_ms = START_MS + draw(st.integers(-200_000, 200_000))
    updates: list[Json] = []
    state = base
    for _ in range(draw(st.sampled_from(range(max_steps + 1)))):
        step = st.one_of(_version_updates(state), _view_updates(state), _version_updates(state), _schema_updates(state))
        updates += draw(step)
        state = during(base, updates)
    try:
        change = apply_view_updates(base, updates, now_ms=now_ms)
    except BadRequest as error:
        if "loss of view dialects" not in error.message:
            raise
        updates.append(WITH_LEAVE)
        change = apply_view_updates(base, updates, now_ms=now_ms)
    return ViewCommit(base, updates, now_ms, change)


@st.composite
def view_histories(
    draw: st.DrawFn, readers: Readers = "java", max_commits: int = 4
) -> tuple[ViewMetadata, list[ViewCommit]]:
    """A created view and its commits."""
    created = create_view_metadata(**draw(view_requests(readers)))
    history: list[ViewCommit] = []
    metadata = created
    for _ in range(draw(st.sampled_from(range(max_commits + 1)))):
        history.append(draw(view_commits(metadata)))
        metadata = history[-1].change.metadata
    return created, history


@st.composite
def view_metadata(draw: st.DrawFn, readers: Readers = "java") -> ViewMetadata:
    """A metadata document that every reader must accept."""
    created, history = draw(view_histories(readers))
    return history[-1].change.metadata if history else created
