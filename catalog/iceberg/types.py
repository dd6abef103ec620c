"""The metadata of tables and views as plain JSON values, and the constants of their specifications."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

TableMetadata: TypeAlias = dict[str, Any]
"""A table's metadata document: the JSON object of a `*.metadata.json` file, parsed and nothing else.

Keys, nesting and spelling are those of the Iceberg table spec, appendix C ("JSON serialization"); unknown keys are kept
wherever they stand. It is always in the modern form (`schemas`, `partition-specs`, `sort-orders`, `refs`, `snapshots`
present), a version 1 table carries the legacy `schema` and `partition-spec` besides. A value of this type is never
changed in place: two versions of a table share every part that the commit between them left alone.
"""

SUPPORTED_FORMAT_VERSIONS: Final = (1, 2, 3, 4)
"""Version 4 is in development: Java 1.10 and newer read and write it, with the rules of version 3 for metadata."""
DEFAULT_FORMAT_VERSION: Final = 2

ROW_LINEAGE_VERSION: Final = 3
"""From this format version on there are `next-row-id`, encryption keys, and `null` for "no current snapshot"."""

LAST_ADDED: Final = -1
"""A `schema-id`, `spec-id` or `sort-order-id` meaning: the one that this request added last."""

INITIAL_SCHEMA_ID: Final = 0
INITIAL_SPEC_ID: Final = 0
UNSORTED_ORDER_ID: Final = 0
INITIAL_SORT_ORDER_ID: Final = 1
FIRST_PARTITION_FIELD_ID: Final = 1000

MAIN_BRANCH: Final = "main"
NO_SNAPSHOT_ID: Final = -1
"""How versions 1 and 2 write "no current snapshot"."""

MAX_CLOCK_AHEAD_MS: Final = 24 * 60 * 60 * 1000
"""How far the clock of a client may be ahead of this server's: `last-updated-ms` never goes back behind a timestamp."""

LOG_CLOCK_SKEW_MS: Final = 60_000
"""How far a log entry may lie before its predecessor (Java's readers reject larger differences)."""

ViewMetadata: TypeAlias = dict[str, Any]
"""A view's metadata document: the JSON object of a view's `*.metadata.json` file, parsed and nothing else.

Keys, nesting and spelling are those of the Iceberg view spec; unknown keys are kept wherever they stand. `properties`
is always present, and every schema has its id. A value of this type is never changed in place: two states of a view
share every part that the commit between them left alone.
"""

VIEW_FORMAT_VERSION: Final = 1
"""The only format version of views."""

INITIAL_VERSION_ID: Final = 1
"""Java's clients conclude from this current version that a view was created, not replaced."""

SQL: Final = "sql"
"""The only type of representation in the view spec."""
