"""The tables and views that the SQL of a view names, on its page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from catalog.iceberg.display.sql_references import MAX_REFERENCES, MAX_SQL_LENGTH, References, find_references
from catalog.identifiers import Identifier
from catalog.selectors.tables.named_tabulars import find_named_tabulars_for
from management.admin.catalog.metadata_facts import sql_of
from management.admin.navigation import object_url
from tenancy.actor import Actor


def sources_context(
    actor: Actor, version: dict[str, Any], *, warehouse_id: UUID, warehouse_name: str
) -> dict[str, Any]:
    """Return by dialect the names in the SQL of a version: links to what the user may open, else only the text.

    Of all dialects together, `MAX_SQL_LENGTH` characters are read, and `MAX_REFERENCES` names are looked up.
    """
    left = MAX_SQL_LENGTH
    found: list[tuple[str, References]] = []
    for each in sql_of(version):
        left -= len(each["sql"])
        read = find_references(each["sql"], each["dialect"]) if left >= 0 else References((), is_complete=False)
        found.append((each["dialect"], read))
    catalogs = {str(version.get("default-catalog") or "").lower(), warehouse_name.lower()} - {""}
    defaults = [str(each) for each in version.get("default-namespace") or []]
    identifiers = {
        parts: _identifier(parts, defaults, catalogs) for _, references in found for parts in references.names
    }
    known = find_named_tabulars_for(
        actor=actor,
        warehouse_id=warehouse_id,
        identifiers=list(dict.fromkeys(each for each in identifiers.values() if each is not None))[:MAX_REFERENCES],
    )

    def shown(parts: tuple[str, ...]) -> dict[str, Any]:
        identifier = identifiers[parts]
        tabular = None if identifier is None else known.get(identifier)
        url = None if tabular is None else object_url(tabular.kind, tabular.uuid, warehouse_id)
        return {"text": ".".join(parts), "icon": "" if tabular is None else tabular.kind, "url": url}

    return {
        "sources": [
            {
                "dialect": dialect,
                "names": [shown(parts) for parts in references.names],
                "is_complete": references.is_complete,
            }
            for dialect, references in found
        ]
    }


def _identifier(parts: Sequence[str], defaults: Sequence[str], catalogs: set[str]) -> Identifier | None:
    """Return what a name means in this warehouse; None if it lacks a namespace.

    The first of three or more parts is left out if it is the name of the default catalog or of the warehouse, as
    engines call catalogs.
    """
    *levels, name = parts
    if len(levels) > 1 and levels[0].lower() in catalogs:
        levels = levels[1:]
    levels = levels or list(defaults)
    return Identifier(tuple(levels), name) if levels else None
