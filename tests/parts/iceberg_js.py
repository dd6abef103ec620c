"""iceberg-js, a JavaScript client of the REST catalog."""

from __future__ import annotations

from tests.parts.node import NpmPackage

PACKAGE = NpmPackage("iceberg-js", "1.0.0", "2026-09-30", "dist/index.cjs")
