"""Everything that a failed request must not change, as one value: all rows of all tables, all files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from django.apps import apps
from django.db import connection

PROJECTS = {"catalog", "events", "storage", "tenancy", "tasks"}
NOT_COUNTED = {"catalog_idempotencyrecord", "tenancy_auditrecord", "tenancy_auditchain"}
"""Rows that a failed request writes: its response for a retry with the same Idempotency-Key, and the audit record."""


@dataclass(frozen=True)
class Fingerprint:
    """Equal when nothing changed; the difference of two lists the changed tables and files."""

    rows: dict[str, str]
    files: dict[str, str]


def take_fingerprint(storage_root: Path) -> Fingerprint:
    rows = _rows_in_postgres() if connection.vendor == "postgresql" else _rows()
    files = {
        path.removeprefix(f"{storage_root}/"): sha256(Path(path).read_bytes()).hexdigest()
        for path in list_below(storage_root)[1]
    }
    return Fingerprint(rows, files)


def list_below(folder: Path) -> tuple[list[str], list[str]]:
    """Return the paths of all folders, parents first, and of all files; `Path.rglob` takes several times as long."""
    folders, files = [], []
    for at, inner, names in os.walk(folder):
        folders += [f"{at}/{name}" for name in inner]
        files += [f"{at}/{name}" for name in names]
    return folders, files


def _rows() -> dict[str, str]:
    rows = {}
    with connection.cursor() as cursor:
        for table in _tables():
            cursor.execute(f'SELECT * FROM "{table}"')  # noqa: S608 - a name of our own
            rows[table] = sha256("\n".join(sorted(map(repr, cursor.fetchall()))).encode()).hexdigest()
    return rows


def _rows_in_postgres() -> dict[str, str]:
    """One statement, as tests take many thousands of fingerprints."""
    hashes = [f"""(SELECT md5(string_agg(t::text, E'\\n' ORDER BY t::text)) FROM "{table}" t)""" for table in _tables()]  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(hashes)}")
        return dict(zip(_tables(), cursor.fetchone(), strict=True))


@cache
def _tables() -> list[str]:
    models = apps.get_models(include_auto_created=True)
    ours = {model._meta.db_table for model in models if model.__module__.split(".")[0] in PROJECTS}
    return sorted(ours - NOT_COUNTED)
