"""Fixtures: users of the console, and a table with a snapshot whose files a test writes."""

from __future__ import annotations

from tests.console.warehouses.conftest import builtin, catalog, visit  # noqa: F401 - fixtures
