"""Deletion of rows: in batches, or with the rows that refer to them in one statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections, models
from django.db.models import QuerySet

from icekeeper.kernel.db.sql import Row, execute, fetch_all
from icekeeper.kernel.db.transactions import write_transaction

BATCH = 500
"""Rows of one delete: SQLite limits the number of parameters, and other transactions must not wait long for locks."""


def delete_in_batches(old: QuerySet[Any], *, batch: int = BATCH, checkpoint: Callable[[], object] | None = None) -> int:
    """Delete the rows of `old` and return their number.

    Each batch is a transaction of its own and skips locked rows, so this can be interrupted at any time and can run
    concurrently with requests and with itself. `checkpoint` is called before each batch.
    """
    deleted = 0
    while True:
        if checkpoint is not None:
            checkpoint()
        with write_transaction():
            ids = list(old.order_by("pk").select_for_update(skip_locked=True).values_list("pk", flat=True)[:batch])
            old.model._default_manager.filter(pk__in=ids).delete()  # noqa: SLF001 - Django's own name for it
        deleted += len(ids)
        if len(ids) < batch:
            return deleted


def delete_rows(model: type[models.Model], ids: Sequence[object]) -> None:
    """Delete rows by primary key, and those that refer to them by CASCADE; load nothing and send no signal.

    For references by RESTRICT or PROTECT the database raises an error, at the commit at the latest. It is one statement
    on PostgreSQL, one for each table on SQLite, composed once for each model: Django's `delete` reads all rows first.
    """
    wanted = list(ids)
    referring, own = _delete_statements(model)
    if connections["default"].vendor == "postgresql":
        execute(_single_statement(model), [wanted] * (len(referring) + 1))
        return
    for statement in (*(delete for _, delete in referring), own):
        execute(statement, [wanted])


def delete_rows_returning(
    model: type[models.Model], ids: Sequence[object], *, child: type[models.Model], columns: str
) -> list[Row]:
    """Do what `delete_rows` does, and return `columns` of the deleted rows of `child`.

    `child` refers to `model` by one foreign key. Its rows are locked in the order of their primary keys.
    """
    wanted = list(ids)
    referring, own = _delete_statements(model)
    if connections["default"].vendor == "postgresql":
        return fetch_all("default", _single_statement_returning(model, child, columns), [wanted] * (len(referring) + 1))
    deleted: list[Row] = []
    for referrer, statement in referring:
        if referrer is child:
            deleted = fetch_all("default", f"{statement} RETURNING {columns}", [wanted])
        else:
            execute(statement, [wanted])
    execute(own, [wanted])
    return deleted


@cache
def _delete_statements(model: type[models.Model]) -> tuple[list[tuple[type[models.Model], str]], str]:
    """Return the deletes from the tables that refer to `model`, each with its model, and that from its own table."""
    referring = []
    for relation in model._meta.related_objects:  # noqa: SLF001 - Django's own name
        if relation.on_delete is models.CASCADE:
            child = relation.related_model
            _require_no_grandchildren(child)
            referring.append((child, _delete(child, str(relation.field.column))))
    return referring, _delete(model, str(model._meta.pk.column))  # noqa: SLF001


@cache
def _single_statement(model: type[models.Model]) -> str:
    referring, own = _delete_statements(model)
    parts = ", ".join(f"deleted_{number} AS ({delete})" for number, (_, delete) in enumerate(referring))
    return f"WITH {parts} {own}" if parts else own


@cache
def _single_statement_returning(model: type[models.Model], child: type[models.Model], columns: str) -> str:
    referring, own = _delete_statements(model)
    parts = [
        f"returned AS ({_delete_in_order(model, child)} RETURNING {columns})"
        if referrer is child
        else f"deleted_{number} AS ({delete})"
        for number, (referrer, delete) in enumerate(referring)
    ]
    return f"WITH {', '.join(parts)}, own AS ({own}) SELECT {columns} FROM returned"  # noqa: S608


def _delete(model: type[models.Model], column: str) -> str:
    return f"DELETE FROM {model._meta.db_table} WHERE {column} = ANY(%s)"  # noqa: S608, SLF001 - names of our models


def _delete_in_order(model: type[models.Model], child: type[models.Model]) -> str:
    related = model._meta.related_objects  # noqa: SLF001
    (column,) = (relation.field.column for relation in related if relation.related_model is child)
    table, key = child._meta.db_table, child._meta.pk.column  # noqa: SLF001
    locked = f"SELECT {key} FROM {table} WHERE {column} = ANY(%s) ORDER BY {key} FOR UPDATE"  # noqa: S608
    return f"DELETE FROM {table} WHERE {key} IN ({locked})"  # noqa: S608


def _require_no_grandchildren(child: type[models.Model]) -> None:
    for relation in child._meta.related_objects:  # noqa: SLF001
        if relation.on_delete is models.CASCADE:
            reference = f"{relation.related_model.__name__} refers to {child.__name__} by CASCADE"
            raise ImproperlyConfigured(f"{reference}: delete_rows() deletes only direct references")
