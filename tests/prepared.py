"""What fixtures that many tests begin with add: rows and files, made once in a run and put there again by copying.

A copy has the ids of the first making, so `forget_tables` empties what this process remembers of rows by their ids.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from catalog.selectors.metadata_cache import metadata_cache
from catalog.services import contention
from storage.io import stores
from storage.vending.vend import _cache_of
from tenancy.authn.assumed_roles import known_roles
from tenancy.services.registered_users import registered_users

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Table:
    """Rows that a fixture added to a table or changed there, with all columns; `key` are the columns of its key."""

    name: str
    columns: list[str]
    key: list[str]
    rows: list[Row]

    def put(self) -> None:
        names, key = (", ".join(f'"{name}"' for name in some) for some in (self.columns, self.key))
        rest = [name for name in self.columns if name not in self.key]
        change = ", ".join(f'"{name}" = excluded."{name}"' for name in rest)
        places = f"({', '.join(['%s'] * len(self.columns))})"
        with connection.cursor() as cursor:
            cursor.execute(
                f'INSERT INTO "{self.name}" ({names}) VALUES {", ".join([places] * len(self.rows))} '  # noqa: S608
                f"ON CONFLICT ({key}) DO {f'UPDATE SET {change}' if rest else 'NOTHING'}",
                [value for row in self.rows for value in row],
            )


@dataclass(frozen=True)
class Made:
    tables: list[Table]
    files: dict[Path, bytes | None]
    """With their content; folders with None, and before what is in them."""


Key = tuple[str, ...]
"""What was made, one on the other: each by its name and the settings that it was made under."""


class Prepared:
    """What one test has of it. `root` is the folder of the local warehouses: the same in every test of a run, as files
    name each other."""

    def __init__(self, root: Path, made: dict[Key, Made]) -> None:
        self.root = root
        self._made = made
        self._there: Key = ()

    def empty_root(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()

    def once(self, name: str, make: Callable[[], object]) -> None:
        """`make()`, or a copy of all that it added when it was made before on the same ground.

        It may refer to what came from here before, in this test, and to what every test has under the same ids.
        """
        self._there = (*self._there, name, settings.ICEKEEPER.model_dump_json(exclude=_of_authentication()))
        if (made := self._made.get(self._there)) is not None:
            with transaction.atomic():  # at whose end rows have what they refer to
                for table in made.tables:
                    table.put()
            for path, content in made.files.items():
                if content is None:
                    path.mkdir()
                else:
                    path.write_bytes(content)
        else:
            rows_before, files_before = self._rows(), self._files()
            make()
            self._made[self._there] = Made(list(self._difference(rows_before)), self._files_beyond(files_before))
        forget_tables()

    def _rows(self) -> dict[str, set[Row]]:
        return {name: set(self._rows_of(name)) for name in sorted(connection.introspection.table_names())}

    @staticmethod
    def _rows_of(name: str) -> list[Row]:
        with connection.cursor() as cursor:
            cursor.execute(f'SELECT * FROM "{name}"')  # noqa: S608 - a name of our own
            return [tuple(map(_as_written, row)) for row in cursor]

    def _difference(self, before: dict[str, set[Row]]) -> Iterator[Table]:
        for name, known in before.items():
            rows = [row for row in self._rows_of(name) if row not in known]
            if rows:
                yield Table(name, *_columns_and_key(name), rows)

    def _files(self) -> set[Path]:
        return set(self.root.rglob("*"))

    def _files_beyond(self, before: set[Path]) -> dict[Path, bytes | None]:
        return {path: path.read_bytes() if path.is_file() else None for path in sorted(self._files() - before)}


@cache
def _of_authentication() -> set[str]:
    """Settings that say who calls, such as the port of a test's own provider, and change nothing of what is made."""
    kinds = ("openid_", "kubernetes", "enable_kubernetes", "authentication")
    return {name for name in type(settings.ICEKEEPER).model_fields if name.startswith(kinds)}


@cache
def _columns_and_key(table: str) -> tuple[list[str], list[str]]:
    with connection.cursor() as cursor:
        key = connection.introspection.get_primary_key_columns(cursor, table)
        assert key, f"{table} has no primary key"
        cursor.execute(f'SELECT * FROM "{table}" LIMIT 0')  # noqa: S608 - a name of our own
        return [name for name, *_ in cursor.description], key


def _as_written(value: Any) -> Any:
    match value:
        case memoryview():
            return bytes(value)
        case datetime():
            return connection.ops.adapt_datetimefield_value(value)
        case _:
            return value


def forget_tables() -> None:
    """What this process remembers of rows was true for the database of another test, or before a copy was put there."""
    registered_users.clear()
    known_roles.clear()
    contention._turns.clear()
    stores._open.clear()
    _cache_of.cache_clear()
    for name in ("_documents", "_last_seen", "_judged", "_parsed"):
        getattr(metadata_cache, name).clear()
