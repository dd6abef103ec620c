"""The demo as a program, twice with one catalog, and a restart of the server in between."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts.server import CatalogServer

ROOT = Path(__file__).resolve().parents[2]


def run_demo(server: CatalogServer, half: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tasks.spark.demo", half]
    return subprocess.run(
        [*command, "--catalog-uri", server.uri, "--warehouse", server.warehouse],
        env={**server.environment, "PYTHONPATH": str(ROOT)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_the_demo_runs_again_and_survives_a_restart(live_catalog: CatalogServer, tmp_path: Path) -> None:
    for _ in range(2):
        loaded = run_demo(live_catalog, "load", tmp_path)
        assert loaded.returncode == 0, loaded.stdout + loaded.stderr
        assert "flights: 336776 rows read back through Spark" in loaded.stdout
    live_catalog.kill()
    live_catalog.restart()
    verified = run_demo(live_catalog, "verify", tmp_path)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    for reader in ("Spark", "PyIceberg"):
        assert f"flights: 336776 rows read back through {reader}, equal to the CSV file" in verified.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_failing_step_ends_the_demo_in_one_line(live_catalog: CatalogServer, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tasks.spark.demo", "verify"]
    done = subprocess.run(
        [*command, "--catalog-uri", live_catalog.uri, "--warehouse", "there-is-none"],
        env={**live_catalog.environment, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("demo: step [2/3] start Spark")
    assert "there-is-none" in line
