"""Deletion of rows: in batches, or with the rows that refer to them in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections, models
from django.db.models import QuerySet

from icekeeper.kernel.db.sql import Row, execute, fetch_all
from icekeeper.kernel.db.write_transaction import write_transaction

BATCH = 500
"""Rows of one delete: SQLite takes a bounded number of parameters, and nobody waits long for the locks."""


def delete_in_batches(old: QuerySet[Any], *, batch: int = BATCH) -> int:
    """Delete what `old` finds; how many rows that were.

    Each batch is a transaction of its own and leaves out rows that others hold, so this may be stopped at any time
    and run beside requests and beside itself.
    """
    deleted = 0
    while True:
        with write_transaction():
            ids = list(old.order_by("pk").select_for_update(skip_locked=True).values_list("pk", flat=True)[:batch])
            old.model._default_manager.filter(pk__in=ids).delete()  # noqa: SLF001 - Django's own name for it
        deleted += len(ids)
        if len(ids) < batch:
            return deleted


def delete_rows(model: type[models.Model], ids: Sequence[object]) -> None:
    """Delete rows by primary key, and those that refer to them by CASCADE; nothing is loaded, no signal is sent.

    What refers to them by RESTRICT or PROTECT is refused by the database, at the latest at the commit.
    On PostgreSQL it is one statement, on SQLite one for each table.
    """
    wanted = list(ids)
    referring, own = _deletes(model)
    if connections["default"].vendor == "postgresql":
        execute(_in_one(model), [wanted] * (len(referring) + 1))
        return
    for statement in (*(delete for _, delete in referring), own):
        execute(statement, [wanted])


def delete_rows_returning(
    model: type[models.Model], ids: Sequence[object], *, child: type[models.Model], columns: str
) -> list[Row]:
    """As `delete_rows`, in as many statements; returns `columns` of the rows of `child` that went with the others.

    `child` refers to `model` by one key. Its rows are locked in the order of theirs.
    """
    wanted = list(ids)
    referring, own = _deletes(model)
    if connections["default"].vendor == "postgresql":
        return fetch_all("default", _in_one_returning(model, child, columns), [wanted] * (len(referring) + 1))
    gone: list[Row] = []
    for referrer, statement in referring:
        if referrer is child:
            gone = fetch_all("default", f"{statement} RETURNING {columns}", [wanted])
        else:
            execute(statement, [wanted])
    execute(own, [wanted])
    return gone


@cache
def _deletes(model: type[models.Model]) -> tuple[list[tuple[type[models.Model], str]], str]:
    """The deletes from the tables that refer to `model`, and the one from its own."""
    referring = []
    for relation in model._meta.related_objects:  # noqa: SLF001 - Django's own name
        if relation.on_delete is models.CASCADE:
            child = relation.related_model
            _refuse_grandchildren(child)
            referring.append((child, _delete(child, str(relation.field.column))))
    return referring, _delete(model, str(model._meta.pk.column))  # noqa: SLF001


@cache
def _in_one(model: type[models.Model]) -> str:
    referring, own = _deletes(model)
    parts = ", ".join(f"gone_{number} AS ({delete})" for number, (_, delete) in enumerate(referring))
    return f"WITH {parts} {own}" if parts else own


@cache
def _in_one_returning(model: type[models.Model], child: type[models.Model], columns: str) -> str:
    referring, own = _deletes(model)
    parts = [
        f"told AS ({_delete_in_order(model, child)} RETURNING {columns})"
        if referrer is child
        else f"gone_{number} AS ({delete})"
        for number, (referrer, delete) in enumerate(referring)
    ]
    return f"WITH {', '.join(parts)}, own AS ({own}) SELECT {columns} FROM told"  # noqa: S608


def _delete(model: type[models.Model], column: str) -> str:
    return f"DELETE FROM {model._meta.db_table} WHERE {column} = ANY(%s)"  # noqa: S608, SLF001 - names of our models


def _delete_in_order(model: type[models.Model], child: type[models.Model]) -> str:
    related = model._meta.related_objects  # noqa: SLF001
    (column,) = (relation.field.column for relation in related if relation.related_model is child)
    table, key = child._meta.db_table, child._meta.pk.column  # noqa: SLF001
    locked = f"SELECT {key} FROM {table} WHERE {column} = ANY(%s) ORDER BY {key} FOR UPDATE"  # noqa: S608
    return f"DELETE FROM {table} WHERE {key} IN ({locked})"  # noqa: S608


def _refuse_grandchildren(child: type[models.Model]) -> None:
    for relation in child._meta.related_objects:  # noqa: SLF001
        if relation.on_delete is models.CASCADE:
            names = f"{relation.related_model.__name__} hangs on {child.__name__} by CASCADE"
            raise ImproperlyConfigured(f"{names}: delete_rows() goes one step deep")
