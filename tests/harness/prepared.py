"""Rows and files of fixtures that many tests use: created once per run, copied for every later test.

A copy has the ids of the original, so `clear_process_caches` empties the caches of this process that have these ids.
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

from catalog.selectors.tables.metadata_cache import metadata_cache
from catalog.services.commit import queue
from storage.io import stores
from storage.vending.vend import _cache_of
from tenancy.authn.requests import known_roles
from tenancy.selectors.projects import server_id
from tenancy.services.registration import registered_users

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Table:
    """Rows that a fixture inserted or updated in a table, with all columns; `key` names those of the primary key."""

    name: str
    columns: list[str]
    key: list[str]
    rows: list[Row]

    def insert(self) -> None:
        names, key = (", ".join(f'"{name}"' for name in some) for some in (self.columns, self.key))
        rest = [name for name in self.columns if name not in self.key]
        change = ", ".join(f'"{name}" = excluded."{name}"' for name in rest)
        locations = f"({', '.join(['%s'] * len(self.columns))})"
        with connection.cursor() as cursor:
            cursor.execute(
                f'INSERT INTO "{self.name}" ({names}) VALUES {", ".join([locations] * len(self.rows))} '  # noqa: S608
                f"ON CONFLICT ({key}) DO {f'UPDATE SET {change}' if rest else 'NOTHING'}",
                [value for row in self.rows for value in row],
            )


@dataclass(frozen=True)
class Recorded:
    tables: list[Table]
    files: dict[Path, bytes | None]
    """Contents by path; None for a folder, which comes before the files in it."""


Key = tuple[str, ...]
"""Names and settings of the fixtures that were applied, in order: the state that a record belongs to."""


class Prepared:
    """The copied fixtures of one test.

    `root` is the folder of local warehouses, the same in all tests of a run: rows and files contain its path.
    """

    def __init__(self, root: Path, recorded: dict[Key, Recorded]) -> None:
        self.root = root
        self._recorded = recorded
        self._applied: Key = ()

    def empty_storage(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()

    def create_or_copy(self, name: str, create: Callable[[], object]) -> None:
        """Call `make`, or copy what it wrote when it was called in the same state before.

        Its rows may refer to rows of earlier calls in this test and to rows that every test has under the same ids. It
        must not delete rows.
        """
        self._applied = (*self._applied, name, settings.ICEKEEPER.model_dump_json(exclude=_of_authentication()))
        if (known := self._recorded.get(self._applied)) is not None:
            with transaction.atomic():  # foreign keys are checked at its end
                for table in known.tables:
                    table.insert()
            for path, content in known.files.items():
                if content is None:
                    path.mkdir()
                else:
                    path.write_bytes(content)
        else:
            rows_before, files_before = self._rows(), self._files()
            create()
            self._recorded[self._applied] = Recorded(
                list(self._difference(rows_before)), self._files_beyond(files_before)
            )
        clear_process_caches()

    def _rows(self) -> dict[str, set[Row]]:
        return {name: set(self._rows_of(name)) for name in sorted(connection.introspection.table_names())}

    @staticmethod
    def _rows_of(name: str) -> list[Row]:
        with connection.cursor() as cursor:
            cursor.execute(f'SELECT * FROM "{name}"')  # noqa: S608 - a name of our own
            return [tuple(map(_as_written, row)) for row in cursor]

    def _difference(self, before: dict[str, set[Row]]) -> Iterator[Table]:
        for name, known in before.items():
            now = self._rows_of(name)
            rows = [row for row in now if row not in known]
            assert len(now) >= len(known), f"rows of {name} were deleted"
            if rows:
                yield Table(name, *_columns_and_key(name), rows)

    def _files(self) -> set[Path]:
        return set(self.root.rglob("*"))

    def _files_beyond(self, before: set[Path]) -> dict[Path, bytes | None]:
        return {path: path.read_bytes() if path.is_file() else None for path in sorted(self._files() - before)}


@cache
def _of_authentication() -> set[str]:
    """Return the names of authentication settings: they differ between tests (ports) and do not change the
    created rows.
    """
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


def clear_process_caches() -> None:
    """Empty the caches of rows, which belong to the database of another test, or to the time before a copy."""
    registered_users.clear()
    known_roles.clear()
    queue._queues.clear()
    stores._open.clear()
    _cache_of.cache_clear()
    server_id.cache_clear()
    for name in ("_documents", "_last_seen", "_checked_members", "_parsed"):
        getattr(metadata_cache, name).clear()
