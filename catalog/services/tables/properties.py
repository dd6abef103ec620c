"""Changes of the properties of tables and views, by ordinary commits, that apply only to the values a form showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.services.commit.service import TableChanges, commit_table
from catalog.services.tables.create_view import replace_view
from tenancy.actor import Actor


def update_tabular_properties(
    *,
    actor: Actor,
    warehouse_id: UUID,
    kind: Tabular.Kind,
    identifier: Identifier,
    uuid: UUID,
    updates: Mapping[str, str],
    removals: Sequence[str],
    expected: Mapping[str, str | None],
) -> None:
    """Set and remove properties of the table or view with this id and name.

    `expected` are the values that the caller saw, None for a property that is not set. Raises `PropertiesChanged` (409)
    when one of them is another by now, and the errors of `commit_table` and `replace_view`.
    """
    changes: list[dict[str, Any]] = []
    if updates:
        changes.append({"action": "set-properties", "updates": dict(updates)})
    if removals:
        changes.append({"action": "remove-properties", "removals": list(removals)})
    if kind is Tabular.Kind.VIEW:
        same_view = [{"type": "assert-view-uuid", "uuid": str(uuid)}]
        replace_view(
            actor=actor, warehouse_id=warehouse_id, view=identifier, requirements=same_view, updates=changes,
            expected_properties=expected,
        )  # fmt: skip
        return
    same_table = [{"type": "assert-table-uuid", "uuid": str(uuid)}]
    commit_table(
        actor=actor, warehouse_id=warehouse_id, changes=TableChanges(identifier, same_table, changes, expected)
    )
