"""Deleting rows with what hangs on them, in statements that are composed once a model.

Django's own `delete` looks at the rows and at each table that refers to them, and composes every statement anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from django.core.exceptions import ImproperlyConfigured
from django.db import connections, models

from icekeeper.kernel.sql import execute


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
    for statement in (*referring, own):
        execute(statement, [wanted])


@cache
def _deletes(model: type[models.Model]) -> tuple[list[str], str]:
    """The deletes from the tables that refer to `model`, and the one from its own."""
    referring = []
    for relation in model._meta.related_objects:  # noqa: SLF001 - Django's own name
        if relation.on_delete is models.CASCADE:
            child = relation.related_model
            _refuse_grandchildren(child)
            referring.append(_delete(child, str(relation.field.column)))
    return referring, _delete(model, str(model._meta.pk.column))  # noqa: SLF001


@cache
def _in_one(model: type[models.Model]) -> str:
    referring, own = _deletes(model)
    parts = ", ".join(f"gone_{number} AS ({delete})" for number, delete in enumerate(referring))
    return f"WITH {parts} {own}" if parts else own


def _delete(model: type[models.Model], column: str) -> str:
    return f"DELETE FROM {model._meta.db_table} WHERE {column} = ANY(%s)"  # noqa: S608, SLF001 - names of our models


def _refuse_grandchildren(child: type[models.Model]) -> None:
    for relation in child._meta.related_objects:  # noqa: SLF001
        if relation.on_delete is models.CASCADE:
            names = f"{relation.related_model.__name__} hangs on {child.__name__} by CASCADE"
            raise ImproperlyConfigured(f"{names}: delete_rows() goes one step deep")
