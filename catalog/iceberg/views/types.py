"""What the view half of the metadata engine passes around, and the numbers the view spec fixes."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

ViewMetadata: TypeAlias = dict[str, Any]
"""A view's metadata document: the JSON object of a view's `*.metadata.json` file, parsed and nothing else.

Keys, nesting and spelling are those of the Iceberg view spec; unknown keys are kept wherever they stand. `properties`
is always present, and every schema has its id. A value of this type is never changed in place: two states of a view
share every part that the commit between them left alone.
"""

VIEW_FORMAT_VERSION: Final = 1
"""The only one there is."""

INITIAL_VERSION_ID: Final = 1
"""Java's clients take a view whose current version is this one for created, not replaced."""

SQL: Final = "sql"
"""The only type of representation that the spec knows."""
