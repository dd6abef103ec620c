"""Tables that are there: renamed, dropped."""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError

from catalog.errors import Protected, already_exists, no_such_namespace, no_such_table
from catalog.identifiers import Identifier
from catalog.models import FormerLocation, Namespace, Tabular
from catalog.selectors.targets import find_target
from icekeeper.kernel.clock import now
from icekeeper.kernel.database_errors import is_foreign_key_violation
from icekeeper.kernel.errors import AlreadyExists
from icekeeper.kernel.names import require_name
from icekeeper.kernel.write_transaction import write_transaction
from tasks.queue.models import Task
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.securables import move_securable, remove_securable
from tenancy.models import Securable


def rename_table(*, actor: Actor, warehouse_id: UUID, source: Identifier, destination: Identifier) -> None:
    """Give a table another name, in its namespace or in another one; its files and UUID stay as they are.

    Raises `NoSuchTable`, `NoSuchNamespace` for the destination's, `AlreadyExists` when the name is taken there.
    """
    origin = find_target(warehouse_id=warehouse_id, identifier=source)
    table = origin.table_for(actor, Can.RENAME)
    require_name(destination.name, "table name")
    goal = find_target(warehouse_id=warehouse_id, identifier=destination)
    namespace_id = goal.namespace_for(actor, Can.CREATE_TABLE)
    if goal.current is not None and goal.current.id != table.id:
        raise _name_taken(goal.current.kind, source, destination)
    try:
        with write_transaction():
            if not Namespace.objects.select_for_update(no_key=True).filter(pk=namespace_id):
                raise no_such_namespace(destination.levels)
            renamed = Tabular.objects.filter(
                pk=table.id, namespace_id=table.namespace_id, name_key=source.name_key
            ).update(namespace_id=namespace_id, name=destination.name, name_key=destination.name_key, updated_at=now())
            if not renamed:
                raise no_such_table(source)
            if namespace_id != table.namespace_id:
                parent = (Securable.Type.NAMESPACE, namespace_id)
                move_securable(Securable.Type.TABLE, table.id, parent=parent)
    except IntegrityError as error:
        if is_foreign_key_violation(error):
            raise no_such_namespace(destination.levels) from None
        raise _name_taken("table", source, destination) from None


def drop_table(*, actor: Actor, warehouse_id: UUID, table: Identifier, purge: bool, force: bool = False) -> None:
    """Forget a table: its row is gone on return. With `purge` a task that deletes its files is queued with it.

    Raises `NoSuchTable`, or `Protected` (409) unless `force`.
    """
    current = find_target(warehouse_id=warehouse_id, identifier=table).table_for(actor, Can.DROP)
    with write_transaction():
        # By its name as well: one that was renamed in the meantime is another table to the caller.
        named = Tabular.objects.filter(namespace_id=current.namespace_id, name_key=table.name_key)
        row = named.select_for_update().filter(pk=current.id).first()
        if row is None:
            raise no_such_table(table)
        if row.protected and not force:
            raise Protected(f"Table is protected: {table}")
        if purge:
            former = FormerLocation.objects.filter(tabular=row).values_list("location", flat=True)
            Task.objects.create(
                queue=Task.Queue.TABULAR_PURGE,
                warehouse_id=warehouse_id,
                entity_id=row.pk,
                payload={"tabular_location": row.location, "former_locations": list(former)},
            )
        row.delete()
        remove_securable(Securable.Type.TABLE, current.id)


def _name_taken(kind: str, source: Identifier, destination: Identifier) -> AlreadyExists:
    if kind == "table":
        return already_exists(kind, "table", destination)
    return AlreadyExists(f"Cannot rename {source} to {destination}. View already exists")
