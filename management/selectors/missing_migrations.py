"""Migrations of this version that a database does not have yet."""

from __future__ import annotations

from functools import cache

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

Name = tuple[str, str]
"""App and migration, such as ("catalog", "0001_initial")."""


def missing_migrations(connection: BaseDatabaseWrapper) -> list[Name]:
    """Return the names of the migrations that the database lacks; one small statement."""
    return sorted(_known() - set(MigrationRecorder(connection).applied_migrations()))


@cache
def _known() -> frozenset[Name]:
    return frozenset(MigrationLoader(None).disk_migrations)
