"""Tables, views and generic tables that go."""

from __future__ import annotations

from uuid import UUID

from catalog.errors import Protected, no_such_tabular, noun
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.selectors.tabulars import Loaded
from catalog.selectors.targets import CurrentTabular, find_target, find_target_of_commit
from catalog.services.contention import attempts
from catalog.services.idempotency import IdempotencyKey, store_response
from catalog.services.locations import lock_warehouse
from catalog.services.retirement import audit_drop, hide, retire
from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.db.write_transaction import write_transaction
from storage.errors import no_such_warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can


def unregister_table(
    *, actor: Actor, warehouse_id: UUID, table: Identifier, idempotency_key: IdempotencyKey | None = None
) -> Loaded:
    """Forget a table and leave all its files to whoever asked; what it last was is the answer.

    Also in a soft-delete warehouse it goes at once. Raises `NoSuchTable`, `Protected` (409), `CommitContended` (409)
    when it is committed to all the time.
    """
    for _ in attempts(table):
        target, document = find_target_of_commit(warehouse_id=warehouse_id, identifier=table)
        current = target.tabular_for(actor, Can.DROP, Tabular.Kind.TABLE)
        last = Loaded(current.id, current.metadata_location, document)
        with write_transaction():
            row = _lock_named(current, table)
            if row is None:
                raise no_such_tabular(Tabular.Kind.TABLE, table)
            if row.protected:
                raise Protected(f"Table is protected: {table}")
            if row.metadata_location == last.metadata_location:
                ended = retire([row], purge=False)
                named = [*table.levels, table.name]
                audit_drop(ended, row, actor=actor, project=target.project_id, levels=named)
                store_response(idempotency_key, last)
                return last
    raise AssertionError("attempts() ends with an error")


def drop_tabular(
    *,
    actor: Actor,
    warehouse_id: UUID,
    identifier: Identifier,
    kind: Tabular.Kind,
    purge: bool,
    force: bool = False,
    idempotency_key: IdempotencyKey | None = None,
) -> None:
    """Forget it: nobody finds it any more on return.

    In a soft-delete warehouse its row is kept until it expires, unless `force`. With `purge` its files are deleted by a
    task after the row. Raises `NoSuchTable` (or view, or generic table), or `Protected` (409) unless `force`.
    """
    target = find_target(warehouse_id=warehouse_id, identifier=identifier)
    current = target.tabular_for(actor, Can.DROP, kind)
    with write_transaction():
        warehouse = lock_warehouse(warehouse_id)  # its rules as they are now
        if warehouse is None or warehouse.status != warehouse.Status.ACTIVE:
            raise no_such_warehouse(warehouse_id)
        row = _lock_named(current, identifier)
        if row is None:
            raise no_such_tabular(kind, identifier)
        if row.protected and not force:
            raise Protected(f"{noun(kind)} is protected: {identifier}")
        if warehouse.has_soft_delete and not force:
            hide(row, warehouse=warehouse, purge=purge)
        else:
            ended = retire([row], purge=purge)
            named = [*identifier.levels, identifier.name]
            audit_drop(ended, row, actor=actor, project=warehouse.project_id, levels=named)
        store_response(idempotency_key)


def _lock_named(current: CurrentTabular, identifier: Identifier) -> Tabular | None:
    """By its name as well: one that was renamed in the meantime is another table to the caller."""
    named = [current.id, current.namespace_id, identifier.name_key]
    where = "id = %s AND namespace_id = %s AND name_key = %s AND deleted_at IS NULL"
    return lock_row(Tabular, where, named, mode="UPDATE")
