"""What a statement reads, from the syntax tree that DuckDB writes as JSON: its tables, and the columns it needs.

Only what is in the lists below is accepted. In particular no function reads files, other tables or memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final

_QUERIES: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_SOURCES: Final = frozenset(
    {"BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SUBQUERY", "TABLE_FUNCTION"}
)  # fmt: skip
_CLAUSES: Final = frozenset(
    {
        "ASCENDING", "DESCENDING", "ORDER_DEFAULT", "DISTINCT_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER",
        "ORDER_MODIFIER",
    }
)  # fmt: skip
_TYPES: Final = "_TYPE_INFO"
"""The end of the names of nodes that describe data types."""
_TABLE_FUNCTIONS: Final = frozenset({"range", "generate_series", "unnest", "json_each", "json_tree"})
_INTERNAL: Final = "__internal"
"""The begin of the names of functions that only DuckDB's optimizer calls."""

_DUCKDB_DATABASES: Final = frozenset({"temp", "system"})
"""Names of DuckDB's own databases: as the first level of a name they are ambiguous."""
_DUCKDB_SCHEMAS: Final = frozenset({"information_schema", "pg_catalog"})
"""Names of DuckDB's own schemas, in which no table can be created."""
_DUCKDB_VIEWS: Final = ("duckdb_", "pg_", "pragma_", "sqlite_")
"""The begin of the names of the views that DuckDB finds without a schema."""

_LOWER_CASE: Final = str.maketrans(ascii_uppercase, ascii_lowercase)

ONLY_SELECT: Final = "Only one SELECT statement is run"
PIVOT_WITHOUT_IN: Final = "PIVOT needs IN with the values here, as in PIVOT ns.t ON a IN (1, 2) USING sum(b)"

Path = tuple[str, ...]


class Rejected(Exception):
    """The statement is not run; the text is shown to the user."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The tables of a statement as levels of a namespace and a name, each once, in its first spelling.

    `columns` are the names, as `fold_name` returns them, that may be columns of any of them; None if all are needed.
    """

    tables: tuple[Path, ...]
    columns: frozenset[str] | None


def analyse(tree: Mapping[str, Any]) -> Analysis:
    """Read the result of DuckDB's `json_serialize_sql`. Raises `Rejected`."""
    if tree["error"]:
        is_syntax = tree.get("error_type") == "parser"
        raise Rejected(str(tree.get("error_message")) if is_syntax else ONLY_SELECT)
    if len(tree["statements"]) != 1:
        raise Rejected(ONLY_SELECT)
    nodes = list(_nodes(tree["statements"][0]))
    for node in nodes:
        _check(node)
    own_names = _names_of_ctes(nodes)
    if any(each.startswith(_DUCKDB_VIEWS) for each in own_names):  # where it is not in scope, the name is a view's
        raise Rejected(f"The names of WITH queries cannot begin with {', '.join(_DUCKDB_VIEWS)} here")
    found: dict[Path, Path] = {}
    for node in nodes:
        if node.get("type") == "BASE_TABLE" and "class" not in node:
            path = tuple(node["qualified_name"]["path"])
            if len(path) > 1:
                _check_namespace(path)
                found.setdefault(tuple(fold_name(each) for each in path), path)
            elif fold_name(path[0]) not in own_names:
                raise Rejected(f"{path[0]}: write the namespace before the name of the table, as in namespace.table")
    return Analysis(tuple(found.values()), _columns(nodes))


def fold_name(name: str) -> str:
    """Return the text by which DuckDB compares a name: only the letters of ASCII are the same in both cases."""
    return name.translate(_LOWER_CASE)


def _check_namespace(path: Path) -> None:
    if fold_name(path[0]) in _DUCKDB_DATABASES | _DUCKDB_SCHEMAS:
        raise Rejected(
            f"{'.'.join(path)}: tables in a namespace called {path[0]} cannot be queried here, since DuckDB has a "
            "database or schema of that name: use an engine"
        )


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all objects of the tree, without recursion: it may be deep."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += reversed(node.values())
        elif isinstance(node, list):
            waiting += reversed(node)


def _names_of_ctes(nodes: list[Mapping[str, Any]]) -> set[str]:
    maps = (node["cte_map"]["map"] for node in nodes if "cte_map" in node)
    return {fold_name(entry["key"]) for entries in maps for entry in entries}


def _check(node: Mapping[str, Any]) -> None:
    kind = node.get("type")
    if node.get("class") == "FUNCTION":
        if fold_name(node["function_name"]).startswith(_INTERNAL):
            raise Rejected(f"The function {node['function_name']} is not available here")
    elif "class" not in node and isinstance(kind, str):
        if kind not in _QUERIES | _SOURCES | _CLAUSES and not kind.endswith(_TYPES):
            raise Rejected(ONLY_SELECT)
        if kind == "TABLE_FUNCTION":
            name = node["function"]["qualified_name"]["path"]
            if len(name) != 1 or fold_name(name[0]) not in _TABLE_FUNCTIONS:
                raise Rejected(f"The function {'.'.join(name)} is not available here: query tables of the warehouse")
        elif kind == "BASE_TABLE" and node.get("at_clause") is not None:
            raise Rejected("Only the current snapshots of tables are read: AT is not available here")


def _columns(nodes: list[Mapping[str, Any]]) -> frozenset[str] | None:
    """Return every name that may be that of a column, or None where columns are used without their names."""
    names: set[str] = set()
    relations: set[str] = set()
    for node in nodes:
        kind, group = node.get("type"), node.get("class")
        if group == "COLUMN_REF":
            names |= {fold_name(each) for each in node["column_names"]}
        elif group in {"STAR", "POSITIONAL_REFERENCE"} or (group is None and kind == "PIVOT"):
            return None
        elif group is None and kind == "JOIN":
            if node["ref_type"] not in {"REGULAR", "CROSS", "DEPENDENT", "ASOF"}:  # such as NATURAL
                return None
            names |= {fold_name(each) for each in node["using_columns"]}
        elif group is None and kind in _SOURCES:
            if node.get("column_name_alias"):
                return None
            relations |= {fold_name(each) for each in (node.get("alias"), node.get("table_name")) if each}
    return None if names & relations else frozenset(names)
