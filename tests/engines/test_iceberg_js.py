"""iceberg-js, the catalog client for JavaScript."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.parts import iceberg_js
from tests.parts.server import CatalogServer

pytestmark = pytest.mark.part("iceberg_js")

PROGRAM = Path(__file__).with_name("iceberg_js_program.js")
SECONDS = 120


def test_iceberg_js_walks_through_the_catalog(lake: CatalogServer) -> None:
    node, module = iceberg_js.PACKAGE.require()
    done = subprocess.run(
        [node, PROGRAM, module, lake.uri, lake.warehouse, "js"], capture_output=True, text=True, check=False,
        timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout) == {
        "config": True,
        "namespaces": [{"namespace": ["js", "a/b c+%.d"]}],
        "updated": {"updated": ["a"], "removed": ["owner"], "missing": []},
        "properties": "b",
        "vended": True,
        "unchanged": None,
        "committed": "red",
        "renamed": [False, True],
        "conflict": [409, "AlreadyExistsException"],
        "missing": [404, "NoSuchTableException", True],
        "tables": [],
        "exists": False,
    }
