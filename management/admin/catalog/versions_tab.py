"""The tab with the versions of a view, and the comparison of two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from catalog.iceberg.display.line_comparison import compare_lines
from catalog.iceberg.totals import read_engine
from catalog.iceberg.types import ViewMetadata
from icekeeper.kernel.errors.types import NotFound
from management.admin.catalog.metadata_facts import find_schema, moment_of, sql_of
from management.admin.catalog.schema_tab import compare_for_page

MAX_LISTED_VERSIONS: Final = 200
"""On the page, and in the choice of versions to compare: the newest ones."""
MAX_COMPARED_DIALECTS: Final = 10


def versions_context(metadata: ViewMetadata, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the versions of a view, and the comparison of `compare` with `version`, if `query` names both.

    Raises `NotFound` for a version that the metadata does not have.
    """
    current = metadata.get("current-version-id")
    versions = sorted(metadata.get("versions") or [], key=_age, reverse=True)
    by_id = {str(each.get("version-id")): each for each in versions}
    shown = versions[:MAX_LISTED_VERSIONS]
    new, old = (_read(query.get(name), by_id) for name in ("version", "compare"))
    # Without a choice, the form proposes the last change.
    last, one_before = [*versions, {}, {}][:2]
    return {
        "versions": [
            {
                "id": each.get("version-id"),
                "is_current": each.get("version-id") == current,
                "at": moment_of(each.get("timestamp-ms")),
                "schema_id": each.get("schema-id"),
                "engine": read_engine(each.get("summary") or {}),
                "representations": sql_of(each),
            }
            for each in shown
        ],
        "hidden_versions": len(versions) - len(shown),
        "version_id": (new or last).get("version-id"),
        "other_id": (old or one_before).get("version-id"),
        "compared": None if new is None or old is None else _compare(metadata, old, new),
    }


def _age(version: dict[str, Any]) -> tuple[int, int]:
    return version.get("timestamp-ms", 0), version.get("version-id", 0)


def _read(text: str | None, by_id: Mapping[str, dict[str, Any]]) -> dict[str, Any] | None:
    if not text:
        return None
    if text not in by_id:
        raise NotFound("No such version")
    return by_id[text]


def _compare(metadata: ViewMetadata, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    before, after = (
        {each["dialect"]: each["sql"] for each in sql_of(version)[:MAX_COMPARED_DIALECTS]} for version in (old, new)
    )
    schemas = [find_schema(metadata, each.get("schema-id")) for each in (old, new)]
    facts = [
        (name, *(_text(each.get(name)) for each in (old, new)))
        for name in ("default-catalog", "default-namespace")
        if old.get(name) != new.get(name)
    ]
    return {
        "old_id": old.get("version-id"),
        "new_id": new.get("version-id"),
        "facts": facts,
        "sql": [_compare_sql(dialect, before.get(dialect), after.get(dialect)) for dialect in {**before, **after}],
        "comparison": compare_for_page(*schemas),
    }


def _compare_sql(dialect: str, old: str | None, new: str | None) -> dict[str, Any]:
    return {
        "dialect": dialect,
        "is_added": old is None,
        "is_removed": new is None,
        "found": compare_lines(old or "", new or ""),
    }


def _text(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ".".join(str(each) for each in value)
    return "" if value is None else str(value)
